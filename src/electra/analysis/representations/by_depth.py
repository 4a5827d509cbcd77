"""Measures at each depth of several encoders: intervals, tables, figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from electra.analysis.contract import Cell, Estimate, Figure, Series, Table
from electra.analysis.measures.bootstrap import estimates

Floats = npt.NDArray[np.float64]
Points = Mapping[str, Sequence[npt.NDArray[np.float64]]]
"""name -> one number for each item, at each depth."""
Found = dict[str, list[Estimate]]
"""name -> its estimate at each depth. Depth 0 is what enters the first layer; encoders may differ in depth.
"""


def ratios(points: Points, scale: npt.ArrayLike, groups: npt.ArrayLike, resamples: int) -> Found:
    """sum(points) / sum(scale) over the items [N], with intervals from bootstrap samples of their groups: the
    same for all of them.
    """
    stacked = np.stack([row for rows in points.values() for row in rows])
    below = np.broadcast_to(np.asarray(scale, np.float64), stacked.shape[1:])

    def measure(weights: Floats) -> dict[str, float]:
        total = float(weights @ below)
        return {
            str(i): float(value) / total if total > 0 else float("nan")
            for i, value in enumerate(stacked @ weights)
        }

    flat = list(
        estimates(
            measure, np.unique(np.asarray(groups), return_inverse=True)[1], resamples=resamples
        ).values()
    )
    found: Found = {}
    for name, rows in points.items():
        found[name], flat = flat[: len(rows)], flat[len(rows) :]
    return found


def ahead(points: Points) -> dict[str, list[Floats]]:
    """How far the first is ahead of each other one, item by item, at the depths that both have."""
    first, *others = points
    return {
        f"ahead of {name}": [a - b for a, b in zip(points[first], points[name], strict=False)]
        for name in others
    }


def table(title: str, found: Found, note: str = "", first: int = 0) -> Table:
    """`first`: the number of the first row; 1 for measures of layers, which have no depth 0."""
    rows: list[list[Cell]] = [
        [first + place, *(row[place] if place < len(row) else None for row in found.values())]
        for place in range(max(map(len, found.values())))
    ]
    return Table(title, ("layer" if first else "depth", *found), rows, note)


def figure(
    name: str,
    title: str,
    *,
    note: str,
    y: str,
    found: Found,
    references: Mapping[str, float] | None = None,
    first: int = 0,
) -> Figure:
    series = [Series.of(label, range(first, first + len(row)), row) for label, row in found.items()]
    last = first + max(map(len, found.values())) - 1
    for label, value in (references or {}).items():
        series.append(Series(label, [first, last], [value, value], style="reference"))
    return Figure(
        name, title, f"{note} Bands are 95 % intervals.".strip(), "layer" if first else "depth", y, series
    )
