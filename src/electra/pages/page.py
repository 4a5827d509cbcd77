"""One look for every page the project writes: sections of a few kinds of blocks, rendered to a single
self-contained HTML file.

    results = Table(("Variant", "AUC"), [("rtd", Number(0.81, "score"))])
    write(path, render("ablation", [Section("Results", [Text("Three seeds each."), results])]))

A page needs nothing but itself: no script, no font, no request (its own content security policy forbids
them), and prints well. Strings are escaped; only what comes from this package (`Markup`) is not. The page
holds no date, so the same input gives the same bytes.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from electra.foundation import durable

TEMPLATE = "page.html.j2"


@dataclass(frozen=True)
class Number:
    """A number of a file, shown short and kept whole: the page carries the exact value in a
    <data> element.
    """

    value: float | None
    kind: Literal["plain", "score", "percent", "large", "power", "seconds"] = "plain"
    """plain 1,234; score 0.812; percent 12.3 %; large 15.2 M; power 1.2 x 10^15; seconds 1 h 02 min."""

    def __html__(self) -> str:
        if self.value is None or not -1e300 < self.value < 1e300:  # nothing, or NaN and its like
            return '<span class="none">&ndash;</span>'
        return Markup('<data value="{}">{}</data>').format(repr(self.value), _FORMATS[self.kind](self.value))


@dataclass(frozen=True)
class Interval(Number):
    """A number with the ends of its interval."""

    low: float | None = None
    high: float | None = None

    def __html__(self) -> str:
        shown = super().__html__()
        if self.low is None or self.high is None:
            return shown
        ends = Number(self.low, self.kind), Number(self.high, self.kind)
        return Markup('{} <span class="none interval">[{}, {}]</span>').format(shown, *ends)


@dataclass(frozen=True)
class Text:
    """A paragraph. `tone`: a quiet remark, or a warning that should not be missed."""

    text: str
    tone: Literal["normal", "quiet", "warning"] = "normal"


@dataclass(frozen=True)
class Facts:
    """Labelled values in a row of tiles: (label, value) or (label, value, remark)."""

    items: Sequence[Sequence[object]]
    large: bool = False


@dataclass(frozen=True)
class Table:
    """Columns and rows of strings, Numbers and None. Columns that hold Numbers are aligned to the right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""
    noted: bool = False
    """The last column is prose: on a narrow screen it goes under its row."""

    def numeric(self, column: int) -> bool:
        return any(isinstance(row[column], Number) for row in self.rows)


@dataclass(frozen=True)
class Panel:
    """One figure: a title, a sentence on how to read it, and the SVG."""

    title: str
    note: str
    svg: str


@dataclass(frozen=True)
class Panels:
    """Figures side by side. Several views (the same figures against other axes) get a switch that needs no
    script.
    """

    views: Mapping[str, Sequence[Panel]]


@dataclass(frozen=True)
class Columns:
    """Blocks that flow in columns where the screen is wide: many small tables."""

    blocks: Sequence[Block]


@dataclass(frozen=True)
class Fold:
    """Blocks behind a line to click on."""

    summary: str
    blocks: Sequence[Block]
    open: bool = False


Block = Text | Facts | Table | Panels | Columns | Fold | Markup


@dataclass(frozen=True)
class Section:
    title: str
    blocks: Sequence[Block]
    lead: str = ""
    """A sentence under the title: what this section answers."""

    @property
    def id(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


def render(
    title: str,
    sections: Sequence[Section],
    *,
    kicker: str = "electra",
    summary: str = "",
    opening: Sequence[Block] = (),
    reload: int = 0,
) -> str:
    """The page: `kicker` is the small line over the title, `summary` the sentence under it, `opening` blocks
    come before the sections. A browser reads it again after `reload` seconds (0: never).
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["block"] = lambda value, name: type(value).__name__ == name
    environment.globals["number"] = itertools.count(1).__next__  # tells the switches of a page apart
    template = environment.get_template(TEMPLATE)
    return template.render(
        title=title, kicker=kicker, summary=summary, opening=opening, sections=sections, reload=reload
    )


def write(path: Path, html: str) -> None:
    """Write the page whole or not at all. A lone surrogate, which no encoding has a byte for, becomes '?'."""
    durable.commit_file(path, html.encode("utf-8", "replace"))


def _plain(value: float) -> str:
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _percent(value: float) -> str:
    return f"{100 * value:.3g} %"


def _large(value: float) -> str:
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            scaled = value / (1e3 if unit == "k" else size)
            return f"{scaled:.3g} {unit}" if abs(scaled) < 999.5 else f"{scaled:,.0f} {unit}"
    return _plain(value)


def _power(value: float) -> Markup:
    if abs(value) < 1e6:
        return Markup(_plain(value))
    mantissa, exponent = f"{value:.2e}".split("e")
    return Markup("{} &times; 10<sup>{}</sup>").format(mantissa, int(exponent))


def _seconds(value: float) -> str:
    whole = round(value)
    if whole < 60:
        return f"{value:.3g} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


_FORMATS: dict[str, Callable[[float], str]] = {
    "plain": _plain,
    "score": lambda value: f"{value:z.3f}",
    "percent": _percent,
    "large": _large,
    "power": _power,
    "seconds": _seconds,
}
