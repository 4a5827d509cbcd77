"""Curves of what a run measured: which of its rows make a figure, drawn against tokens, steps or FLOPs. Look:
`svg`.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from electra.artifacts.ledger import Axis, Curve, Event, Point
from electra.pages import svg
from electra.pages.page import Panel, Panels
from electra.pages.read import RunRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AXIS_TITLES: dict[Axis, str] = {
    "step": "steps",
    "tokens": "tokens seen",
    "flops": "training FLOPs",
    "seconds": "seconds",
}
_VIEW_TITLES: dict[Axis, str] = {"tokens": "Tokens", "step": "Steps", "flops": "FLOPs", "seconds": "Time"}
_BOX = (0.115, 0.185, 0.87, 0.69)  # left, bottom, width, height: room for tick labels, axis title and legend
_MAX_POINTS, _MAX_MARKERS = 600, 60
_ENOUGH_TO_SMOOTH = 40


@dataclass(frozen=True)
class Line:
    """One curve. `series` picks colour and dash; `faint` is the raw measurement behind a smoothed line;
    `chance` a reference to beat.
    """

    label: str
    curve: Curve
    series: int = 0
    style: Literal["line", "points", "faint", "chance"] = "line"


Part = Callable[[Axis], list[Line]]
"""A measurement that can be drawn against any axis."""


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
        return [Line(label, curve, series, "faint"), Line(label, smooth(curve), series)]

    return part


def held_out(run: RunRecord, key: str, label: str, *, series: int = 1, style: str = "points") -> Part:
    """A number of the held-out evaluations."""
    return lambda axis: [
        Line(label, run.curve("eval", key, axis), series, "line" if style == "line" else "points")
    ]


def chance(run: RunRecord, level: float | str, label: str, beside: str = "") -> Part:
    """What knowing nothing scores: a constant as long as the curve of `beside`, or a metric of each
    evaluation.
    """

    def part(axis: Axis) -> list[Line]:
        curve = run.curve("eval", beside or str(level), axis)
        if isinstance(level, float):
            curve = Curve([curve.x[0], curve.x[-1]], [level, level]) if curve.x else curve
        return [Line(label, curve, style="chance")]

    return part


def views(
    plots: Sequence[Plot],
    axes: Sequence[Axis],
    drawn: dict[str, str],
    marks: Sequence[Event] = (),
    points: Sequence[Point] = (),
) -> Panels:
    """Draw every plot against every axis; the standalone SVGs go to `drawn`, and plots without data are left
    out. Without matplotlib there are no views at all.
    """
    out: dict[str, list[Panel]] = {}
    if not svg.available():
        return Panels(out)
    for axis in axes:
        places = _places(marks, points, axis)
        for plot in plots:
            key = re.sub("[^a-z0-9]+", "-", plot.key.lower())  # keys may come from files
            name = f"{key}-by-{'steps' if axis == 'step' else axis}"
            text = draw(name, [line for part in plot.parts for line in part(axis)], axis, places)
            if text is not None:
                drawn[name] = text
                out.setdefault(_VIEW_TITLES[axis], []).append(Panel(plot.title, plot.note, svg.inline(text)))
    return Panels(out)


def _places(marks: Sequence[Event], points: Sequence[Point], axis: Axis) -> list[float]:
    """Where the events lie on an axis: at the first measured row at or after their step."""
    places = []
    for mark in marks:
        after = [point for point in points if point.step >= mark.step and getattr(point, axis) is not None]
        if after:
            places.append(float(getattr(min(after, key=lambda point: point.step), axis)))
    return places


def smooth(curve: Curve) -> Curve:
    """The mean over a window of about a fortieth of the curve around each point: unlike a moving average of
    the past, it does not lag.
    """
    sums = [0.0, *accumulate(curve.y)]
    half, size = max(1, len(curve.y) // 80), len(curve.y)
    windows = [(max(0, i - half), min(size, i + half + 1)) for i in range(size)]
    return Curve(curve.x, [(sums[end] - sums[start]) / (end - start) for start, end in windows])


def thin(curve: Curve, limit: int = _MAX_POINTS) -> Curve:
    """At most about `limit` points, keeping every bucket's lowest and highest, so that no spike is lost."""
    if len(curve.x) <= limit:
        return curve
    size = -(-2 * len(curve.x) // limit)
    kept: list[int] = []
    for start in range(0, len(curve.x), size):
        bucket = range(start, min(start + size, len(curve.x)))
        kept += sorted({min(bucket, key=curve.y.__getitem__), max(bucket, key=curve.y.__getitem__)})
    kept = sorted({0, *kept, len(curve.x) - 1})
    return Curve([curve.x[i] for i in kept], [curve.y[i] for i in kept])


def draw(name: str, lines: Sequence[Line], axis: Axis, marks: Sequence[float] = ()) -> str | None:
    """A figure as standalone SVG, or None when there is nothing to draw. `name` keeps its ids apart from
    other figures'; `marks` are vertical lines where something happened. No title inside: the page (or the
    paper) sets it in its own type.
    """
    lines = [line for line in lines if line.curve.x]
    if not any(line.style != "chance" for line in lines):
        return None
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(["default", svg.STYLE]), warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # a glyph that matplotlib's own font lacks: the page's font may have it
        figure = Figure(figsize=(5.0, 2.75))
        axes = figure.add_axes(_BOX)  # the same box every time, so that figures line up
        for line in sorted(lines, key=lambda line: line.style == "chance"):
            _draw_line(axes, line)
        for x in marks:
            axes.axvline(x, color=svg.INK, alpha=0.55, linewidth=0.8, dashes=(1, 2))
        _set_axes(axes, lines, axis)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True)
    return svg.portable(out.getvalue(), name)


