"""Draws figures from plain data with Matplotlib: lines with bands, categories with intervals, matrices.

Text and axes have the colour of the page's text, and data colours (Okabe and Ito 2008) can be changed by a
page's --series-0, --series-1, ..., so one picture serves light and dark pages. The same numbers give the same
bytes. Matplotlib is optional, and imported only when something is drawn.
"""

import io
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from electra.artifacts.ledger import Axis, LedgerCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AXIS_TITLES: Mapping[Axis, str] = {
    "step": "steps",
    "tokens": "tokens seen",
    "flops": "training FLOPs",
    "seconds": "seconds",
}
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
DASHES = ("solid", (0, (5, 1.6)), (0, (1.4, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (9, 2)))
MARKERS = "os^DvP"
MAX_MARKERS = 12  # a line with more points has no markers
STEPS = (1, 2, 2.5, 5, 10)  # between ticks, times a power of ten
MAX_CELLS = 12  # a matrix with more columns has no numbers in its cells
INK = "#010203"  # a colour no series has, replaced by currentColor afterwards
LEVEL: Any = {"color": INK, "alpha": 0.75, "linewidth": 1.0, "dashes": (2, 2)}
STYLE: Any = {
    "svg.fonttype": "none",  # real text: sharp, selectable, in the page's own font
    "text.parse_math": False,  # labels hold names from files: a '$' is a dollar
    "path.simplify_threshold": 0.5,  # pixels; spikes stay
    "font.size": 9.5,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "grid.color": INK,
    "grid.alpha": 0.12,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "axes.spines.left"), False),
}


@dataclass(frozen=True)
class Series:
    """One line, or one mark in each category."""

    label: str
    x: Sequence[Any]  # numbers or names
    y: Sequence[Any]  # numbers; None for what was not measured
    low: Sequence[Any] = ()  # the ends of intervals, if there are any
    high: Sequence[Any] = ()
    style: Literal["line", "points", "faint", "reference"] = "line"  # faint: behind a smoothed line
    color: int | None = None  # its index in the palette (default: its index in the figure)

    @classmethod
    def through(cls, label: str, points: Sequence[tuple[Any, Mapping[str, Any]]], **more: Any) -> "Series":
        """Makes a series from pairs of x and a mapping with `mean` and, for an interval, `low` and `high`."""
        y, low, high = ([measured.get(end) for _, measured in points] for end in ("mean", "low", "high"))
        return cls(label, [x for x, _ in points], y, low, high, **more)


@dataclass(frozen=True)
class Figure:
    """A figure to draw: a name that no other figure of its page has, a title, and how to read it."""

    name: str
    title: str
    note: str
    series: Sequence[Series]  # a matrix has a row for each, and a column for each x
    kind: Literal["lines", "categories", "matrix"] = "lines"
    x: str = ""  # the title of the horizontal axis
    y: str = ""
    axis: Axis | None = None  # the axis of runs that x shows: the legend then says where each line ends
    x_range: Sequence[float] | None = None  # the ends of an axis (default: those of the data)
    y_range: Sequence[float] | None = None  # or of a matrix's shades


def missing() -> str:
    """Returns a note if Matplotlib is not installed; empty if it is."""
    found = find_spec("matplotlib")
    return "" if found else "written without figures, which need matplotlib: pip install matplotlib"


