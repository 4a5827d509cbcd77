"""Renders pages: a page is data (sections of blocks) that becomes a single self-contained HTML file.

    results = Table(("Variant", "AUC"), [("rtd", Number(0.81, "score"))])
    publish(Page("ablation", [Section("Results", [Text("Three seeds each."), results])]), path)

A page has no scripts, fonts or requests (its content security policy forbids them), and prints well. Strings
are escaped, except `Markup` from this package. A page has no date, so the same input gives the same bytes.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from electra.artifacts.folder import FIGURES
from electra.foundation import durable
from electra.pages import svg
from electra.pages.figures import Figure, draw

TEMPLATE = "page.html.j2"
DEFAULT_THRESHOLD = 0.5  # the P(replaced) from which tokens are marked if a run has no evaluation
Kind = Literal[
    "plain",  # 1,234
    "score",  # 0.812
    "points",  # 81.2, for 0.812
    "percent",  # 12.3 %
    "signed",  # +0.0137
    "signed percent",  # +0.25 %
    "tenth",  # 82.4
    "p",  # 0.012, < 0.001
    "large",  # 15.2 M
    "power",  # 1.2 x 10^15
    "seconds",  # 1 h 02 min
]


@dataclass(frozen=True)
class Number:
    """A number, shown rounded; the page has the exact value in a <data> element.

    Attributes:
        value: the number; None, NaN or infinity is shown as a dash.
        kind: the format.
        low: the lower end of its interval (None: no interval).
        high: the upper end.
        after: a remark in quiet type.
        best: whether it is the best of its row.
        parenthesized: whether it is in parentheses, because it is not comparable.
    """

    value: float | None
    kind: Kind = "plain"
    low: float | None = None
    high: float | None = None
    after: str = ""
    best: bool = False
    parenthesized: bool = False

    def __html__(self) -> str:
        if self.value is None or not -1e300 < self.value < 1e300:  # None, NaN or infinite
            return '<span class="none">&ndash;</span>'
        html = Markup('<data value="{}">{}</data>').format(repr(self.value), _FORMATS[self.kind](self.value))
        if self.best:
            html = Markup('<b title="the best of this row">{}</b>').format(html)
        if self.parenthesized:
            html = Markup('<span class="none">({})</span>').format(html)
        if self.low is not None and self.high is not None:
            ends = Number(self.low, self.kind), Number(self.high, self.kind)
            html = Markup('{} <span class="none interval">[{}, {}]</span>').format(html, *ends)
        return Markup('{}<span class="none">{}</span>').format(html, self.after) if self.after else html


@dataclass(frozen=True)
class Text:
    """A paragraph; by its `tone`, normal, a quiet remark or a warning."""

    text: str
    tone: Literal["normal", "quiet", "warning"] = "normal"


@dataclass(frozen=True)
class Facts:
    """Labelled values in a row of tiles: (label, value) or (label, value, remark)."""

    items: Sequence[Sequence[object]]
    large: bool = False


@dataclass(frozen=True)
class Table:
    """Columns and rows of strings, Numbers and None. Columns with Numbers are aligned to the right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""
    noted: bool = False
    """Whether the last column is prose, which goes under its row on a narrow screen."""

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]], *columns: Sequence[Any], caption: str = "") -> Table:
        """Makes a row for each record. A column is (heading, key) or (heading, key, kind of number)."""
        rows = [[_cell(record.get(key), *kind) for _, key, *kind in columns] for record in records]
        return cls([heading for heading, *_ in columns], rows, caption)

    @classmethod
    def pairs(cls, record: Mapping[str, Any], caption: str = "", *, numbers: bool = False) -> Table:
        """Makes two columns, with dotted names for nested records; rounds numbers if `numbers`."""
        return cls(("", ""), list(_pairs(record, "", numbers)), caption)

    def numeric(self, column: int) -> bool:
        """Whether a column has Numbers."""
        return any(isinstance(row[column], Number) for row in self.rows)


