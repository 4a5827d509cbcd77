"""Plots a run's metrics against tokens, steps, FLOPs or time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from electra.artifacts.ledger import Axis, Event, Kind, Point
from electra.pages.figures import Figure, Series, smooth
from electra.pages.page import Figures
from electra.pages.read import RunRecord

_AXIS_TITLES: dict[Axis, str] = {"tokens": "Tokens", "step": "Steps", "flops": "FLOPs", "seconds": "Time"}
_MIN_POINTS_TO_SMOOTH = 40


@dataclass(frozen=True)
class Measure:
    """A metric of a run as a line; with `level`, a constant line over the same x range."""

    run: RunRecord
    kind: Kind
    key: str
    label: str
    color: int | None = None
    style: Literal["line", "reference"] = "line"
    smoothed: bool = False
    """Whether to draw a smoothed line over the faint raw one, if there are enough points."""
    level: float | None = None

    def against(self, axis: Axis) -> list[Series]:
        """Returns the lines to draw against `axis`."""
        x, y = curve = self.run.ledger.curve(self.kind, self.key, axis)
        if self.level is not None:
            x, y = [x[0], x[-1]] if x else [], [self.level] * 2 if x else []
        if self.smoothed and len(y) >= _MIN_POINTS_TO_SMOOTH:
            raw = Series(self.label, x, y, style="faint", color=self.color)
            return [raw, Series(self.label, *smooth(curve), color=self.color)]
        return [Series(self.label, x, y, style=self.style, color=self.color)]


@dataclass(frozen=True)
class Plot:
    """Measures that share a figure. The figure's file is named after `key`."""

    key: str
    title: str
    note: str
    measures: Sequence[Measure]


def plot_figures(
    plots: Sequence[Plot],
    axes: Sequence[Axis],
    marks: Sequence[Event] = (),
    points: Sequence[Point] = (),
    empty: str = "",
) -> Figures:
    """Draws every plot against every axis.

    Each of `marks` is drawn at the first of `points` that is not before its step.
    """
    return Figures(
        {
            _AXIS_TITLES[axis]: [_figure(plot, axis, _mark_positions(marks, points, axis)) for plot in plots]
            for axis in axes
        },
        empty,
    )


def _figure(plot: Plot, axis: Axis, marks: Sequence[float]) -> Figure:
    key = re.sub("[^a-z0-9]+", "-", plot.key.lower())  # keys may come from files
    name = f"{key}-by-{'steps' if axis == 'step' else axis}"
    series = [line for measure in plot.measures for line in measure.against(axis)]
    return Figure(name, plot.title, plot.note, series, axis=axis, marks=marks)


def _mark_positions(marks: Sequence[Event], points: Sequence[Point], axis: Axis) -> list[float]:
    sorted_points = sorted(
        (point for point in points if getattr(point, axis) is not None), key=lambda point: point.step
    )
    mark_points = (
        next((point for point in sorted_points if point.step >= mark.step), None) for mark in marks
    )
    return [float(getattr(point, axis)) for point in mark_points if point is not None]
