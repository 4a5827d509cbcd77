"""Writes the page of a study: the verdict, a figure and a table of the arms, curves, costs and power.

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
from electra.pages.glossary import METRICS, clip_interval
from electra.pages.page import Block, Facts, Figures, Fold, Number, Page, Section, Table, Text, publish

FORMAT = 2
SCALE_NOTE = (
    "The models, data and tests differ from ours: compare the order and the relative differences, never the"
    " values."
)
PAPER_COLUMN = "Paper (another scale)"
INTERVAL_NOTE = "are 95 % intervals over seeds."
MIN_SEEDS = 3  # fewer give intervals too wide to draw


@dataclass(frozen=True)
class Results:
    """The contents of results.json, with the titles of its arms and metrics."""

    record: Mapping[str, Any]

    def __getitem__(self, key: Any) -> Any:
        return self.record[key]

    @property
    def arms(self) -> Mapping[str, Any]:
        """The results of each arm at the whole budget."""
        arms: Mapping[str, Any] = self["budgets"][-1]["arms"]
        return arms

    def scores(self, metric: str) -> dict[str, Mapping[str, Any]]:
        """Returns a metric's statistics for the arms that have it."""
        return {name: arm["scores"][metric] for name, arm in self.arms.items() if metric in arm["scores"]}

    def arm_title(self, arm: str) -> str:
        """Returns the title of an arm."""
        return str(self["study"]["arms"][arm]["title"])

    @property
    def baseline(self) -> str:
        """The title of the baseline; "its own baseline" if arms have different ones."""
        baselines = {*baselines_of(self["study"]).values()}
        return "its own baseline" if len(baselines) > 1 else self.arm_title(self["study"]["baseline"])

    def title(self, metric: str) -> str:
        """Returns the title of a metric."""
        if metric == "panel":
            return "Mean over tasks"
        return str(self["panel"][metric]["title"]) if metric in self["panel"] else METRICS[metric].title

    def meaning(self, metric: str) -> str:
        """Returns a sentence that explains a metric."""
        if metric == "panel":
            return "The mean over the evaluation tasks. Higher is better."
        if metric in self["panel"]:
            return f"{self['panel'][metric]['metric'].replace('_', ' ').capitalize()}, higher is better."
        return METRICS[metric].meaning

    def clipped(self, metric: str, score: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns statistics with their interval clipped to the possible range of the metric."""
        names = (
            self["panel"].values() if metric == "panel" else [self["panel"].get(metric, {"metric": metric})]
        )
        low, high = score.get("low"), score.get("high")
        for name in {each["metric"] for each in names}:
            low, high = clip_interval(name, low, high)
        return {**score, "low": low, "high": high}

    def for_figure(self, metric: str, score: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns statistics for a figure, without an interval if there are too few seeds."""
        if score.get("n", 0) < MIN_SEEDS:
            return {"mean": score.get("mean")}
        return self.clipped(metric, score)


def write_report(out: Path) -> Path:
    """Writes the page of the results in a study's folder and returns its path.

    Raises ConfigError if there are no results of this version.
    """
    folder = StudyFolder(out)
    results = durable.read_record(
        folder.results, FORMAT, ConfigError, "the results of a study", fix="Run electra ablate"
    )
    return publish(page(Results(results)), folder.page, out)


def page(results: Results) -> Page:
    """Returns the page of a study."""
    study, panel = results["study"], results["panel"]
    unfinished = f"Not finished: the numbers below are for the finished runs. {_missing(results)}"
    without_tasks = (
        "Without evaluation tasks there are only pre-training metrics, and objectives have few of those in"
    )
    return Page(
        study["title"],
        [
            _result(results),
            _scores(results),
            _along_compute(results),
            _cost(results),
            _statistical_power(results),
            _recipes(results),
        ],
        kicker="electra ablate",
        summary=" ".join(filter(None, (verdict(results), study["question"]))),
        opening=[
            _facts(results),
            None if results["complete"] else Text(unfinished, "warning"),
            *(Text(f"Failed: {run['job']}: {run['problem']}", "warning") for run in results["failed"]),
            None if panel else Text(f"{without_tasks} common.", "quiet"),
        ],
    )


def _missing(results: Results) -> str:
    """Returns a sentence on the runs that are still to be done, by arm."""
    seeds: dict[str, list[str]] = {}
    for job in results["missing"]:
        budget_note = "" if job["share"] == 1 else f" at {job['share']:g} of the budget"
        seeds.setdefault(f"{results.arm_title(job['arm'])}{budget_note}", []).append(str(job["seed"]))
    listed = [f"{arm}, seed{'s' * (len(numbers) > 1)} {', '.join(numbers)}" for arm, numbers in seeds.items()]
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


def verdict(results: Results) -> str:
    """Returns a sentence on how the arms compare with the baseline; empty if none was tested."""
    metric = results["primary"]
    tests = {
        name: test
        for name, score in (results.scores(metric) if metric else {}).items()
        if (test := score.get("against_baseline")) and test.get("p_holm") is not None
    }
    if not tests:
        return ""

    def listed(sign: int) -> str:
        clear = [
            name for name, test in tests.items() if test["p_holm"] < 0.05 and sign * test["difference"] > 0
        ]
        return ", ".join(map(results.arm_title, clear))

    parts = [
        f"{names} {way} {results.baseline}"
        for sign, way in ((1, "above"), (-1, "below"))
        if (names := listed(sign))
    ]
    if not parts:
        return f"{results.title(metric)}: no arm differs measurably from {results.baseline}."
    num_unclear = sum(test["p_holm"] >= 0.05 for test in tests.values())
    others = (
        f"; no measurable difference for {num_unclear} other{'s' * (num_unclear > 1)}" if num_unclear else ""
    )
    return f"{results.title(metric)}: {', '.join(parts)} (p < 0.05){others}."


def _result(results: Results) -> Section | None:
    """Returns the section on the primary metric, with its tests; None if there is no primary metric."""
    metric, study = results["primary"], results["study"]
    if metric is None:
        return None
    paper = study["paper"]
    source = None
    if _with_paper(study):
        source = Text(f"Paper: {paper['metric']}, {paper['source']}. {paper['note']} {SCALE_NOTE}", "quiet")
    elif paper["source"]:
        source = Text(f"Paper ({paper['source']}): {paper['note']}", "quiet")
    num_seeds = max((score["n"] for score in results.scores(metric).values()), default=0)
    lead = (
        f"Mean over {num_seeds} seeds with 95 % intervals; every arm is tested against {results.baseline},"
        " with a t-test paired by seed."
    )
    if num_seeds < 2:
        lead = "One seed so far: no intervals and no tests; differences may be due to chance."
    figures = Figures.of(_score_figure(results, metric), _differences(results, metric))
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
                "arm": results.arm_title(name) + (" (baseline)" if name in baselines else ""),
                "score": _score_number(results, metric, score),
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


def _score_number(results: Results, metric: str, score: Mapping[str, Any]) -> Number:
    clipped = results.clipped(metric, score)
    return Number(score.get("mean"), "score", clipped["low"], clipped["high"])


def _reached(results: Results) -> list[Block]:
    """Returns a sentence for each arm on the compute it needs to reach the baseline's final score.

    Empty with a single budget.
    """
    baseline, largest, smallest = results["study"]["baseline"], results["budgets"][-1], results["budgets"][0]
    sentences = []
    for arm, flops in results["reached"].items():
        if arm == baseline:
            continue
        goal = f"the final mean of {results.arm_title(baseline)}"
        if flops is None:
            sentences.append(f"{results.arm_title(arm)} does not reach {goal} within the budget.")
            continue
        or_less = " or less: it is above that at its smallest budget" if flops == smallest["flops"] else ""
        compute = f"{100 * flops / largest['flops']:.0f} % of its compute{or_less}"
        sentences.append(f"{results.arm_title(arm)} reaches {goal} with {compute}.")
    return [Text(text) for text in sentences]


def _scores(results: Results) -> Section:
    """Returns the section on all other metrics, at the whole budget."""
    metrics = dict.fromkeys(metric for arm in results.arms.values() for metric in arm["scores"])
    shown = [metric for metric in metrics if metric != results["primary"]]
    tables = []
    for group in (shown[i : i + 4] for i in range(0, len(shown), 4)):
        rows = [
            [
                results.arm_title(name),
                *(_score_number(results, metric, arm["scores"].get(metric, {})) for metric in group),
            ]
            for name, arm in results.arms.items()
        ]
        tables.append(Table(["Arm", *map(results.title, group)], rows))
    lead = (
        "Held-out metrics are from the last evaluation. Language-model losses are those of the small"
        " generator if an arm has one."
    )
    return Section(
        "All scores", [Figures.of(*(_score_figure(results, metric) for metric in shown)), *tables], lead
    )


def _along_compute(results: Results) -> Section | None:
    lead = "Held-out metrics during training: means over seeds; bands are 95 % intervals."
    curves, figures = results["curves"], []
    for metric in dict.fromkeys(metric for arm in curves.values() for metric in arm):
        series = []
        for name, arm in curves.items():
            x, y, low, high = [*arm[metric].values()] if metric in arm else ([], [], [], [])
            ends = [clip_interval(metric, *pair) for pair in zip(low, high, strict=True)]
            has_bands = len(results["seeds"]) >= MIN_SEEDS and any(least is not None for least, _ in ends)
            series.append(
                Series(results.arm_title(name), x, y, *(zip(*ends, strict=True) if has_bands else ()))
            )
        name, title = f"curve-{metric.replace('_', '-')}", METRICS[metric].title
        figures.append(Figure(name, title, METRICS[metric].meaning, series, y=title, axis="flops"))
    return Section("During training", [Figures.of(*figures)], lead) if figures else None


def _score_figure(results: Results, metric: str) -> Figure:
    """Draws a metric of all arms: over the budgets, over the study's axis, or as one row per arm."""
    study, budgets, final = results["study"], results["budgets"], results.scores(metric)
    name, title, meaning = metric.replace("_", "-"), results.title(metric), results.meaning(metric)
    if len(budgets) > 1:
        series = [
            Series.through(results.arm_title(arm), [_at_budget(results, metric, arm, b) for b in budgets])
            for arm in study["arms"]
        ]
        note = f"{meaning} Bands {INTERVAL_NOTE}"
        return Figure(name, title, note, series, y=title, axis="flops")
    on_axis = {arm: keys for arm, keys in study["arms"].items() if keys["at"] is not None}
    if final.keys() & on_axis.keys():
        joined: dict[str, list[tuple[float, Mapping[str, Any]]]] = {}
        for arm, keys in on_axis.items():
            points = joined.setdefault(keys["series"] or title, [])
            if arm in final:
                points.append((keys["at"], results.for_figure(metric, final[arm])))
        series = [
            Series.through(label, sorted(points, key=lambda point: point[0]))
            for label, points in joined.items()
        ]
        places = [keys["at"] for arm, keys in on_axis.items() if arm in final]
        for arm, keys in study["arms"].items():
            if arm not in on_axis:  # a level to compare with
                level = {"mean": final.get(arm, {}).get("mean")}
                series.append(Series.through(keys["title"], [(min(places), level), (max(places), level)]))
        note = f"{meaning} Bands {INTERVAL_NOTE}"
        return Figure(name, title, note, series, x=study["axis"], y=title)
    seeds = [
        (results.arm_title(arm), value) for arm, score in final.items() for value in score["by_seed"].values()
    ]
    series = [
        Series.through(
            "mean and 95 % interval",
            [(results.arm_title(arm), results.for_figure(metric, score)) for arm, score in final.items()],
        ),
        Series("one seed", [arm for arm, _ in seeds], [value for _, value in seeds], style="points"),
    ]
    return Figure(name, title, f"{meaning} Bars {INTERVAL_NOTE}", series, "categories", x=title)


def _at_budget(
    results: Results, metric: str, arm: str, budget: Mapping[str, Any]
) -> tuple[float, Mapping[str, Any]]:
    score = budget["arms"][arm]["scores"].get(metric, {})
    return budget["flops"], results.for_figure(metric, score)


def _differences(results: Results, metric: str) -> Figure | None:
    """Draws the difference of each arm from the baseline at the whole budget; None without any test."""
    tests = {name: score.get("against_baseline") for name, score in results.scores(metric).items()}
    rows = [
        (results.arm_title(name), test | {"mean": test["difference"]})
        for name, test in tests.items()
        if test and test["n"]
    ]
    if not rows:
        return None
    names = [name for name, _ in rows]
    series = [
        Series.through("mean and 95 % interval", rows),
        Series(results.baseline, names, [0.0] * len(names), style="reference"),
    ]
    note = "Paired by seed, at the whole budget. Where an interval includes zero, either may be better."
    axis = f"{results.title(metric)}, difference"
    return Figure("differences", "Against the baseline", note, series, "categories", x=axis)


def _cost(results: Results) -> Section:
    several_budgets = len(results["budgets"]) > 1
    rows = [
        {
            **arm,
            "name": results.arm_title(name)
            + (f", {budget['share']:g} of the budget" if several_budgets else ""),
            "off": arm["flops"] / budget["flops"] - 1,
            "alarms": f"{arm['collapsed']} of {arm['runs']}",
        }
        for budget in results["budgets"]
        for name, arm in budget["arms"].items()
    ]
    table = Table.of(
        rows,
        ("Arm", "name"),
        ("FLOPs per update", "flops_per_step", "power"),
        ("Updates", "steps", "plain"),
        ("Tokens", "tokens", "large"),
        ("Training FLOPs", "flops", "power"),
        ("Deviation from the budget", "off", "signed percent"),
        ("Time per run", "seconds", "seconds"),
        ("Collapse alarms", "alarms"),
    )
    lead = (
        "Every arm gets the number of updates nearest to the budget. FLOPs are counted as in the paper's"
        " script."
    )
    return Section("Compute", [table], lead)


def _statistical_power(results: Results) -> Section:
    reliability = results["budgets"][-1]["reliability"]
    table = Table.of(
        [{**row, "score": results.title(metric)} for metric, row in reliability.items()],
        ("Metric", "score"),
        ("sd between seeds", "sd", "score"),
        ("sd of paired differences", "sd_of_differences", "score"),
        ("Smallest detectable difference", "detectable", "score"),
        ("Seeds", "n", "plain"),
    )
    note = (
        "A true difference of the smallest detectable size would be found in four of five studies (two-sided"
        " paired test at 5 %). Not finding a smaller one is no evidence of equality."
    )
    lead = "How much seeds differ, pooled over the arms, and what this many seeds can show."
    return Section("Statistical power", [table, Text(note, "quiet")], lead)


def _recipes(results: Results) -> Section:
    """Returns the section on the settings in which the arms differ, and those they share."""
    settings_by_arm: dict[str, dict[str, Any]] = {
        name: dict(Table.pairs(recipe).rows)  # type: ignore[arg-type]
        for name, recipe in results["arms"].items()
    }
    keys = dict.fromkeys(key for recipe in settings_by_arm.values() for key in recipe)
    differing = [key for key in keys if len({recipe.get(key) for recipe in settings_by_arm.values()}) > 1]
    rows = [[key, *(recipe.get(key) for recipe in settings_by_arm.values())] for key in differing]
    one_arm = next(iter(settings_by_arm.values()))
    shared = Table.pairs({key: one_arm.get(key) for key in keys if key not in differing})
    return Section(
        "Settings of the arms",
        [
            Table(["Key", *map(results.arm_title, settings_by_arm)], rows),
            Fold("Settings that all arms share", [shared]),
        ],
    )
