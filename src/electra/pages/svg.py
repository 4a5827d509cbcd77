"""Styles figures, and turns Matplotlib's SVG into SVG for any page: transparent, in the page's text colour.

Text and axes become `currentColor`, ids become private to each figure (with equal ids, a hidden figure could
clip a shown one), and dates and metadata are removed, so that the same numbers give the same bytes. Data
colours are those of Okabe and Ito (2008) and also differ in dashes; a page can change them through the CSS
variables --series-0, --series-1, ... Matplotlib is optional, and imported only when something is drawn.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
DASHES: tuple[Any, ...] = (
    "solid",
    (0, (5, 1.6)),
    (0, (1.4, 1.2)),
    (0, (6, 1.5, 1.2, 1.5)),
    (0, (9, 2)),
    (0, (3, 1.2, 1, 1.2, 1, 1.2)),
)
ROUND = (1, 2, 2.5, 5, 10)  # the steps between ticks, times a power of ten
INSTALL = "Figures need matplotlib: pip install matplotlib"
INK = "#010203"  # a colour no series has, replaced by currentColor afterwards
STYLE: Any = {
    "svg.fonttype": "none",  # real text: sharp, selectable, in the page's own font
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


def available() -> bool:
    """Whether Matplotlib is installed."""
    return find_spec("matplotlib") is not None


def missing_figures_note(page: Path) -> str:
    """Returns a note if a page was written without its figures; empty if it has them."""
    return f"written without figures. {INSTALL}" if INSTALL in page.read_text(encoding="utf-8") else ""


def inline(svg: str) -> str:
    """Returns an SVG for an HTML page: without namespaces, with colours that the page's style can change."""
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg).replace("xlink:href=", "href=")
    svg = re.sub(r"<style[^>]*>.*?</style>", "", svg, flags=re.S)
    for index, color in enumerate(PALETTE):
        svg = svg.replace(f": {color}", f": var(--series-{index}, {color})")
    return svg


def plain_text(label: str) -> str:
    """Returns a name from a file as a label: short, printable, not starting with '_', which would hide it."""
    label = "".join(character if character.isprintable() else "\ufffd" for character in label)
    if len(label) > 36:
        label = f"{label[:16]}...{label[-17:]}"  # names of runs often differ at their ends
    return f" {label}" if label.startswith("_") else label


def portable(svg: str, name: str) -> str:
    """Returns Matplotlib's SVG for any page. `name` distinguishes its ids from those of other figures."""
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.S)
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', svg))
    svg = re.sub(r' id="([^"]+)"', lambda match: f' id="{name}-{match[1]}"' if match[1] in used else "", svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    return re.sub(r"\n\s*", "\n", svg).strip() + "\n"
