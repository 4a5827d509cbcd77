"""What a probe answers: plain data, written as JSON, from which the page is drawn without torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal


@dataclass(frozen=True)
class Estimate:
    """A measured number with its 95 % interval (None where there is none)."""

    value: float | None
    low: float | None = None
    high: float | None = None


Cell = str | int | float | Estimate | None


@dataclass(frozen=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    """How to read it, in a sentence."""


@dataclass(frozen=True)
class Series:
    """One line, one set of points, or one row of a matrix. `low` and `high` are the ends of the intervals."""

    label: str
    x: Sequence[float] | Sequence[str]
    y: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    style: Literal["line", "points", "reference"] = "line"
    """reference: what knowing nothing, or knowing all, would give."""

    @classmethod
    def of(
        cls,
        label: str,
        x: Sequence[float] | Sequence[str],
        found: Sequence[Estimate],
        style: Literal["line", "points"] = "line",
    ) -> Series:
        """Estimates with their intervals."""
        return cls(label, x, [e.value for e in found], [e.low for e in found], [e.high for e in found], style)


@dataclass(frozen=True)
class Figure:
    """What to draw; `report.charts` knows how.

    lines: numbers against numbers. categories: a horizontal row for each name in `x`, a mark for each series.
    matrix: a series is a row, its `x` are the columns.
    """

    name: str  # of its file: letters, digits and hyphens
    title: str
    note: str
    x: str
    y: str
    series: Sequence[Series]
    kind: Literal["lines", "categories", "matrix"] = "lines"
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Report:
    """A probe's answer. `headline`: the few numbers that say most, of the first model; `--over-training`
    follows them.
    """

    headline: Mapping[str, Estimate]
    tables: Sequence[Table]
    figures: Sequence[Figure] = ()
    notes: Sequence[str] = ()
    """What a reader must know to read the numbers right: how much data, what was left out, what the intervals
    allow.
    """

    def to_json(self) -> dict[str, Any]:
        plain = {
            "headline": self.headline,
            "tables": self.tables,
            "figures": self.figures,
            "notes": self.notes,
        }
        encoded: dict[str, Any] = as_json(plain)
        return encoded


def as_json(value: Any) -> Any:
    """Dataclasses as objects, arrays and tuples as lists, numbers of numpy as Python's, what is not finite as
    null.
    """
    if hasattr(value, "__dataclass_fields__"):
        return {name: as_json(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return {str(key): as_json(inner) for key, inner in value.items()}
    if isinstance(value, str | bool) or value is None:
        return value
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(value, "tolist"):  # numpy's arrays and scalars
        return as_json(value.tolist())
    if isinstance(value, Sequence):
        return [as_json(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    assert isinstance(value, int | float), f"{type(value).__name__} in a report"
    return value
