"""Figures of any measurements, drawn from plain data: lines with bands, categories with intervals, matrices.
Look: `svg`.

A figure is a plain dictionary: `drawing` makes one, and so does a probe's record (`report.probes`).
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from electra.pages import svg
from electra.pages.page import Panel, Panels
from electra.pages.svg import DASHES, INK, PALETTE, STYLE, plain_text, portable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = ("o", "s", "^", "D", "v", "P")
_WIDTH, _ROW = 5.0, 0.24  # inches; the height a category takes
_HANDLE, _LETTER = 0.55, 0.068  # inches that a legend's handle and a letter of it take, about
_BAND = 0.18  # opacity


def panel(
    name: str, figure: Mapping[str, Any], title: str, note: str, drawn: dict[str, str], *, file: str = ""
) -> Panel | None:
    """A figure as a panel of a page, its standalone SVG left in `drawn` under `file` (none: `name`). None
    without values or matplotlib.
    """
    text = draw(name, figure) if svg.available() else None
    if text is None:
        return None
    drawn[file or name] = text
    return Panel(title, note, svg.inline(text))


def side_by_side(found: Iterable[Panel | None]) -> list[Panels]:
    """One block of the panels that there are; without any, no block."""
    panels = [one for one in found if one is not None]
    return [Panels({"": panels})] if panels else []


def series(
    label: str, points: Sequence[tuple[Any, Mapping[str, Any]]], style: str = "line"
) -> dict[str, Any]:
    """One series of a figure, from (x, what lies there: `mean`, and `low` and `high` where there is an
    interval).

    style: "line", "points" or "reference".
    """
    y, low, high = ([one.get(end) for _, one in points] for end in ("mean", "low", "high"))
    bounded = any(value is not None for value in low)
    ends = {"low": low if bounded else [], "high": high if bounded else []}
    return {"label": label, "x": [x for x, _ in points], "y": y, **ends, "style": style}


def drawing(kind: str, x: str, y: str, found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A figure out of its series; `x` and `y` are the titles of its axes."""
    return {"kind": kind, "x": x, "y": y, "series": found, "x_range": None, "y_range": None}


def draw(name: str, figure: Mapping[str, Any]) -> str | None:
    """A figure as standalone SVG, or None when it holds nothing to draw. `name` keeps its ids apart from
    other figures'.
    """
    # Its place among all series is what a series looks like, so that one without values does not change the
    # others' colours.
    shown = [
        {**one, "place": place}
        for place, one in enumerate(figure["series"])
        if any(y is not None for y in one["y"])
    ]
    if not shown:
        return None
    from matplotlib import style
    from matplotlib.figure import Figure

    kind = figure["kind"]
    with style.context(["default", STYLE]), warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # a glyph that matplotlib's own font lacks: the page's font may have it
        canvas = Figure(figsize=(_WIDTH, _height(kind, shown)), layout="constrained")
        axes = canvas.add_subplot()
        _KINDS[kind](axes, shown, figure)
        axes.set_xlabel(plain_text(figure["x"]))
        if kind == "lines":
            axes.set_ylabel(plain_text(figure["y"]))
        if kind != "matrix":
            _set_ranges(axes, figure)
            _add_legend(axes)
        out = io.StringIO()
        canvas.savefig(out, format="svg", transparent=True)
    return portable(out.getvalue(), name)


def _height(kind: str, series: Sequence[Mapping[str, Any]]) -> float:
    if kind == "categories":
        return 1.0 + _ROW * max(1.0, 0.7 * len(series)) * len(_names(series))
    return 1.0 + 0.42 * len(series) if kind == "matrix" else 3.0


def _names(series: Sequence[Mapping[str, Any]]) -> list[str]:
    """The categories of all series, in the order they first appear."""
    return list(dict.fromkeys(str(x) for one in series for x in one["x"]))


def _look(place: int) -> tuple[str, Any, str]:
    """Colour, dashes and marker. The colours come again from the seventh on, with other dashes
    and markers.
    """
    other = place + place // len(PALETTE)
    return PALETTE[place % len(PALETTE)], DASHES[other % len(DASHES)], MARKERS[other % len(MARKERS)]


def _lines(axes: Axes, series: Sequence[Mapping[str, Any]], _: Mapping[str, Any]) -> None:
    axes.margins(x=0.02)
    for one in series:
        x, y, low, high = _known(one)
        (color, dashes, symbol), label = _look(one["place"]), plain_text(one["label"])
        if one["style"] == "reference":
            axes.plot(x, y, color=INK, alpha=0.75, linewidth=1.0, dashes=(2, 2), label=label)
            continue
        few = one["style"] == "points" or len(x) <= 2
        marker = symbol if few or len(x) <= 12 else ""
        line = "none" if one["style"] == "points" else dashes
        axes.plot(
            x, y, color=color, linestyle=line, linewidth=1.6, marker=marker, markersize=3.6, label=label
        )
        if low and few:
            axes.vlines(x, low, high, color=color, linewidth=1.0)
        elif low:
            axes.fill_between(x, low, high, color=color, alpha=_BAND, linewidth=0)


