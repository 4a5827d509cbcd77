"""The page of a study: its answer in one figure, the arms in a table, curves along the compute, and how far
to trust them. Without torch.

Every number comes from results.json, written by `electra ablate`; nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.artifacts.study import StudyFolder, baselines_of
from electra.foundation import durable
from electra.foundation.errors import ConfigError
from electra.pages.figures import Figure, Series
from electra.pages.glossary import METRICS
from electra.pages.page import Block, Facts, Figures, Fold, Number, Page, Section, Table, Text, publish

FORMAT = 2
SCALE = (
    "Another scale than ours: other models, data and tests. Compare the order and the relative gaps, never"
    " the values."
)
PAPER_COLUMN = "Paper (another scale)"
OVER_SEEDS = "are 95 % intervals over seeds."


@dataclass(frozen=True)
class Results:
    """What results.json holds, and how its arms and metrics are called."""

    record: Mapping[str, Any]

    def __getitem__(self, key: Any) -> Any:
        return self.record[key]

    @property
    def arms(self) -> Mapping[str, Any]:
        """Each arm at the whole budget."""
        found: Mapping[str, Any] = self["budgets"][-1]["arms"]
        return found

    def scores(self, metric: str) -> dict[str, Mapping[str, Any]]:
        """Of the arms that have this metric."""
        return {name: arm["scores"][metric] for name, arm in self.arms.items() if metric in arm["scores"]}

    def called(self, arm: str) -> str:
        return str(self["study"]["arms"][arm]["title"])

    def title(self, metric: str) -> str:
        if metric == "panel":
            return "Panel mean"
        return str(self["panel"][metric]["title"]) if metric in self["panel"] else METRICS[metric].title

    def meaning(self, metric: str) -> str:
        if metric == "panel":
            return "The mean of the panel's tasks. Higher is better."
        if metric in self["panel"]:
            return f"{self['panel'][metric]['metric'].replace('_', ' ').capitalize()}, higher is better."
        return METRICS[metric].meaning


def write_report(out: Path) -> Path:
    """Draw the results that lie in `out` and write their page; returns its path."""
    folder = StudyFolder(out)
    results = durable.read_record(
        folder.results, FORMAT, ConfigError, "the results of a study", fix="Run electra ablate"
    )
    return publish(page(Results(results)), folder.page, out)


def page(results: Results) -> Page:
    study, panel = results["study"], results["panel"]
    unfinished = f"Not finished: the numbers below are of the runs that are done. {_missing(results)}"
    alone = (
        "Without a transfer panel there are pre-training metrics only, and objectives have few of those in"
    )
    return Page(
        study["title"],
        [
            _answer(results),
            _scores(results),
            _along_compute(results),
            _cost(results),
            _trust(results),
            _recipes(results),
        ],
        kicker="electra ablate",
        summary=study["question"],
        opening=[
            _facts(results),
            None if results["complete"] else Text(unfinished, "warning"),
            *(Text(f"Failed: {one['job']}: {one['problem']}", "warning") for one in results["failed"]),
            None if panel else Text(f"{alone} common.", "quiet"),
        ],
    )


def _missing(results: Results) -> str:
    """The runs that are still to be done, by arm."""
    seeds: dict[str, list[str]] = {}
    for job in results["missing"]:
        at = "" if job["share"] == 1 else f" at {job['share']:g} of the budget"
        seeds.setdefault(f"{results.called(job['arm'])}{at}", []).append(str(job["seed"]))
    listed = [f"{arm}, seed{'s' * (len(several) > 1)} {', '.join(several)}" for arm, several in seeds.items()]
    return f"Missing: {'; '.join(listed)}."


def _facts(results: Results) -> Facts:
    runs = sum(arm["runs"] for budget in results["budgets"] for arm in budget["arms"].values())
    seeds = results["seeds"]
    items = (
        ("Arms", str(len(results.arms))),
        ("Training FLOPs of each", Number(results["flops"], "power"), f"budget {results['budget']}"),
        ("Seeds", str(len(seeds)), ", ".join(map(str, seeds))),
        ("Runs done", str(runs)),
        ("Recipe", str(results["recipe"])),
    )
    return Facts(items, large=True)


def _answer(results: Results) -> Section | None:
    """The primary score: the figure, and the table with the test against the baseline."""
    metric, study = results["primary"], results["study"]
    if metric is None:
        return None
    paper = study["paper"]
    source = None
    if _with_paper(study):
        source = Text(f"Paper: {paper['metric']}, {paper['source']}. {paper['note']} {SCALE}", "quiet")
    elif paper["source"]:
        source = Text(f"Paper ({paper['source']}): {paper['note']}", "quiet")
    done = max((score["n"] for score in results.scores(metric).values()), default=0)
    several = len(set(baselines_of(study).values())) > 1
    against = "its own baseline" if several else results.called(study["baseline"])
    lead = (
        f"Mean over {done} seeds with 95 % intervals; every arm is tested against {against}, seed by seed"
        " (paired t-test)."
    )
    if done < 2:
        lead = "One seed so far: no intervals and no tests, and differences may be nothing but that seed."
    figures = Figures.of(_score(results, metric), _differences(results, metric))
    return Section("Result", [figures, _tests(results, metric), source, *_reached(results)], lead)


def _with_paper(study: Mapping[str, Any]) -> bool:
    return any(arm["paper"] is not None for arm in study["arms"].values())


def _tests(results: Results, metric: str) -> Table:
    study = results["study"]
    baselines, rows = baselines_of(study).values(), []
    for name, arm in results.arms.items():
        score = arm["scores"].get(metric, {})
        test = score.get("against_baseline") or {}
        rows.append(
            {
                "arm": results.called(name) + (" (baseline)" if name in baselines else ""),
                "score": _interval(score),
                "difference": Number(test.get("difference"), "signed", test.get("low"), test.get("high")),
                "sd": score.get("sd"),
                "p": test.get("p"),
                "p_holm": test.get("p_holm"),
                "paper": study["arms"][name]["paper"],
            }
        )
    columns = [
        ("Arm", "arm"),
        (results.title(metric), "score"),
        ("sd", "sd", "score"),
        ("Against baseline", "difference"),
        ("p", "p", "p"),
        ("p (Holm)", "p_holm", "p"),
        (PAPER_COLUMN, "paper", "tenth"),
    ]
    return Table.of(rows, *columns[: None if _with_paper(study) else -1])


def _interval(score: Mapping[str, Any]) -> Number:
    return Number(score.get("mean"), "score", score.get("low"), score.get("high"))


def _reached(results: Results) -> list[Block]:
    """Studies with several budgets: how much compute an arm needs for what the baseline ends with."""
    own, whole, smallest = results["study"]["baseline"], results["budgets"][-1], results["budgets"][0]
    said = []
    for arm, flops in results["reached"].items():
        if arm == own:
            continue
        goal = f"the final mean of {results.called(own)}"
        if flops is None:
            said.append(f"{results.called(arm)} does not reach {goal} within the budget.")
            continue
        first = " or less: its smallest budget is above it already" if flops == smallest["flops"] else ""
        share = f"{100 * flops / whole['flops']:.0f} % of its compute{first}"
        said.append(f"{results.called(arm)} reaches {goal} with {share}.")
    return [Text(text) for text in said]


def _scores(results: Results) -> Section:
    """Every score at the whole budget."""
    metrics = dict.fromkeys(metric for arm in results.arms.values() for metric in arm["scores"])
    shown = [metric for metric in metrics if metric != results["primary"]]
    tables = []
    for group in (shown[i : i + 4] for i in range(0, len(shown), 4)):
        rows = [
            [results.called(name), *(_interval(arm["scores"].get(metric, {})) for metric in group)]
            for name, arm in results.arms.items()
        ]
        tables.append(Table(["Arm", *map(results.title, group)], rows))
    lead = (
        "Held-out pre-training metrics are of the last evaluation. Language-model losses are of the small"
        " generator where an arm has one."
    )
    return Section("All scores", [Figures.of(*(_score(results, one) for one in shown)), *tables], lead)


def _along_compute(results: Results) -> Section | None:
    lead = "Held-out metrics while the arms were trained: means over seeds, bands are 95 % intervals."
    curves, figures = results["curves"], []
    for metric in dict.fromkeys(metric for arm in curves.values() for metric in arm):
        series = []
        for name, arm in curves.items():
            x, y, low, high = [*arm[metric].values()] if metric in arm else ([], [], [], [])
            bounded = any(end is not None for end in low)
            series.append(Series(results.called(name), x, y, *((low, high) if bounded else ())))
        name, (title, meaning) = (
            f"curve-{metric.replace('_', '-')}",
            (METRICS[metric].title, METRICS[metric].meaning),
        )
        figures.append(Figure(name, title, meaning, series, y=title, axis="flops"))
    return Section("Along the compute", [Figures.of(*figures)], lead) if figures else None


def _score(results: Results, metric: str) -> Figure:
    """One score of all arms: along the budgets, along the study's axis, or as one row an arm."""
    study, budgets, final = results["study"], results["budgets"], results.scores(metric)
    name, title, meaning = metric.replace("_", "-"), results.title(metric), results.meaning(metric)
    placed = {arm: at for arm, one in study["arms"].items() if (at := one["at"]) is not None and arm in final}
    if len(budgets) > 1:
        series = [
            Series.through(
                results.called(arm),
                [(one["flops"], one["arms"][arm]["scores"].get(metric, {})) for one in budgets],
            )
            for arm in study["arms"]
        ]
        return Figure(name, title, f"{meaning} Bands {OVER_SEEDS}", series, y=title, axis="flops")
    if placed:
        labels = dict.fromkeys(arm["series"] for arm in study["arms"].values() if arm["at"] is not None)
        series = []
        for label in labels:
            members = [
                (at, final[arm]) for arm, at in placed.items() if study["arms"][arm]["series"] == label
            ]
            series.append(Series.through(label or title, sorted(members, key=lambda member: member[0])))
        ends = min(placed.values()), max(placed.values())
        for arm, one in study["arms"].items():
            if one["at"] is None:  # a level to compare with
                level = {"mean": final.get(arm, {}).get("mean")}
                series.append(Series.through(one["title"], [(end, level) for end in ends]))
        return Figure(name, title, f"{meaning} Bands {OVER_SEEDS}", series, x=study["axis"], y=title)
    seeds = [(results.called(arm), value) for arm, one in final.items() for value in one["by_seed"].values()]
    series = [
        Series.through("mean and 95 % interval", [(results.called(arm), one) for arm, one in final.items()]),
        Series("one seed", [arm for arm, _ in seeds], [value for _, value in seeds], style="points"),
    ]
    return Figure(name, title, f"{meaning} Bars {OVER_SEEDS}", series, "categories", x=title)