def smooth(curve: LedgerCurve) -> LedgerCurve:
    """Returns the mean over a window of about a fortieth of the curve, centred so that it does not lag."""
    import numpy as np

    half = max(1, len(curve.y) // 80)
    means = np.convolve(curve.y, np.full(2 * half + 1, 1 / (2 * half + 1)), "valid")
    return LedgerCurve(curve.x[half:-half], means.tolist())


def draw(figure: Figure) -> str | None:
    """Returns the figure as SVG without its title; None if nothing was measured. Needs Matplotlib."""
    # Colours are assigned before series without values are dropped, so that the others keep theirs.
    lines = [_number(each, i) for i, each in enumerate(figure.series) if {*each.y} - {None}]
    if all(line.style == "reference" for line in lines):
        return None
    from matplotlib import style
    from matplotlib.figure import Figure as Canvas

    with style.context(["default", STYLE, {"svg.hashsalt": figure.name}]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about glyphs that only the page's font may have
        canvas = Canvas(layout="constrained")
        axes = canvas.add_subplot()
        kinds = {"lines": _lines, "categories": _categories, "matrix": _matrix}
        canvas.set_size_inches(4.6, kinds[figure.kind](axes, lines, figure))
        axes.set_xlabel(plain_text(AXIS_TITLES[figure.axis] if figure.axis else figure.x, 70))
        if figure.x_range:
            axes.set_xlim(*figure.x_range)
        handles, labels = axes.get_legend_handles_labels()
        if len(labels) > 1:  # above the axes, in as many columns as fit
            columns = max(1, 72 // (max(map(len, labels)) + 9))
            canvas.legend(handles, labels, loc="outside upper left", ncols=columns, borderaxespad=0.2)
        out = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        canvas.savefig(out, format="svg", transparent=True, metadata=nothing)
    svg = out.getvalue().replace(INK, "currentColor")
    return re.sub(r' (width|height)="[\d.]+pt"', "", svg[svg.index("<svg") :], count=2)


def inline(svg: str) -> str:
    """Returns an SVG for an HTML page, without ids that figures share, in colours the page can change."""
    svg = re.sub(r' id="[\w.]*_\d+"', "", svg)
    for index, color in enumerate(PALETTE):
        svg = svg.replace(f": {color}", f": var(--series-{index}, {color})")
    return svg


def plain_text(label: str, most: int = 36) -> str:
    """Returns a name from a file as a label: short, printable, not starting with '_', which would hide it."""
    label = "".join(character if character.isprintable() else "\ufffd" for character in label)
    if len(label) > most:  # names of runs often differ at their ends
        label = f"{label[: most // 2 - 2]}...{label[1 - most // 2 :]}"
    return f" {label}" if label.startswith("_") else label


def _number(series: Series, index: int) -> Series:
    """Returns the series with arrays, NaN where nothing was measured, and its own colour and short label."""
    import numpy as np

    unknown = [None] * len(series.y)
    values: Any = [np.array(each or unknown, float) for each in (series.y, series.low, series.high)]
    color, label = index if series.color is None else series.color, plain_text(series.label)
    return replace(series, label=label, y=values[0], low=values[1], high=values[2], color=color)


def _look(series: Series) -> tuple[str, Any, str]:
    color = series.color or 0
    turn = color + color // len(PALETTE)
    return PALETTE[color % len(PALETTE)], DASHES[turn % len(DASHES)], MARKERS[turn % len(MARKERS)]


def _lines(axes: "Axes", lines: Sequence[Series], figure: Figure) -> float:
    from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator
    from numpy import isnan

    for line in lines:
        x, y, label, style = line.x, line.y, line.label, line.style
        color, dashes, symbol = _look(line)
        if figure.axis is not None:
            label = f"{label}  {[value for value in y if not isnan(value)][-1]:,.3g}"
        if style == "faint":
            axes.plot(x, y, color=color, alpha=0.28, linewidth=0.7)
        elif style == "reference":
            axes.plot(x, y, label=label, **LEVEL)
        else:
            few = style == "points" or len(x) <= 2
            marker = symbol if few or len(x) <= MAX_MARKERS else ""
            look: Any = {"linestyle": "none" if style == "points" else dashes, "linewidth": 1.6}
            axes.plot(x, y, color=color, label=label, marker=marker, markersize=3.6, **look)
            if few:
                axes.vlines(x, line.low, line.high, color=color, linewidth=1.0)
            elif not isnan(line.low).all():
                axes.fill_between(x, line.low, line.high, color=color, alpha=0.18, linewidth=0)
    axes.set_ylabel("" if figure.axis else plain_text(figure.y))
    axes.xaxis.set_major_formatter(EngFormatter() if figure.axis == "tokens" else FuncFormatter(_tick))
    whole = all(float(x).is_integer() for line in lines for x in line.x)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=STEPS, integer=whole))
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=STEPS))
    axes.yaxis.set_major_formatter(FuncFormatter(_tick))
    if figure.y_range:
        axes.set_ylim(*figure.y_range)
    return 2.7


def _tick(value: float, _: int) -> str:
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.6g}".replace("e+", "e")


def _categories(axes: "Axes", lines: Sequence[Series], figure: Figure) -> float:
    from matplotlib.ticker import MaxNLocator

    names = list(dict.fromkeys(str(x) for line in lines for x in line.x))
    spread, count = min(0.7, 0.22 * (len(lines) - 1)), max(1, len(lines) - 1)
    for index, line in enumerate(lines):
        if line.style == "reference":
            axes.axvline(line.y[0], label=line.label, **LEVEL)
            continue
        places = [names.index(str(name)) + spread * (index / count - 0.5) for name in line.x]
        color, _, symbol = _look(line)
        axes.hlines(places, line.low, line.high, color=color, linewidth=1.2)
        look: Any = {"linestyle": "none", "marker": symbol, "markersize": 4.2}
        axes.plot(line.y, places, color=color, label=line.label, **look)
    axes.set_yticks(range(len(names)), [plain_text(name) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=STEPS))
    return 1.0 + 0.24 * max(1.0, 0.7 * len(lines)) * len(names)


def _matrix(axes: "Axes", lines: Sequence[Series], figure: Figure) -> float:
    from matplotlib.colors import LinearSegmentedColormap, to_rgba
    from numpy import isnan

    columns = [str(x) for x in lines[0].x]
    # One hue whose strength shows the value, and the number on it: readable without colour.
    shades = LinearSegmentedColormap.from_list("", [to_rgba(PALETTE[0], 0.06), to_rgba(PALETTE[0], 0.56)])
    low, high = figure.y_range or (None, None)
    axes.pcolormesh([line.y for line in lines], cmap=shades, vmin=low, vmax=high)
    for row, line in enumerate(lines):
        for column, value in enumerate(line.y if len(columns) <= MAX_CELLS else ()):
            shown = "" if isnan(value) else f"{value:.2f}"
            axes.text(column + 0.5, row + 0.5, shown, ha="center", va="center")
    look: dict[str, Any] = {"rotation": 30, "ha": "right"} if sum(map(len, columns)) > 40 else {}
    axes.set_xticks([i + 0.5 for i in range(len(columns))], [*map(plain_text, columns)], **look)
    axes.set_yticks([i + 0.5 for i in range(len(lines))], [line.label for line in lines])
    axes.tick_params(length=0)
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.spines["bottom"].set_visible(False)
    return 1.0 + 0.42 * len(lines)