@dataclass(frozen=True)
class Figures:
    """Figures side by side; empty ones are left out.

    Several views (the same figures against other axes) get a switch that needs no script.
    """

    views: Mapping[str, Sequence[Figure]]
    empty: str = ""
    """The text if there is nothing to draw."""

    @classmethod
    def of(cls, *figures: Figure | None, empty: str = "") -> Figures:
        """Makes a single view of the figures that are not None."""
        return cls({"": [figure for figure in figures if figure is not None]}, empty)


@dataclass(frozen=True)
class Columns:
    """Blocks in several columns on a wide screen, for many small tables."""

    blocks: Sequence[Block | None]


@dataclass(frozen=True)
class Fold:
    """Blocks that are hidden until their summary is clicked."""

    summary: str
    blocks: Sequence[Block | None]


@dataclass(frozen=True)
class Token:
    """One token of a worked example. A field is None if the run lacks the network for it."""

    original: str
    masked: str | None
    generated: str | None
    label: str | None
    p_replaced: float | None
    threshold: float = DEFAULT_THRESHOLD
    """The P(replaced) from which the token is marked."""

    @property
    def shown(self) -> str:
        """The token that the discriminator read."""
        return self.original if self.generated is None else self.generated

    @property
    def outcome(self) -> Literal["caught", "missed", "false-alarm", ""]:
        """Whether a replaced token is marked (caught) or not (missed), or an original one is marked."""
        flagged = self.p_replaced is not None and self.p_replaced >= self.threshold
        if self.label == "replaced":
            return "" if self.p_replaced is None else "caught" if flagged else "missed"
        return "false-alarm" if flagged else ""

    @property
    def about(self) -> str:
        """The text of its tooltip."""
        score = f"P(replaced) {self.p_replaced:.3f}" if self.p_replaced is not None else ""
        return f"{self.original} -> {self.shown}. {score}" if self.label == "replaced" else score

    @property
    def width(self) -> float:
        """The width of its bar, in percent."""
        return 100 * min(1.0, max(0.0, self.p_replaced or 0.0))


@dataclass(frozen=True)
class Example:
    """A sentence and its tokens."""

    text: str
    rows: Sequence[Token]


@dataclass(frozen=True)
class Examples:
    """Corrupted sentences, shaded by P(replaced), each with a table of its tokens.

    Colour and underlining both show the outcome of a token, for grey print and colour blindness.
    """

    examples: Sequence[Example]

    OPEN_ROWS: ClassVar = 32  # longer tables start closed
    SHOWN: ClassVar = 3  # further examples are folded

    @property
    def outcomes(self) -> dict[str, str]:
        """The meaning of each outcome, for the legend."""
        tokens = (token for example in self.examples for token in example.rows)
        threshold = next((token.threshold for token in tokens), DEFAULT_THRESHOLD)
        return {
            "caught": f"replaced and marked: P(replaced) reaches the threshold, {threshold:.2g}",
            "missed": "replaced, not marked",
            "false-alarm": "original, marked",
        }

    @property
    def scored(self) -> bool:
        """Whether the discriminator scored any token."""
        return any(row.p_replaced is not None for example in self.examples for row in example.rows)


Block = Text | Facts | Table | Figures | Columns | Fold | Examples


