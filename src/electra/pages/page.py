"""Renders pages: a verdict, facts, and sections of figures and tables become one self-contained HTML file.

    results = PageTable(("Variant", "AUC"), [("rtd", Number(0.81))])
    publish(Page("ablation", "Three seeds each.", [Section("Results", tables=[results])]), path)

A page has no scripts, fonts or requests (its content security policy forbids them), and prints well. Strings
are escaped, except `Markup` from this package. A page has no date, so the same input gives the same bytes.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from electra.foundation import durable
from electra.foundation.progress import doing
from electra.pages import figures
from electra.pages.figures import Figure


@dataclass(frozen=True)
class Number:
    """A number, shown rounded; the page has the exact value in a <data> element."""

    value: float | None  # None, NaN or infinity is shown as a dash
    spec: str = ".3f"  # as in Python; or points (81.2 for 0.812), large (15.2 M), time (1 h 02 min)
    low: float | None = None  # ends of its interval, if there is one
    high: float | None = None
    after: str = ""  # a remark in quiet type
    is_best: bool = False  # of its row

    def __html__(self) -> str:
        if self.value is None or not -1e300 < self.value < 1e300:  # None, NaN or infinite
            return '<span class="soft">&ndash;</span>'
        html = Markup('<data value="{}">{}</data>').format(repr(self.value), _shown(self.value, self.spec))
        if self.is_best:
            html = Markup('<b title="the best of this row">{}</b>').format(html)
        if self.low is not None and self.high is not None:
            ends = Number(self.low, self.spec), Number(self.high, self.spec)
            html = Markup('{} <span class="soft interval">[{}, {}]</span>').format(html, *ends)
        return Markup('{}<span class="soft">{}</span>').format(html, self.after) if self.after else html


@dataclass(frozen=True)
class PageTable:
    """Columns and rows of strings, Numbers and None; Numbers are aligned to the right."""

    columns: Sequence[str]  # all empty: no head
    rows: Sequence[Sequence[object]]
    caption: str = ""
    noted: bool = False  # whether the last column is prose, which goes under its row on a narrow screen
    folded: bool = False  # whether the caption must be clicked to see the table

    @classmethod
    def of(
        cls, records: Iterable[Mapping[str, Any]], columns: Mapping[str, tuple[str, ...]], caption: str = ""
    ) -> Self:
        """Makes a row for each record. `columns` has by heading the key, and for numbers the format."""
        rows = [[cell(record.get(key), *spec) for key, *spec in columns.values()] for record in records]
        return cls(list(columns), rows, caption)

    @classmethod
    def pairs(cls, caption: str, record: Mapping[str, Any]) -> Self:
        """Makes a folded table of names (dotted for nested records) and values other than None and []."""
        return cls(("", ""), list(_pairs(record, "")), caption, folded=True)


@dataclass(frozen=True)
class Section:
    """A part of a page: a heading, a sentence (`lead`), notes, figures and tables. None is skipped."""

    title: str
    lead: str = ""
    notes: Sequence[str] = ()
    figures: Sequence[Figure | None] = ()
    tables: Sequence[PageTable | None] = ()

    @property
    def id(self) -> str:
        """Its anchor."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")

    def drawn(self) -> list[tuple[Figure, str]]:
        """Returns the figures that have measurements, as SVG; none without Matplotlib."""
        chosen = [] if figures.missing() else [figure for figure in self.figures if figure]
        drawn = [(figure, figures.draw(figure)) for figure in chosen]
        return [(figure, Markup(figures.inline(svg))) for figure, svg in drawn if svg is not None]


@dataclass(frozen=True)
class Page:
    """A whole page."""

    title: str
    verdict: str  # the answer in one sentence
    sections: Sequence[Section | None]
    kicker: str = "electra"  # the small line over the title
    facts: Sequence[Sequence[object]] = ()  # label, value and perhaps a remark of the tiles under the verdict
    warnings: Sequence[str] = ()  # sentences that must not be overlooked
    notes: Sequence[str] = ()  # further sentences on the first screen
    commands: Sequence[str] = ()  # the command lines that give these results, if known


def render(page: Page) -> str:
    """Returns the page as HTML; without Matplotlib it has a note instead of its figures."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["number"] = lambda value: isinstance(value, Number)
    template = environment.get_template("page.html.j2")
    return template.render(page=page, missing=figures.missing())


def publish(page: Page, path: Path) -> Path:
    """Writes the page to `path` atomically and returns `path`. Raises DiskError."""
    doing(f"writing {path.name}")
    durable.commit_file(path, render(page).encode("utf-8", "replace"))  # a lone surrogate becomes '?'
    return path


def cell(value: Any, spec: str | None = None) -> object:
    """Returns a table's cell: a Number if `spec` is its format (even if it is None), otherwise text."""
    if spec is not None and (value is None or isinstance(value, int | float)):
        return Number(value, spec)
    if isinstance(value, list):
        return ", ".join(str(cell(item)) for item in value)
    if isinstance(value, bool):
        return str(value).lower()
    return value if value is None or isinstance(value, Number | Markup) else str(value)


def _pairs(record: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, object]]:
    for key, value in record.items():
        if isinstance(value, Mapping):
            yield from _pairs(value, f"{prefix}{key}.")
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            for number, item in enumerate(value, 1):
                yield from _pairs(item, f"{prefix}{key} {number}.")
        elif value is not None and value != []:
            yield f"{prefix}{key}", cell(value)


def _shown(value: float, spec: str) -> str:
    if spec == "time":
        minutes, seconds = divmod(round(value), 60)
        if minutes < 60:
            return f"{minutes} min {seconds:02} s" if minutes else f"{value:.3g} s"
        return f"{minutes // 60} h {minutes % 60:02} min"
    if spec == "points":
        return f"{100 * value:.1f}"
    if spec == "large":
        for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
            if abs(value) >= 10_000 and abs(value) >= size:
                return f"{value / size:,.3g} {unit}"
    if spec in ("", "large"):
        return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:z{spec}}" if spec.startswith(".") else f"{value:{spec}}"  # no negative zero
