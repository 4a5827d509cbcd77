"""The page of a study: its answer in one figure, the arms in a table, curves along the compute, and how far
to trust them. Without torch.

Every number comes from results.json, written by `electra ablate`; nothing is computed here. Figures also go
to figures/ as standalone SVG.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from electra.artifacts.study import StudyFolder, baselines_of
from electra.foundation import durable
from electra.foundation.errors import ConfigError
from electra.pages import charts, svg
from electra.pages.page import (
    Block,
    Facts,
    Fold,
    Interval,
    Number,
    Section,
    Table,
    Text,
    render,
    write,
)
from electra.pages.study_figures import (
    along_compute,
    differences,
    metric_title,
    score_panel,
    title_of,
)

FORMAT = 2
SCALE = (
    "Another scale than ours: other models, data and tests. Compare the order and the relative gaps, never"
    " the values."
)
PAPER_COLUMN = "Paper (another scale)"


@dataclass(frozen=True)
class Change(Number):
    """A difference, always with its sign."""

    def __html__(self) -> str:
        if self.value is None:
            return super().__html__()
        shown = f"{100 * self.value:+.2f} %" if self.kind == "percent" else f"{self.value:+.4f}"
        return Markup('<data value="{}">{}</data>').format(repr(self.value), shown)


@dataclass(frozen=True)
class Published(Number):
    """A number as papers print it."""

    def __html__(self) -> str:
        return (
            super().__html__()
            if self.value is None
            else Markup('<data value="{}">{}</data>').format(repr(self.value), f"{self.value:.1f}")
        )


@dataclass(frozen=True)
class PValue(Number):
    def __html__(self) -> str:
        tiny = self.value is not None and self.value < 0.001
        return (
            Markup('<data value="{}">&lt; 0.001</data>').format(repr(self.value))
            if tiny
            else super().__html__()
        )


def write_report(out: Path) -> Path:
    """Draw the results that lie in `out` and write their page; returns its path."""
    results = durable.read_record(
        StudyFolder(out).results, FORMAT, ConfigError, "the results of a study", fix="Run electra ablate"
    )
    drawn: dict[str, str] = {}
    html = page(results, drawn)
    svg.write_all(out, drawn)
    write(StudyFolder(out).page, html)
    return StudyFolder(out).page


def page(results: Mapping[str, Any], drawn: dict[str, str]) -> str:
    study = results["study"]
    opening: list[Block] = [_facts(results)]
    if not results["complete"]:
        opening.append(
            Text(
                f"Not finished: the numbers below are of the runs that are done. {_missing(results)}",
                "warning",
            )
        )
    opening += [Text(f"Failed: {one['job']}: {one['problem']}", "warning") for one in results["failed"]]
    if not results["panel"]:
        opening.append(
            Text(
                "Without a transfer panel there are pre-training metrics only, and objectives have few of"
                " those in common.",
                "quiet",
            )
        )
    if not svg.available():
        opening.append(Text(svg.INSTALL, "quiet"))
    parts = (
        _answer(results, drawn),
        _scores(results, drawn),
        _along_compute(results, drawn),
        _cost(results),
        _trust(results),
        _recipes(results),
    )
    sections = [part for part in parts if part is not None]
    return render(
        study["title"], sections, kicker="electra ablate", summary=study["question"], opening=opening
    )


def _missing(results: Mapping[str, Any]) -> str:
    """The runs that are still to be done, by arm."""
    seeds: dict[str, list[str]] = {}
    for job in results["missing"]:
        at = "" if job["share"] == 1 else f" at {job['share']:g} of the budget"
        seeds.setdefault(f"{title_of(results, job['arm'])}{at}", []).append(str(job["seed"]))
    return (
        "Missing: "
        + "; ".join(
            f"{arm}, seed{'s' if several[1:] else ''} {', '.join(several)}" for arm, several in seeds.items()
        )
        + "."
    )


def _facts(results: Mapping[str, Any]) -> Facts:
    final = results["budgets"][-1]
    runs = sum(arm["runs"] for budget in results["budgets"] for arm in budget["arms"].values())
    seeds = results["seeds"]
    return Facts(
        [
            ("Arms", str(len(final["arms"]))),
            ("Training FLOPs of each", Number(results["flops"], "power"), f"budget {results['budget']}"),
            ("Seeds", str(len(seeds)), ", ".join(map(str, seeds))),
            ("Runs done", str(runs)),
            ("Recipe", str(results["recipe"])),
        ],
        large=True,
    )


def _answer(results: Mapping[str, Any], drawn: dict[str, str]) -> Section | None:
    """The primary score: the figure, and the table with the test against the baseline."""
    metric = results["primary"]
    if metric is None:
        return None
    study, arms = results["study"], results["budgets"][-1]["arms"]
    panels = charts.side_by_side((score_panel(results, metric, drawn), differences(results, metric, drawn)))
    blocks: list[Block] = [*panels, _test_table(results, metric)]
    paper = study["paper"]
    if any(arm["paper"] is not None for arm in study["arms"].values()):
        blocks.append(Text(f"Paper: {paper['metric']}, {paper['source']}. {paper['note']} {SCALE}", "quiet"))
    elif paper["source"]:
        blocks.append(Text(f"Paper ({paper['source']}): {paper['note']}", "quiet"))
    blocks += _reached(results)
    baseline = title_of(results, study["baseline"])
    done = max((arm["scores"][metric]["n"] for arm in arms.values() if metric in arm["scores"]), default=0)
    against = "its own baseline" if len(set(baselines_of(study).values())) > 1 else baseline
    lead = (
        f"Mean over {done} seeds with 95 % intervals; every arm is tested against {against}, seed by seed"
        " (paired t-test)."
    )
    if done < 2:
        lead = "One seed so far: no intervals and no tests, and differences may be nothing but that seed."
    return Section("Result", blocks, lead)


def _test_table(results: Mapping[str, Any], metric: str) -> Table:
    study, arms = results["study"], results["budgets"][-1]["arms"]
    with_paper = any(arm["paper"] is not None for arm in study["arms"].values())
    baselines = baselines_of(study)
    columns = [
        "Arm",
        metric_title(results, metric),
        "sd",
        "Against baseline",
        "95 % interval",
        "p",
        "p (Holm)",
    ]
    rows = []
    for name, arm in arms.items():
        one = arm["scores"].get(metric, {})
        against = one.get("against_baseline") or {}
        row: list[object] = [
            title_of(results, name) + (" (baseline)" if name in baselines.values() else ""),
            Interval(one.get("mean"), "score", one.get("low"), one.get("high")),
            Number(one.get("sd"), "score"),
            Change(against.get("difference")),
            _between(against.get("low"), against.get("high")),
            PValue(against.get("p"), "score"),
            PValue(against.get("p_holm"), "score"),
        ]
        rows.append([*row, Published(study["arms"][name]["paper"])] if with_paper else row)
    return Table([*columns, PAPER_COLUMN] if with_paper else columns, rows)


def _between(low: float | None, high: float | None) -> Markup | None:
    return None if low is None or high is None else Markup("[{}, {}]").format(Change(low), Change(high))


def _reached(results: Mapping[str, Any]) -> list[Block]:
    """Studies with several budgets: how much compute an arm needs for what the baseline ends with."""
    found, whole = results["reached"], results["budgets"][-1]["flops"]
    baseline = title_of(results, results["study"]["baseline"])
    lines: list[Block] = []
    for arm, flops in found.items():
        if arm == results["study"]["baseline"]:
            continue
        if flops is None:
            lines.append(
                Text(
                    f"{title_of(results, arm)} does not reach the final mean of {baseline} within the budget."
                )
            )
        else:
            share = f"{100 * flops / whole:.0f} %"
            first = (
                " or less: its smallest budget is above it already"
                if flops == results["budgets"][0]["flops"]
                else ""
            )
            lines.append(
                Text(
                    f"{title_of(results, arm)} reaches the final mean of {baseline} with {share} of its"
                    f" compute{first}."
                )
            )
    return lines


def _scores(results: Mapping[str, Any], drawn: dict[str, str]) -> Section:
    """Every score at the whole budget."""
    arms = results["budgets"][-1]["arms"]
    metrics = list(dict.fromkeys(metric for arm in arms.values() for metric in arm["scores"]))
    shown = [metric for metric in metrics if metric != results["primary"]]
    blocks: list[Block] = [*charts.side_by_side(score_panel(results, metric, drawn) for metric in shown)]
    for group in (shown[i : i + 4] for i in range(0, len(shown), 4)):
        rows = []
        for name, arm in arms.items():
            cells = [arm["scores"].get(metric, {}) for metric in group]
            rows.append(
                [
                    title_of(results, name),
                    *(Interval(one.get("mean"), "score", one.get("low"), one.get("high")) for one in cells),
                ]
            )
        blocks.append(Table(["Arm", *(metric_title(results, metric) for metric in group)], rows))
    lead = (
        "Held-out pre-training metrics are of the last evaluation. Language-model losses are of the small"
        " generator where an arm has one."
    )
    return Section("All scores", blocks, lead)


def _along_compute(results: Mapping[str, Any], drawn: dict[str, str]) -> Section | None:
    lead = "Held-out metrics while the arms were trained: means over seeds, bands are 95 % intervals."
    panels = along_compute(results, drawn)
    return Section("Along the compute", panels, lead) if panels else None


def _cost(results: Mapping[str, Any]) -> Section:
    rows = []
    for budget in results["budgets"]:
        at = f", {budget['share']:g} of the budget" if len(results["budgets"]) > 1 else ""
        for name, arm in budget["arms"].items():
            rows.append(
                (
                    title_of(results, name) + at,
                    Number(arm["flops_per_step"], "power"),
                    Number(arm["steps"]),
                    Number(arm["tokens"], "large"),
                    Number(arm["flops"], "power"),
                    Change(arm["flops"] / budget["flops"] - 1, "percent"),
                    Number(arm["seconds"], "seconds"),
                    f"{arm['collapsed']} of {arm['runs']}",
                )
            )
    columns = (
        "Arm",
        "FLOPs an update",
        "Updates",
        "Tokens",
        "Training FLOPs",
        "Off the budget",
        "Time of a run",
        "Collapse alarms",
    )
    lead = (
        "Every arm gets the whole number of updates that comes nearest to the budget. FLOPs as the paper's"
        " script counts them."
    )
    return Section("Compute", [Table(columns, rows)], lead)


def _trust(results: Mapping[str, Any]) -> Section:
    rows = []
    for metric, one in results["budgets"][-1]["reliability"].items():
        values = (one["sd"], one["sd_of_differences"], one["detectable"])
        rows.append(
            (metric_title(results, metric), *(Number(value, "score") for value in values), Number(one["n"]))
        )
    columns = (
        "Score",
        "sd between seeds",
        "sd of paired differences",
        "Smallest detectable difference",
        "Seeds",
    )
    note = (
        "Smallest detectable: a true difference of that size would be found in four of five studies"
        " (two-sided paired test at 5 %)."
    )
    blocks: list[Block] = [
        Table(columns, rows),
        Text(f"{note} A smaller difference that is not found is no evidence of equality.", "quiet"),
    ]
    return Section(
        "How far to trust this",
        blocks,
        "What another seed changes, pooled over the arms, and what this many seeds can show.",
    )


def _recipes(results: Mapping[str, Any]) -> Section:
    """What the arms differ in, and each arm's recipe."""
    flat = {
        name: {f"{s}.{k}": v for s, keys in recipe.items() for k, v in keys.items()}
        for name, recipe in results["arms"].items()
    }
    keys = list(dict.fromkeys(key for one in flat.values() for key in one))
    differing = [key for key in keys if len({repr(one.get(key)) for one in flat.values()}) > 1]
    rows = [[key, *(_shown(one.get(key)) for one in flat.values())] for key in differing]
    blocks: list[Block] = [Table(["Key", *(title_of(results, name) for name in flat)], rows)]
    same = [(key, _shown(next(iter(flat.values())).get(key))) for key in keys if key not in differing]
    blocks.append(Fold("What all arms have in common", [Table(("", ""), same)]))
    return Section("What the arms differ in", blocks)


def _shown(value: Any) -> str | None:
    return None if value is None else str(value)