def _categories(axes: Axes, series: Sequence[Mapping[str, Any]], _: Mapping[str, Any]) -> None:
    names = _names(series)
    spread = min(0.7, 0.22 * (len(series) - 1))
    for index, one in enumerate(series):
        x, y, low, high = _known(one)
        (color, _dashes, marker), label = _look(one["place"]), plain_text(one["label"])
        shift = spread * (index / (len(series) - 1) - 0.5) if len(series) > 1 else 0.0
        places = [names.index(str(name)) + shift for name in x]
        if one["style"] == "reference" and len(set(y)) == 1:
            axes.axvline(y[0], color=INK, alpha=0.75, linewidth=1.0, dashes=(2, 2), label=label)
            continue
        if low:
            axes.hlines(places, low, high, color=color, linewidth=1.2)
        axes.plot(y, places, color=color, linestyle="none", marker=marker, markersize=4.2, label=label)
    axes.set_yticks(range(len(names)), [plain_text(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="x")
    axes.grid(axis="y", alpha=0.07)


def _matrix(axes: Axes, series: Sequence[Mapping[str, Any]], figure: Mapping[str, Any]) -> None:
    from matplotlib.patches import Rectangle

    columns = _names(series)
    values = [y for one in series for y in one["y"] if y is not None]
    low, high = figure["y_range"] or (min(values), max(values))
    spread = (high - low) or 1.0
    for row, one in enumerate(series):
        for name, y in zip(one["x"], one["y"], strict=True):
            if y is None:
                continue
            place = columns.index(str(name))
            # One hue, its strength by value, and the number on it: readable without colour.
            shade = 0.06 + 0.5 * min(max((y - low) / spread, 0.0), 1.0)
            axes.add_patch(
                Rectangle(
                    (place - 0.48, row - 0.46), 0.96, 0.92, facecolor=PALETTE[0], alpha=shade, linewidth=0
                )
            )
            if len(columns) <= 12:
                axes.text(place, row, f"{y:.2f}", ha="center", va="center", fontsize=9.0)
    axes.set_xticks(
        range(len(columns)),
        [plain_text(name) for name in columns],
        rotation=30 if (tilted := sum(map(len, columns)) > 40) else 0,
        ha="right" if tilted else "center",
    )
    axes.set_yticks(range(len(series)), [plain_text(one["label"]) for one in series])
    axes.set_xlim(-0.55, len(columns) - 0.45)
    axes.set_ylim(len(series) - 0.45, -0.55)
    axes.grid(visible=False)
    axes.spines["bottom"].set_visible(False)


_KINDS: dict[str, Callable[..., None]] = {"lines": _lines, "categories": _categories, "matrix": _matrix}


def _known(one: Mapping[str, Any]) -> tuple[list[Any], list[float], list[float], list[float]]:
    """The points that have a value; where a point has no interval, its ends are the value itself."""
    kept = [
        index
        for index, (x, y) in enumerate(zip(one["x"], one["y"], strict=True))
        if x is not None and y is not None
    ]
    y = [float(one["y"][index]) for index in kept]
    ends = [
        [
            value if one[end][index] is None else float(one[end][index])
            for index, value in zip(kept, y, strict=True)
        ]
        if one[end]
        else []
        for end in ("low", "high")
    ]
    return [one["x"][index] for index in kept], y, ends[0], ends[1]


def _set_ranges(axes: Axes, figure: Mapping[str, Any]) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    categories = figure["kind"] == "categories"
    plain = FuncFormatter(lambda value, _: f"{value:,.6g}")
    axes.xaxis.set_major_formatter(plain)
    whole = not categories and all(
        float(x).is_integer() for one in figure["series"] for x in one["x"] if x is not None
    )
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=svg.ROUND, integer=whole))
    if figure["x_range"]:
        axes.set_xlim(*figure["x_range"])
    if not categories:
        axes.yaxis.set_major_formatter(plain)
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=svg.ROUND))
        if figure["y_range"]:
            axes.set_ylim(*figure["y_range"])


def _add_legend(axes: Axes) -> None:
    """Above the axes, in as many columns as fit the figure."""
    handles, labels = axes.get_legend_handles_labels()
    if len(handles) > 1:
        widths = [_HANDLE + _LETTER * len(label) for label in labels]
        fitting = (
            n
            for n in range(len(labels), 1, -1)
            if sum(max(widths[column::n]) for column in range(n)) <= _WIDTH
        )
        axes.figure.legend(handles, labels, loc="outside upper left", ncols=next(fitting, 1))
