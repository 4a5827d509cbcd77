"""Measures at each depth of several encoders, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from electra.foundation.arrays import Floats
from electra.laboratory.analysis.contract import Estimate, Figure, Findings, Table
from electra.laboratory.analysis.measures.bootstrap import estimates

Points = Mapping[str, Sequence[Floats]]
"""name -> one number for each item, at each depth."""
Found = dict[str, list[Estimate]]
"""name -> its estimate at each depth. Depth 0 is what enters the first layer; encoders may
differ in depth.
"""


def ratios(points: Points, scale: npt.ArrayLike, groups: npt.ArrayLike, resamples: int) -> Found:
    """sum(points) / sum(scale) over the items [N], with intervals from the same samples of their groups."""
    stacked = np.stack([row for rows in points.values() for row in rows])
    below = np.broadcast_to(np.asarray(scale, np.float64), stacked.shape[1:])

    def measure(weights: Floats) -> dict[str, float]:
        total = float(weights @ below)
        return {str(i): value / total if total > 0 else np.nan for i, value in enumerate(stacked @ weights)}

    numbers = np.unique(np.asarray(groups), return_inverse=True)[1]
    found = iter(estimates(measure, numbers, resamples=resamples).values())
    return {name: [next(found) for _ in rows] for name, rows in points.items()}


def ahead(points: Points) -> dict[str, list[Floats]]:
    """How far the first is ahead of each other one, item by item, at the depths that both have."""
    first, *others = points
    return {
        f"ahead of {name}": [a - b for a, b in zip(points[first], points[name], strict=False)]
        for name in others
    }


def show(
    findings: Findings,
    title: str,
    found: Found,
    *,
    note: str = "",
    figure: str = "",
    about: str = "",
    unit: str = "",
    references: Mapping[str, float | None] | None = None,
    axis: str = "depth",
) -> None:
    """Add the measure `title`: a table of the names by depth, and, where it has a name, a figure. `about`:
    what the figure says of itself, where that is not the table's `note`. `axis`: depth, from 0, or layer,
    from 1.
    """
    for name, row in found.items():
        for place, estimate in enumerate(row, int(axis == "layer")):
            findings.add(estimate, measure=title, encoder=name, **{axis: place})
    keep = {"measure": title}
    findings.tables.append(Table(title, (axis,), "encoder", keep, note))
    if figure:
        text = f"{about or note} Bands are 95 % intervals.".strip()
        drawn = Figure(figure, title, axis, "encoder", keep, text, unit, references=references or {})
        findings.figures.append(drawn)
