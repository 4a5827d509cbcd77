"""Measures at each depth of several encoders, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from electra.foundation.arrays import Floats
from electra.laboratory.analysis.contract import Estimate, Figure, Findings, Table
from electra.laboratory.analysis.measures.bootstrap import estimates

Points = Mapping[str, Sequence[Floats]]
"""Name -> one number [N] for each item, at each depth."""
ByDepth = dict[str, list[Estimate]]
"""Name -> its estimate at each depth. Depth 0 is the input of the first layer; depths may differ."""


def ratios(points: Points, scale: npt.ArrayLike, groups: npt.ArrayLike, resamples: int) -> ByDepth:
    """sum(points) / sum(scale) over the items [N], with intervals from the same samples of their groups."""
    stacked = np.stack([row for rows in points.values() for row in rows])
    denominator = np.broadcast_to(np.asarray(scale, np.float64), stacked.shape[1:])

    def measure(weights: Floats) -> dict[str, float]:
        total = float(weights @ denominator)
        return {str(i): value / total if total > 0 else np.nan for i, value in enumerate(stacked @ weights)}

    numbers = np.unique(np.asarray(groups), return_inverse=True)[1]
    values = iter(estimates(measure, numbers, resamples=resamples).values())
    return {name: [next(values) for _ in rows] for name, rows in points.items()}


def differences_to_first(points: Points) -> dict[str, list[Floats]]:
    """The first name's points minus each other one's, item by item, at the depths that both have."""
    first, *others = points
    return {
        f"ahead of {name}": [a - b for a, b in zip(points[first], points[name], strict=False)]
        for name in others
    }


def best(estimates: Sequence[Estimate]) -> Estimate:
    """The estimate of the depth with the highest value."""
    return max(estimates, key=lambda estimate: estimate.value or 0.0)


def add_measure(
    findings: Findings,
    title: str,
    estimates_of: ByDepth,
    *,
    note: str = "",
    figure: str = "",
    about: str = "",
    unit: str = "",
    references: Mapping[str, float | None] | None = None,
    axis: str = "depth",
) -> None:
    """Add the measure `title`: a table of names by depth and, if `figure` names one, a figure.

    Args:
        findings: Receives the numbers, the table and the figure.
        title: The measure.
        estimates_of: Its estimates by name and depth.
        note: How to read the table.
        figure: Name of the figure's file.
        about: The figure's own note (default: the table's).
        unit: Unit of the figure's axis.
        references: Reference lines of the figure.
        axis: "depth", from 0, or "layer", from 1.
    """
    for name, row in estimates_of.items():
        for place, estimate in enumerate(row, int(axis == "layer")):
            findings.add(estimate, measure=title, encoder=name, **{axis: place})
    keep = {"measure": title}
    findings.tables.append(Table(title, (axis,), "encoder", keep, note))
    if figure:
        text = f"{about or note} Bands are 95 % intervals.".strip()
        drawn = Figure(figure, title, axis, "encoder", keep, text, unit, references=references or {})
        findings.figures.append(drawn)
