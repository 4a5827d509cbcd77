"""Curves as SVG text that fits any page: transparent, in the page's text colour, the same bytes for the same numbers.

Matplotlib draws; what it writes is then made to live inside HTML. Ink (text, axes) becomes `currentColor`, ids are private to each figure
(the same id in two figures of a page would let a hidden one clip a shown one), and dates and metadata go. Data colours are Okabe and Ito's
(2008), told apart by dashes too; a page may recolour them through the CSS variables --series-0, --series-1, ...
Matplotlib is optional: `available()` says whether it is here, and it is imported only when something is drawn.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from electra import durable
from electra.report.read import Axis, Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
DASHES: tuple[Any, ...] = ("solid", (0, (5, 1.6)), (0, (1.4, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (9, 2)), (0, (3, 1.2, 1, 1.2, 1, 1.2)))
AXIS_TITLES: dict[Axis, str] = {"step": "steps", "tokens": "tokens seen", "flops": "training FLOPs", "seconds": "seconds"}
INSTALL = "Curves need matplotlib: pip install electra[report]"
INK = "#010203"  # a colour no series has, replaced by currentColor afterwards
_BOX = (0.115, 0.185, 0.87, 0.69)  # left, bottom, width, height: room for tick labels, axis title and legend
_MAX_POINTS, _MAX_MARKERS = 600, 60


@dataclass(frozen=True)
class Line:
    """One curve. `series` picks colour and dash; `faint` is the raw measurement behind a smoothed line; `chance` a reference to beat."""

    label: str
    curve: Curve
    series: int = 0
    style: Literal["line", "points", "faint", "chance"] = "line"


def available() -> bool:
    return find_spec("matplotlib") is not None


def smooth(curve: Curve) -> Curve:
    """The mean over a window of about a fortieth of the curve around each point: unlike a moving average of the past, it does not lag."""
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
    """A figure as standalone SVG, or None when there is nothing to draw. `name` keeps its ids apart from other figures'; `marks` are
    vertical lines where something happened. No title inside: the page (or the paper) sets it in its own type."""
    lines = [line for line in lines if line.curve.x]
    if not any(line.style != "chance" for line in lines):
        return None
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(["default", STYLE]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a glyph that matplotlib's own font lacks: the page's font may have it
        figure = Figure(figsize=(5.0, 2.75))
        axes = figure.add_axes(_BOX)  # the same box every time, so that figures line up
        for line in sorted(lines, key=lambda line: line.style == "chance"):
            _draw_line(axes, line)
        for x in marks:
            axes.axvline(x, color=INK, alpha=0.55, linewidth=0.8, dashes=(1, 2))
        _set_axes(axes, lines, axis)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True)
    return portable(out.getvalue(), name)


def inline(svg: str) -> str:
    """The SVG as part of an HTML page: no namespaces, colours that the page's style can change."""
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg).replace("xlink:href=", "href=")
    svg = re.sub(r"<style[^>]*>.*?</style>", "", svg, flags=re.S)
    for index, color in enumerate(PALETTE):
        svg = svg.replace(f": {color}", f": var(--series-{index}, {color})")
    return svg


def write_all(folder: Path, drawn: Mapping[str, str]) -> None:
    for name, svg in drawn.items():
        durable.commit_file(folder / "figures" / f"{name}.svg", svg.encode())


STYLE: Any = {
    "svg.fonttype": "none",  # real text: sharp, selectable, in the page's own face
    "svg.hashsalt": "electra",
    "text.parse_math": False,  # labels hold names from files: a '$' is a dollar
    "font.size": 9.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": INK,
    "grid.alpha": 0.14,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "legend.handlelength": 2.4,
}


def _draw_line(axes: Axes, line: Line) -> None:
    x, y = thin(line.curve)
    color, label = PALETTE[line.series % len(PALETTE)], plain_text(line.label)
    if line.style == "faint":
        axes.plot(x, y, color=color, alpha=0.28, linewidth=0.7)
    elif line.style == "chance":
        axes.plot(x, y, color=INK, alpha=0.75, linewidth=1.0, dashes=(2, 2), label=label)
    elif len(x) == 1 or (line.style == "points" and len(x) <= _MAX_MARKERS):
        axes.plot(x, y, color=color, linewidth=1.4, marker="o", markersize=3.2, clip_on=False, label=label)
    else:
        axes.plot(x, y, color=color, linestyle=DASHES[line.series % len(DASHES)], linewidth=1.7, label=label)


def _set_axes(axes: Axes, lines: Sequence[Line], axis: Axis) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    furthest = max(x for line in lines for x in line.curve.x)
    divisor, unit = scale(furthest, axis)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / divisor:,.10g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel(f"{AXIS_TITLES[axis]}{f' ({unit})' if unit else ''}")
    axes.set_xlim(0, furthest * 1.015 or 1)
    handles, labels = axes.get_legend_handles_labels()
    if len(handles) == 1:
        axes.set_position((*_BOX[:3], _BOX[3] + 0.09))  # the legend's room
    else:
        axes.legend(
            handles, labels, loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=len(handles) if len(handles) < 4 else 2, borderaxespad=0.2
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


def plain_text(label: str) -> str:
    """A name from a file as a label: short, printable, and never starting with '_', which would hide it from the legend."""
    label = "".join(character if character.isprintable() else "\ufffd" for character in label)
    label = label if len(label) <= 36 else label[:33] + "..."
    return f" {label}" if label.startswith("_") else label


def portable(svg: str, name: str) -> str:
    """Matplotlib's SVG made fit for any page; `name` keeps its ids apart from other figures'."""
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.S)
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', svg))
    svg = re.sub(r' id="([^"]+)"', lambda match: f' id="{name}-{match[1]}"' if match[1] in used else "", svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    return re.sub(r"\n\s*", "\n", svg).strip() + "\n"