def _draw_line(axes: Axes, line: Line) -> None:
    x, y = thin(line.curve)
    color = svg.PALETTE[line.series % len(svg.PALETTE)]
    label = f"{svg.plain_text(line.label)}  {line.curve.y[-1]:,.3g}"  # where the line ends
    if line.style == "faint":
        axes.plot(x, y, color=color, alpha=0.28, linewidth=0.7)
    elif line.style == "chance":
        axes.plot(x, y, color=svg.INK, alpha=0.75, linewidth=1.0, dashes=(2, 2), label=label)
    elif len(x) == 1 or (line.style == "points" and len(x) <= _MAX_MARKERS):
        axes.plot(x, y, color=color, linewidth=1.4, marker="o", markersize=3.2, clip_on=False, label=label)
    else:
        axes.plot(
            x, y, color=color, linestyle=svg.DASHES[line.series % len(svg.DASHES)], linewidth=1.7, label=label
        )


def _set_axes(axes: Axes, lines: Sequence[Line], axis: Axis) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    furthest = max(x for line in lines for x in line.curve.x)
    divisor, unit = scale(furthest, axis)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / divisor:,.10g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=svg.ROUND))
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=svg.ROUND))
    axes.set_xlabel(f"{AXIS_TITLES[axis]}{f' ({unit})' if unit else ''}")
    axes.set_xlim(0, furthest * 1.015 or 1)
    handles, labels = axes.get_legend_handles_labels()
    if len(handles) == 1:
        axes.set_position((*_BOX[:3], _BOX[3] + 0.09))  # the legend's room
    else:
        axes.legend(
            handles,
            labels,
            loc="lower left",
            bbox_to_anchor=(-0.02, 1.0),
            ncols=len(handles) if len(handles) < 4 else 2,
            borderaxespad=0.2,
        )


def scale(largest: float, axis: Axis) -> tuple[float, str]:
    """The divisor that keeps tick labels short, and how the axis title names it."""
    if axis == "flops" and largest >= 1e6:
        exponent = int(f"{largest:e}".split("e")[1])
        return 10.0**exponent, f"\u00d7 10{str(exponent).translate(_SUPERSCRIPT)}"
    for size, unit in ((1e9, "billions"), (1e6, "millions")):
        if axis != "step" and largest >= size:
            return size, unit
    return 1.0, ""


_SUPERSCRIPT = str.maketrans("0123456789", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
