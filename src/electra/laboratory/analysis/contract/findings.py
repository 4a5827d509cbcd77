"""The results of a probe: numbers in long form, and which of them make a table, a figure or the headline.

Every number lies at a place on several axes: its `measure`, the model, the layer, the part of speech and so
on. A table or a figure declares which numbers it shows: those with exactly its axes. The page is drawn from
the numbers and the declarations alone (`electra.pages.probes`, without torch), so every number on the page is
in the file.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Place = str | int | float
"""A position on an axis."""
Selection = Mapping[str, Place | Sequence[Place]]
"""Axis -> the place to show, or several in the order to show them."""


@dataclass(frozen=True)
class Estimate:
    """A measured number with its 95 % interval (None if there is none)."""

    value: float | None
    low: float | None = None
    high: float | None = None


Cell = str | int | float | Estimate | None


@dataclass
class Findings:
    """The results of a probe, filled in by `add` and `add_all`, and shown by `table` and `figure`.

    `headline` holds the few numbers of the first model that say most.
    `notes` holds what a reader must know to interpret the numbers, such as how much data was left out.
    """

    headline: dict[str, Estimate] = field(default_factory=dict)
    tables: list[dict[str, Any]] = field(default_factory=list)
    figures: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    numbers: dict[tuple[str, ...], dict[tuple[Place, ...], Cell]] = field(default_factory=dict)
    """Axes (sorted) -> places on them -> the number there."""

    def add(self, cell: Cell, /, **at: Place) -> None:
        """Adds one number at a place on each of its axes, where there must be none yet."""
        axes = tuple(sorted(at))
        numbers, places = self.numbers.setdefault(axes, {}), tuple(at[axis] for axis in axes)
        assert places not in numbers, f"added twice: {at}"
        numbers[places] = cell

    def add_all(self, cells: Mapping[str, Cell], axis: str = "measure", **at: Place) -> None:
        """Adds numbers by place on one `axis`, all at the places `at` on the other axes."""
        for place, cell in cells.items():
            self.add(cell, **{axis: place}, **at)

    def table(self, title: str, *down: str, note: str = "", across: str = "measure", **keep: Any) -> None:
        """Declares a table: a row for each combination of places on `down`, a column for each on `across`.

        It shows the numbers whose axes are exactly these and those of `keep`, which gives the places to show:
        one, or several in their order. `note` says how to read it.
        """
        self.tables.append({"title": title, "down": down, "across": across, "keep": keep, "note": note})

    def figure(self, name: str, title: str, x: str, series: str, keep: Selection, **options: Any) -> None:
        """Declares a figure over the numbers, drawn by `electra.pages.figures` into a file of this `name`.

        "lines" plots the numbers against the places on the axis `x`; "categories" has a horizontal row for
        each place on `x`, and "matrix" a column. Each place on the axis `series` is a line, a mark or a row.
        `keep` selects numbers as in a table. Further `options` are `note`, the `unit` of the numbers, the
        `kind`, `references` (name -> value, such as chance, or "diagonal"), `x_range` and `y_range`.
        """
        figure: dict[str, Any] = {"name": name, "title": title, "x": x, "series": series, "keep": keep}
        figure |= {"note": "", "unit": "", "kind": "lines"}
        figure |= {"references": {}, "x_range": None, "y_range": None}
        assert options.keys() <= figure.keys(), f"unknown: {sorted(options)}"
        self.figures.append(figure | options)

    def select(self, *axes: str, **at: Place | Sequence[Place]) -> dict[Any, Any]:
        """Returns the numbers at the places `at`, by place on the other `axes` (default: the measure).

        With several `axes`, a key is a tuple of places.
        """
        free_axes = axes or ("measure",)
        all_axes = tuple(sorted({*free_axes, *at}))
        cells: dict[Any, Any] = {}
        for places, cell in self.numbers.get(all_axes, {}).items():
            place_on = dict(zip(all_axes, places, strict=True))
            if all(place_on[axis] == place for axis, place in at.items()):
                key = tuple(place_on[axis] for axis in free_axes)
                cells[key if len(free_axes) > 1 else key[0]] = cell
        return cells

    def to_json(self) -> dict[str, Any]:
        """Returns the findings as plain data, with a list of rows for each combination of axes."""
        frames = [
            {"axes": axes, "rows": [[*place, *_cells(cell)] for place, cell in numbers.items()]}
            for axes, numbers in self.numbers.items()
        ]
        encoded: dict[str, Any] = as_json({**vars(self), "numbers": frames})
        return encoded


def _cells(cell: Cell) -> list[Cell]:
    return [cell.value, cell.low, cell.high] if isinstance(cell, Estimate) else [cell]


def as_json(value: Any) -> Any:
    """Returns a value as JSON: arrays become lists, NaN and infinity null, keys and anything else strings."""
    if hasattr(value, "__dataclass_fields__"):
        value = {name: getattr(value, name) for name in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return {str(key): as_json(inner) for key, inner in value.items()}
    if hasattr(value, "tolist"):  # numpy's arrays and scalars
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | int | float):
        return value
    return [as_json(inner) for inner in value] if isinstance(value, Sequence) else str(value)
