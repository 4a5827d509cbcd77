"""Tables and figures of a measure at each depth of several encoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from electra.analysis.parts.interface import Cell, Estimate, Figure, Series, Table

Found = Mapping[str, Sequence[Estimate]]
"""name -> its estimate at each depth. Depth 0 is what enters the first layer; encoders may differ in depth."""


def table(title: str, found: Found, note: str = "") -> Table:
    rows: list[list[Cell]] = [
        [depth, *(row[depth] if depth < len(row) else None for row in found.values())] for depth in range(max(map(len, found.values())))
    ]
    return Table(title, ("depth", *found), rows, note)


def figure(name: str, title: str, *, note: str, y: str, found: Found, references: Mapping[str, float] | None = None) -> Figure:
    series = [
        Series(label, list(range(len(row))), [e.value for e in row], low=[e.low for e in row], high=[e.high for e in row])
        for label, row in found.items()
    ]
    deepest = max(map(len, found.values())) - 1
    for label, value in (references or {}).items():
        series.append(Series(label, [0, deepest], [value, value], style="reference"))
    return Figure(name, title, f"{note} Bands are 95 % intervals.".strip(), "depth", y, series)
