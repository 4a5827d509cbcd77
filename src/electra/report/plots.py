"""From a run's rows to panels of a page: which measurements make a figure, drawn against tokens, steps and FLOPs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from electra.report import figures
from electra.report.figures import Line
from electra.report.page import Panel, Panels
from electra.report.read import Axis, Curve, Event, Point, RunRecord

Part = Callable[[Axis], list[Line]]
"""A measurement that can be drawn against any axis."""

_VIEW_TITLES: dict[Axis, str] = {"tokens": "Tokens", "step": "Steps", "flops": "FLOPs", "seconds": "Time"}
_ENOUGH_TO_SMOOTH = 40


@dataclass(frozen=True)
class Plot:
    key: str
    """Names the file in figures/, after what it shows."""
    title: str
    note: str
    parts: Sequence[Part]


def trained(run: RunRecord, key: str, label: str, *, series: int = 0, raw: bool = False) -> Part:
    """A number of the training rows: smoothed over its faint raw self, unless `raw` or short."""

    def part(axis: Axis) -> list[Line]:
        curve = run.curve("train", key, axis)
        if raw or len(curve.y) < _ENOUGH_TO_SMOOTH:
            return [Line(label, curve, series)]
        return [Line(label, curve, series, "faint"), Line(label, figures.smooth(curve), series)]

    return part


def held_out(run: RunRecord, key: str, label: str, *, series: int = 1, style: str = "points") -> Part:
    """A number of the held-out evaluations."""
    return lambda axis: [Line(label, run.curve("eval", key, axis), series, "line" if style == "line" else "points")]


def chance(run: RunRecord, level: float | str, label: str, beside: str = "") -> Part:
    """What knowing nothing scores: a constant as long as the curve of `beside`, or a metric of each evaluation."""

    def part(axis: Axis) -> list[Line]:
        curve = run.curve("eval", beside or str(level), axis)
        if isinstance(level, float):
            curve = Curve([curve.x[0], curve.x[-1]], [level, level]) if curve.x else curve
        return [Line(label, curve, style="chance")]

    return part


def views(
    plots: Sequence[Plot], axes: Sequence[Axis], drawn: dict[str, str], marks: Sequence[Event] = (), points: Sequence[Point] = ()
) -> Panels:
    """Draw every plot against every axis; the standalone SVGs go to `drawn`, and plots without data are left out.
    Without matplotlib there are no views at all."""
    out: dict[str, list[Panel]] = {}
    if not figures.available():
        return Panels(out)
    for axis in axes:
        places = _places(marks, points, axis)
        for plot in plots:
            name = f"{re.sub('[^a-z0-9]+', '-', plot.key.lower())}-by-{'steps' if axis == 'step' else axis}"  # keys may come from files
            svg = figures.draw(name, [line for part in plot.parts for line in part(axis)], axis, places)
            if svg is not None:
                drawn[name] = svg
                out.setdefault(_VIEW_TITLES[axis], []).append(Panel(plot.title, plot.note, figures.inline(svg)))
    return Panels(out)


def _places(marks: Sequence[Event], points: Sequence[Point], axis: Axis) -> list[float]:
    """Where the events lie on an axis: at the first measured row at or after their step."""
    places = []
    for mark in marks:
        after = [point for point in points if point.step >= mark.step and getattr(point, axis) is not None]
        if after:
            places.append(float(getattr(min(after, key=lambda point: point.step), axis)))
    return places