@dataclass(frozen=True)
class Section:
    """A part of a page with a heading."""

    title: str
    blocks: Sequence[Block | None]
    lead: str = ""
    """A sentence under the title."""

    @property
    def id(self) -> str:
        """Its anchor."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


@dataclass(frozen=True)
class Page:
    """A whole page.

    Attributes:
        title: the title.
        sections: the sections; None is skipped.
        kicker: the small line over the title.
        summary: the sentence under it.
        opening: blocks before the sections.
        reload: the seconds after which a browser reloads it (0: never).
    """

    title: str
    sections: Sequence[Section | None]
    kicker: str = "electra"
    summary: str = ""
    opening: Sequence[Block | None] = ()
    reload: int = 0


def render(page: Page, drawn: dict[str, str] | None = None) -> str:
    """Returns the page as HTML, and puts the standalone SVG of each figure into `drawn`, by name."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["block"] = lambda value, name: type(value).__name__ == name
    environment.globals["counted"] = itertools.count(1).__next__  # gives each switch a name of its own
    environment.globals["draw"] = lambda figures: _draw(figures, {} if drawn is None else drawn)
    environment.globals["install"] = "" if svg.available() else svg.INSTALL
    sections = [section for section in page.sections if section is not None]
    return environment.get_template(TEMPLATE).render(page=page, sections=sections)


def publish(page: Page, path: Path, figures: Path | None = None) -> Path:
    """Writes the page to `path` atomically, and its figures to figures/*.svg; returns `path`.

    `figures` is the folder that contains the subfolder figures/ (None: the figures are only in the page).
    Raises DiskError.
    """
    drawn: dict[str, str] = {}
    html = render(page, drawn)
    for name, text in drawn.items() if figures is not None else ():
        durable.commit_file(Path(figures or "") / FIGURES / f"{name}.svg", text.encode())
    durable.commit_file(path, html.encode("utf-8", "replace"))  # a lone surrogate becomes '?'
    return path


def _draw(figures: Figures, drawn: dict[str, str]) -> dict[str, list[tuple[Figure, str]]]:
    views: dict[str, list[tuple[Figure, str]]] = {}
    for view, members in figures.views.items() if svg.available() else ():
        for figure in members:
            if (text := draw(figure)) is not None:
                drawn[figure.name] = text
                views.setdefault(view, []).append((figure, Markup(svg.inline(text))))
    return views


def _cell(value: Any, kind: Kind | None = None) -> object:
    if kind is not None and (value is None or isinstance(value, int | float)):
        return Number(value, kind)
    return value if value is None or isinstance(value, Number | Markup) else str(value)


def _pairs(record: Mapping[str, Any], prefix: str, numbers: bool) -> Iterable[tuple[str, object]]:
    for key, value in record.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _pairs(value, f"{name}.", numbers)
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            for i, item in enumerate(value, 1):
                yield from _pairs(item, f"{name} {i}.", numbers)
        elif numbers and isinstance(value, int | float) and not isinstance(value, bool):
            yield name, Number(value)
        else:
            yield name, verbatim(value)


def verbatim(value: Any) -> str:
    """Returns a value written roughly as in a settings file."""
    if isinstance(value, list):
        return ", ".join(map(verbatim, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(value: float) -> str:
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _large(value: float) -> str:
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            scaled = value / (1e3 if unit == "k" else size)
            return f"{scaled:.3g} {unit}" if abs(scaled) < 999.5 else f"{scaled:,.0f} {unit}"
    return _plain(value)


def _power(value: float) -> str:
    if abs(value) < 1e6:
        return _plain(value)
    mantissa, exponent = f"{value:.2e}".split("e")
    return Markup("{} &times; 10<sup>{}</sup>").format(mantissa, int(exponent))


def _seconds(value: float) -> str:
    seconds = round(value)
    if seconds < 60:
        return f"{value:.3g} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02} min"


_FORMATS: Mapping[str, Callable[[float], str]] = {
    "plain": _plain,
    "score": lambda value: f"{value:z.3f}",
    "points": lambda value: f"{100 * value:.1f}",
    "percent": lambda value: f"{100 * value:.3g} %",
    "signed": lambda value: f"{value:+.4f}",
    "signed percent": lambda value: f"{100 * value:+.2f} %",
    "tenth": lambda value: f"{value:.1f}",
    "p": lambda value: "< 0.001" if value < 0.001 else f"{value:.3f}",
    "large": _large,
    "power": _power,
    "seconds": _seconds,
}