def _differences(results: Results, metric: str) -> Figure | None:
    """What the tests are about: each arm minus the baseline, at the whole budget."""
    tests = {name: score.get("against_baseline") for name, score in results.scores(metric).items()}
    rows = [
        (results.called(name), test | {"mean": test["difference"]})
        for name, test in tests.items()
        if test and test["n"]
    ]
    if not rows:
        return None
    baselines = set(baselines_of(results["study"]).values())
    level = "its baseline" if len(baselines) > 1 else results.called(baselines.pop())
    names = [name for name, _ in rows]
    series = [
        Series.through("mean and 95 % interval", rows),
        Series(level, names, [0.0] * len(names), style="reference"),
    ]
    note = (
        "Seed by seed, at the whole budget. An interval that holds zero leaves open which of the two is"
        " better."
    )
    axis = f"{results.title(metric)}, difference"
    return Figure("differences", "Against the baseline", note, series, "categories", x=axis)


def _cost(results: Results) -> Section:
    several = len(results["budgets"]) > 1
    rows = [
        {
            **arm,
            "name": results.called(name) + (f", {budget['share']:g} of the budget" if several else ""),
            "off": arm["flops"] / budget["flops"] - 1,
            "alarms": f"{arm['collapsed']} of {arm['runs']}",
        }
        for budget in results["budgets"]
        for name, arm in budget["arms"].items()
    ]
    table = Table.of(
        rows,
        ("Arm", "name"),
        ("FLOPs an update", "flops_per_step", "power"),
        ("Updates", "steps", "plain"),
        ("Tokens", "tokens", "large"),
        ("Training FLOPs", "flops", "power"),
        ("Off the budget", "off", "signed percent"),
        ("Time of a run", "seconds", "seconds"),
        ("Collapse alarms", "alarms"),
    )
    lead = (
        "Every arm gets the whole number of updates that comes nearest to the budget. FLOPs as the paper's"
        " script counts them."
    )
    return Section("Compute", [table], lead)


