"""What a probe finds: numbers in long form, and which of them make a table, a figure or the headline.

Every number lies at a place on several axes: its `measure`, the model, the layer, the part of speech,
whatever sets it apart. A table or a figure is a declaration: the numbers that have exactly these axes, turned
so. The page is drawn from the numbers and the declarations alone (`electra.pages.probes`, without torch), so
every number on the page can be found in the file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Literal

Place = str | int | float
"""Where on an axis."""
Kept = Mapping[str, Place | Sequence[Place]]
"""Axis -> the one place to look at, or several, in the order to show them in."""


@dataclass(frozen=True)
class Estimate:
    """A measured number with its 95 % interval (None where there is none)."""

    value: float | None
    low: float | None = None
    high: float | None = None


Cell = str | int | float | Estimate | None


@dataclass(frozen=True)
class Table:
    """A row for each combination of places on the axes `down`, a column for each place on `across`."""

    title: str
    down: Sequence[str]
    across: str = "measure"
    keep: Kept = field(default_factory=dict)
    note: str = ""
    """How to read it, in a sentence."""


@dataclass(frozen=True)
class Figure:
    """What to draw; `electra.pages.figures` knows how.

    lines: numbers against the places on axis `x`. categories: a horizontal row for each place on `x`.
    matrix: a column for each place on `x`. Each place on the axis `series` is a line, a mark, a row.
    """

    name: str  # of its file: letters, digits and hyphens
    title: str
    x: str
    series: str
    keep: Kept = field(default_factory=dict)
    note: str = ""
    unit: str = ""  # of the numbers
    kind: Literal["lines", "categories", "matrix"] = "lines"
    references: Mapping[str, float | Literal["diagonal"] | None] = field(default_factory=dict)
    """What knowing nothing, or knowing all, would give."""
    dots: Sequence[str] = ()  # series drawn as points without a line
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None


@dataclass
class Findings:
    """`headline`: the few numbers that say most, of the first model; `--over-training` follows them. `notes`:
    what a reader must know to read the numbers right: how much data, what was left out.
    """

    headline: dict[str, Estimate] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    numbers: dict[tuple[str, ...], dict[tuple[Place, ...], Cell]] = field(default_factory=dict)
    """Axes -> places on them -> what was found there."""

    def add(self, found: Cell, **at: Place) -> None:
        axes = tuple(sorted(at))
        numbers, place = self.numbers.setdefault(axes, {}), tuple(at[axis] for axis in axes)
        assert place not in numbers, f"found twice: {at}"
        numbers[place] = found

    def add_all(self, found: Mapping[str, Cell], axis: str = "measure", **at: Place) -> None:
        """Of several places on one axis."""
        for place, cell in found.items():
            self.add(cell, **{axis: place}, **at)

    def of(self, *axes: str, **at: Place | Sequence[Place]) -> dict[Any, Any]:
        """Place on the other `axes` (none: the measure; several: a tuple) -> what was found at `at`."""
        others = axes or ("measure",)
        known = tuple(sorted({*others, *at}))
        found: dict[Any, Any] = {}
        for place, cell in self.numbers.get(known, {}).items():
            where = dict(zip(known, place, strict=True))
            if all(where[axis] == wanted for axis, wanted in at.items()):
                found[tuple(where[axis] for axis in axes) if len(axes) > 1 else where[others[0]]] = cell
        return found

    def to_json(self) -> dict[str, Any]:
        frames = [
            {"axes": axes, "rows": [[*place, *_cells(cell)] for place, cell in numbers.items()]}
            for axes, numbers in self.numbers.items()
        ]
        encoded: dict[str, Any] = as_json({**vars(self), "numbers": frames})
        return encoded


def _cells(cell: Cell) -> list[Cell]:
    return [cell.value, cell.low, cell.high] if isinstance(cell, Estimate) else [cell]


def as_json(value: Any) -> Any:
    """As JSON has it: dataclasses are objects, arrays and tuples lists; what is not finite is null."""
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
    assert isinstance(value, int | float), f"{type(value).__name__} in a record"
    return value
