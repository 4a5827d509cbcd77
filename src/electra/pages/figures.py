"""Draws figures from plain data: lines with bands, categories with intervals, matrices. Styled by `svg`."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

from electra.artifacts.ledger import Axis, Curve
from electra.pages import svg
from electra.pages.svg import DASHES, INK, PALETTE, STYLE, plain_text, portable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AXIS_TITLES: Mapping[Axis, str] = {
    "step": "steps",
    "tokens": "tokens seen",
    "flops": "training FLOPs",
    "seconds": "seconds",
}
MARKERS = ("o", "s", "^", "D", "v", "P")
_WIDTH, _ROW = 5.0, 0.24  # inches; _ROW is the height of a category
_HANDLE, _LETTER = 0.68, 0.068  # width of a legend's handle with its gaps, and of a letter, in inches
_LEFT, _BOTTOM, _LEGEND_ROW = 0.115, 0.17, 0.075  # margins of a figure with a fixed box, as fractions
_BAND = 0.18  # opacity
_MAX_MARKERS = 12  # a line with more points has no markers
_MAX_POINTS = 600


Values = Sequence[Any]
"""Numbers; None for what was not measured."""


@dataclass(frozen=True)
class Series:
    """One line, or one mark in each category."""

    label: str
    x: Sequence[Any]
    y: Values
    low: Values = ()
    high: Values = ()
    style: Literal["line", "points", "faint", "reference"] = "line"
    """faint: the raw values behind a smoothed line; reference: a level to compare with."""
    color: int | None = None
    """Index in the palette (default: its index in the figure)."""

    @classmethod
    def through(
        cls,
        label: str,
        points: Sequence[tuple[Any, Mapping[str, Any]]],
        style: Literal["line", "points", "reference"] = "line",
    ) -> Series:
        """Makes a series from pairs of x and a mapping with `mean` and, for an interval, `low` and `high`."""
        y, low, high = ([measured.get(end) for _, measured in points] for end in ("mean", "low", "high"))
        bounded = any(value is not None for value in low)
        return cls(label, [x for x, _ in points], y, low if bounded else (), high if bounded else (), style)

    def without_missing(self) -> Series:
        """Returns the series without points that lack x or y. A missing end of an interval becomes y."""
        known = [i for i, (x, y) in enumerate(zip(self.x, self.y, strict=True)) if None not in (x, y)]
        y = [float(self.y[i]) for i in known]

        def ends(bounds: Values) -> Values:
            pairs = zip(y, (bounds[i] for i in known), strict=True) if bounds else ()
            return [value if bound is None else float(bound) for value, bound in pairs]

        x = [self.x[i] for i in known]
        return replace(self, x=x, y=y, low=ends(self.low), high=ends(self.high))


@dataclass(frozen=True)
class Figure:
    """A figure to draw: the name of its file in figures/, a title, and a note on how to read it."""

    name: str
    title: str
    note: str
    series: Sequence[Series]
    kind: Literal["lines", "categories", "matrix"] = "lines"
    x: str = ""
    y: str = ""
    axis: Axis | None = None
    """The axis of runs that x shows, if any. It then begins at 0, in a unit that keeps numbers short."""
    marks: Sequence[float] = ()
    """Positions of vertical lines, for events."""
    x_range: Sequence[float] | None = None
    y_range: Sequence[float] | None = None


def draw(figure: Figure) -> str | None:
    """Returns the figure as SVG without its title; None if nothing was measured. Needs Matplotlib."""
    # Colours are assigned before series without values are dropped, so that the others keep theirs.
    shown = [
        replace(series, color=i if series.color is None else series.color).without_missing()
        for i, series in enumerate(figure.series)
    ]
    shown = [series for series in shown if series.y]
    if all(series.style == "reference" for series in shown):
        return None
    from matplotlib import style
    from matplotlib.figure import Figure as Canvas

    with style.context(["default", STYLE]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about glyphs that only the page's font may have
        layout: Any = "constrained" if figure.axis is None else "none"
        canvas = Canvas(figsize=(_WIDTH, _height(figure.kind, shown)), layout=layout)
        axes = canvas.add_subplot()
        _KINDS[figure.kind](axes, shown, figure)
        axes.set_xlabel(plain_text(figure.x))
        if figure.kind == "lines" and figure.axis is None:
            axes.set_ylabel(plain_text(figure.y))
        if figure.kind != "matrix":
            _set_axes(axes, shown, figure)
            _add_legend(axes, figure)
        out = io.StringIO()
        canvas.savefig(out, format="svg", transparent=True)
    return portable(out.getvalue(), figure.name)


def smooth(curve: Curve) -> Curve:
    """Returns the mean over a window of about a fortieth of the curve, centred so that it does not lag."""
    sums = [0.0, *accumulate(curve.y)]
    half, size = max(1, len(curve.y) // 80), len(curve.y)
    windows = [(max(0, i - half), min(size, i + half + 1)) for i in range(size)]
    return Curve(curve.x, [(sums[end] - sums[start]) / (end - start) for start, end in windows])


def thin(curve: Curve) -> Curve:
    """Returns about `_MAX_POINTS` points: the lowest and highest of each bucket, so that no spike is lost."""
    if len(curve.x) <= _MAX_POINTS:
        return curve
    size = -(-2 * len(curve.x) // _MAX_POINTS)
    indices = {0, len(curve.x) - 1}
    for start in range(0, len(curve.x), size):
        bucket = range(start, min(start + size, len(curve.x)))
        indices |= {min(bucket, key=curve.y.__getitem__), max(bucket, key=curve.y.__getitem__)}
    return Curve([curve.x[i] for i in sorted(indices)], [curve.y[i] for i in sorted(indices)])


def _height(kind: str, series: Sequence[Series]) -> float:
    if kind == "categories":
        return 1.0 + _ROW * max(1.0, 0.7 * len(series)) * len(_names(series))
    return 1.0 + 0.42 * len(series) if kind == "matrix" else 3.0


def _names(series: Iterable[Series]) -> list[str]:
    """Returns the categories of all series, in the order in which they first appear."""
    return list(dict.fromkeys(str(x) for each in series for x in each.x))


def _look(series: Series) -> tuple[str, Any, str]:
    """Returns colour, dashes and marker. Colours repeat after six, with other dashes and markers."""
    color = series.color or 0
    look_index = color + color // len(PALETTE)
    return PALETTE[color % len(PALETTE)], DASHES[look_index % len(DASHES)], MARKERS[look_index % len(MARKERS)]


def _lines(axes: Axes, shown: Sequence[Series], figure: Figure) -> None:
    axes.margins(x=0.02)
    for series in shown:
        (color, dashes, symbol), label = _look(series), plain_text(series.label)
        x, y = series.x, series.y
        if figure.axis is not None:
            label = f"{label}  {y[-1]:,.3g}"  # the last value
            x, y = (x, y) if series.low else thin(Curve(list(x), list(y)))
        as_points = series.style == "points" or len(x) <= 2
        if series.style == "faint":
            axes.plot(x, y, color=color, alpha=0.28, linewidth=0.7)
        elif series.style == "reference":
            axes.plot(x, y, color=INK, alpha=0.75, linewidth=1.0, dashes=(2, 2), label=label)
        else:
            marker = symbol if as_points or len(x) <= _MAX_MARKERS else ""
            line = "none" if series.style == "points" else dashes
            look: dict[str, Any] = {"linestyle": line, "linewidth": 1.6, "marker": marker, "markersize": 3.6}
            axes.plot(x, y, color=color, label=label, clip_on=not marker, **look)
        if series.low and as_points:
            axes.vlines(x, series.low, series.high, color=color, linewidth=1.0)
        elif series.low:
            axes.fill_between(x, series.low, series.high, color=color, alpha=_BAND, linewidth=0)
    for mark in figure.marks:
        axes.axvline(mark, color=INK, alpha=0.55, linewidth=0.8, dashes=(1, 2))


def _categories(axes: Axes, shown: Sequence[Series], _: Figure) -> None:
    names = _names(shown)
    spread = min(0.7, 0.22 * (len(shown) - 1))
    for index, series in enumerate(shown):
        (color, _dashes, marker), label = _look(series), plain_text(series.label)
        shift = spread * (index / (len(shown) - 1) - 0.5) if len(shown) > 1 else 0.0
        positions = [names.index(str(name)) + shift for name in series.x]
        if series.style == "reference" and len(set(series.y)) == 1:
            axes.axvline(series.y[0], color=INK, alpha=0.75, linewidth=1.0, dashes=(2, 2), label=label)
            continue
        if series.low:
            axes.hlines(positions, series.low, series.high, color=color, linewidth=1.2)
        axes.plot(
            series.y, positions, color=color, linestyle="none", marker=marker, markersize=4.2, label=label
        )
    axes.set_yticks(range(len(names)), [plain_text(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="x")
    axes.grid(axis="y", alpha=0.07)


def _matrix(axes: Axes, shown: Sequence[Series], figure: Figure) -> None:
    from matplotlib.patches import Rectangle

    columns = _names(figure.series)
    values = [y for series in shown for y in series.y if y is not None]
    low, high = figure.y_range or (min(values), max(values))
    value_range = (high - low) or 1.0
    for row, series in enumerate(shown):
        for name, y in zip(series.x, series.y, strict=True):
            column = columns.index(str(name))
            # One hue whose strength shows the value, and the number on it: readable without colour.
            shade = 0.06 + 0.5 * min(max((y - low) / value_range, 0.0), 1.0)
            corner = (column - 0.48, row - 0.46)
            axes.add_patch(Rectangle(corner, 0.96, 0.92, facecolor=PALETTE[0], alpha=shade, linewidth=0))
            if len(columns) <= 12:
                axes.text(column, row, f"{y:.2f}", ha="center", va="center", fontsize=9.0)
    look: dict[str, Any] = {"rotation": 30, "ha": "right"} if sum(map(len, columns)) > 40 else {}
    axes.set_xticks(range(len(columns)), [plain_text(name) for name in columns], **look)
    axes.set_yticks(range(len(shown)), [plain_text(series.label) for series in shown])
    axes.set_xlim(-0.55, len(columns) - 0.45)
    axes.set_ylim(len(shown) - 0.45, -0.55)
    axes.grid(visible=False)
    axes.spines["bottom"].set_visible(False)


_KINDS: Mapping[str, Callable[..., None]] = {"lines": _lines, "categories": _categories, "matrix": _matrix}


def _set_axes(axes: Axes, shown: Sequence[Series], figure: Figure) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    has_categories, divisor = figure.kind == "categories", 1.0
    if figure.axis is not None:
        furthest = max(x for series in shown for x in series.x)
        divisor, unit = scale(furthest, figure.axis)
        axes.set_xlabel(f"{AXIS_TITLES[figure.axis]}{f' ({unit})' if unit else ''}")
        axes.set_xlim(0, furthest * 1.015 or 1)
    plain = FuncFormatter(lambda value, _: f"{value:,.6g}")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / divisor:,.10g}"))
    are_whole_numbers = not has_categories and all(
        float(x).is_integer() for series in shown for x in series.x
    )
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=svg.ROUND, integer=are_whole_numbers and divisor == 1))
    if figure.x_range:
        axes.set_xlim(*figure.x_range)
    if not has_categories:
        axes.yaxis.set_major_formatter(plain)
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=svg.ROUND))
        if figure.y_range:
            axes.set_ylim(*figure.y_range)


def _add_legend(axes: Axes, figure: Figure) -> None:
    """Adds a legend above the axes, in as many columns as fit the figure."""
    handles, labels = axes.get_legend_handles_labels()
    widths = [_HANDLE + _LETTER * len(label) for label in labels]
    fitting = (
        n for n in range(len(labels), 1, -1) if sum(max(widths[column::n]) for column in range(n)) <= _WIDTH
    )
    columns = next(fitting, 1)
    rows = -(-len(labels) // columns) if len(labels) > 1 else 0
    if figure.axis is not None:  # a fixed box, so that figures line up
        axes.set_position((_LEFT, _BOTTOM, 0.985 - _LEFT, 0.96 - _BOTTOM - _LEGEND_ROW * rows))
        if rows:
            corner = (-0.02, 1.0)
            axes.legend(
                handles, labels, loc="lower left", bbox_to_anchor=corner, ncols=columns, borderaxespad=0.2
            )
    elif rows:
        axes.figure.legend(handles, labels, loc="outside upper left", ncols=columns)


def scale(largest: float, axis: Axis) -> tuple[float, str]:
    """Returns the divisor that keeps tick labels short, and its name for the axis title."""
    if axis == "flops" and largest >= 1e6:
        exponent = int(f"{largest:e}".split("e")[1])
        return 10.0**exponent, f"\u00d7 10{str(exponent).translate(_SUPERSCRIPT)}"
    for size, unit in ((1e9, "billions"), (1e6, "millions")):
        if axis != "step" and largest >= size:
            return size, unit
    return 1.0, ""


_SUPERSCRIPT = str.maketrans("0123456789", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