def _trust(results: Results) -> Section:
    reliability = results["budgets"][-1]["reliability"]
    table = Table.of(
        [{**one, "score": results.title(metric)} for metric, one in reliability.items()],
        ("Score", "score"),
        ("sd between seeds", "sd", "score"),
        ("sd of paired differences", "sd_of_differences", "score"),
        ("Smallest detectable difference", "detectable", "score"),
        ("Seeds", "n", "plain"),
    )
    note = (
        "Smallest detectable: a true difference of that size would be found in four of five studies"
        " (two-sided paired test at 5 %). A smaller difference that is not found is no evidence of equality."
    )
    lead = "What another seed changes, pooled over the arms, and what this many seeds can show."
    return Section("How far to trust this", [table, Text(note, "quiet")], lead)


def _recipes(results: Results) -> Section:
    """What the arms differ in, and each arm's recipe."""
    flat: dict[str, dict[str, Any]] = {
        name: dict(Table.pairs(recipe).rows)  # type: ignore[arg-type]
        for name, recipe in results["arms"].items()
    }
    keys = dict.fromkeys(key for one in flat.values() for key in one)
    differing = [key for key in keys if len({one.get(key) for one in flat.values()}) > 1]
    rows = [[key, *(one.get(key) for one in flat.values())] for key in differing]
    first = next(iter(flat.values()))
    same = Table.pairs({key: first.get(key) for key in keys if key not in differing})
    return Section(
        "What the arms differ in",
        [Table(["Key", *map(results.called, flat)], rows), Fold("What all arms have in common", [same])],
    )
