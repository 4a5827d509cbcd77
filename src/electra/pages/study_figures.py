"""The figures of a study's page: scores of all arms, their differences, curves along the compute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from electra.artifacts.study import baselines_of
from electra.pages import charts, curves
from electra.pages.glossary import METRICS
from electra.pages.page import Panel, Panels


def title_of(results: Mapping[str, Any], arm: str) -> str:
    return str(results["study"]["arms"][arm]["title"])


def metric_title(results: Mapping[str, Any], metric: str) -> str:
    if metric == "panel":
        return "Panel mean"
    return str(results["panel"][metric]["title"]) if metric in results["panel"] else METRICS[metric].title


def metric_note(results: Mapping[str, Any], metric: str) -> str:
    if metric == "panel":
        return "The mean of the panel's tasks. Higher is better. "
    if metric in results["panel"]:
        return f"{results['panel'][metric]['metric'].replace('_', ' ').capitalize()}, higher is better. "
    return f"{METRICS[metric].meaning} "


def score_panel(results: Mapping[str, Any], metric: str, drawn: dict[str, str]) -> Panel | None:
    """One score of all arms: along the budgets, along the study's axis, or as one row an arm."""
    figure, note = _figure(results, metric)
    file = metric.replace("_", "-")
    return charts.panel(
        f"study-{file}",
        figure,
        metric_title(results, metric),
        metric_note(results, metric) + note,
        drawn,
        file=file,
    )


def differences(results: Mapping[str, Any], metric: str, drawn: dict[str, str]) -> Panel | None:
    """What the tests are about: each arm minus the baseline, at the whole budget."""
    arms = results["budgets"][-1]["arms"]
    found = {name: (arm["scores"].get(metric) or {}).get("against_baseline") for name, arm in arms.items()}
    rows = [
        (title_of(results, name), one | {"mean": one["difference"]})
        for name, one in found.items()
        if one and one["n"]
    ]
    if not rows:
        return None
    baselines = set(baselines_of(results["study"]).values())
    level = charts.series(
        "its baseline" if len(baselines) > 1 else title_of(results, baselines.pop()),
        [(name, {"mean": 0.0}) for name, _ in rows],
        "reference",
    )
    label = f"{metric_title(results, metric)}, difference"
    figure = charts.drawing("categories", label, "", [charts.series("mean and 95 % interval", rows), level])
    note = (
        "Seed by seed, at the whole budget. An interval that holds zero leaves open which of the two is"
        " better."
    )
    return charts.panel("study-differences", figure, "Against the baseline", note, drawn, file="differences")


def _figure(results: Mapping[str, Any], metric: str) -> tuple[dict[str, Any], str]:
    study, budgets = results["study"], results["budgets"]
    final = {
        name: arm["scores"][metric] for name, arm in budgets[-1]["arms"].items() if metric in arm["scores"]
    }
    if len(budgets) > 1:
        divisor, axis = _flops_axis(results)
        series = []
        for name in study["arms"]:
            points = [
                (one["flops"] / divisor, one["arms"][name]["scores"].get(metric, {})) for one in budgets
            ]
            series.append(charts.series(title_of(results, name), points))
        return (
            charts.drawing("lines", axis, metric_title(results, metric), series),
            "Bands are 95 % intervals over seeds.",
        )
    placed = {
        name: arm["at"] for name, arm in study["arms"].items() if arm["at"] is not None and name in final
    }
    if placed:
        labels = dict.fromkeys(arm["series"] for arm in study["arms"].values() if arm["at"] is not None)
        series = []
        for label in labels:
            of_label = [
                (at, final[name]) for name, at in placed.items() if study["arms"][name]["series"] == label
            ]
            members = sorted(of_label, key=lambda member: member[0])
            series.append(charts.series(label or metric_title(results, metric), members))
        ends = min(placed.values()), max(placed.values())
        series += [
            charts.series(
                arm["title"], [(end, final.get(name, {}) | {"low": None, "high": None}) for end in ends]
            )
            for name, arm in study["arms"].items()
            if arm["at"] is None
        ]
        return (
            charts.drawing("lines", study["axis"], metric_title(results, metric), series),
            "Bands are 95 % intervals over seeds.",
        )
    rows = [(title_of(results, name), one) for name, one in final.items()]
    seeds = [
        (title_of(results, name), {"mean": value})
        for name, one in final.items()
        for value in one["by_seed"].values()
    ]
    series = [charts.series("mean and 95 % interval", rows), charts.series("one seed", seeds, "points")]
    return (
        charts.drawing("categories", metric_title(results, metric), "", series),
        "Bars are 95 % intervals over seeds.",
    )


def _flops_axis(results: Mapping[str, Any]) -> tuple[float, str]:
    """A divisor that keeps the numbers of the axis short, and its title."""
    divisor, unit = curves.scale(results["flops"], "flops")
    return divisor, f"training FLOPs ({unit})" if unit else "training FLOPs"


def along_compute(results: Mapping[str, Any], drawn: dict[str, str]) -> list[Panels]:
    """Held-out curves of the whole-budget runs."""
    found = results["curves"]
    metrics = list(dict.fromkeys(metric for arm in found.values() for metric in arm))
    divisor, axis = _flops_axis(results)
    panels = []
    for metric in metrics:
        series = []
        for name, arm in found.items():
            rows = zip(*arm.get(metric, {}).values(), strict=True)
            points = [
                (x / divisor, dict(zip(("mean", "low", "high"), ends, strict=True))) for x, *ends in rows
            ]
            series.append(charts.series(title_of(results, name), points))
        title, meaning = METRICS[metric].title, METRICS[metric].meaning
        panels.append(
            charts.panel(
                f"curve-{metric.replace('_', '-')}",
                charts.drawing("lines", axis, title, series),
                title,
                meaning,
                drawn,
            )
        )
    return charts.side_by_side(panels)
