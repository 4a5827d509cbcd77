"""Measures at each depth of several encoders, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from electra.foundation.arrays import Floats
from electra.laboratory.analysis.contract import Estimate, Findings
from electra.laboratory.analysis.measures.bootstrap import estimates

Points = Mapping[str, Sequence[Floats]]
"""Name -> at each depth, one number for each item: [N]."""
ByDepth = dict[str, list[Estimate]]
"""Name -> its estimate at each of its depths. Depth 0 is the input of the first layer."""


def ratios(points: Points, scale: npt.ArrayLike, groups: npt.ArrayLike, resamples: int) -> ByDepth:
    """Returns sum(points) / sum(scale) over the items [N], with intervals from resampled groups of items.

    All ratios use the same resamples. A ratio is None if sum(scale) is not above 0.

    Args:
        points: The numbers to sum.
        scale: A number for each item [N], or one for all items.
        groups: The group of each item [N], such as its sentence.
        resamples: How many times the groups are drawn.
    """
    keys = [(name, depth) for name, rows in points.items() for depth in range(len(rows))]
    stacked = np.stack([row for rows in points.values() for row in rows])
    denominator = np.broadcast_to(np.asarray(scale, np.float64), stacked.shape[1:])

    def measure(weights: Floats) -> dict[tuple[str, int], float]:
        scale_sum = float(weights @ denominator)
        ratio = stacked @ weights / scale_sum if scale_sum > 0 else np.full(len(stacked), np.nan)
        return dict(zip(keys, ratio, strict=True))

    group_index = np.unique(np.asarray(groups), return_inverse=True)[1]
    return by_name(estimates(measure, group_index, resamples=resamples))


def by_name(values: Mapping[tuple[str, int], Estimate]) -> ByDepth:
    """Returns estimates by (name, depth) as lists by name. Depths must be in ascending order."""
    rows: ByDepth = {}
    for (name, _), estimate in values.items():
        rows.setdefault(name, []).append(estimate)
    return rows


def differences_to_first(points: Points) -> dict[str, list[Floats]]:
    """Returns, as "ahead of NAME", the first name's points minus those of NAME, at their common depths."""
    first_name, *other_names = points
    return {
        f"ahead of {name}": [a - b for a, b in zip(points[first_name], points[name], strict=False)]
        for name in other_names
    }


def best(row: Sequence[Estimate]) -> Estimate:
    """Returns the estimate with the highest value; undefined values (None) count as 0."""
    return max(row, key=lambda estimate: estimate.value or 0.0)


def add_measure(
    findings: Findings,
    title: str,
    rows: ByDepth,
    *,
    note: str = "",
    figure: str = "",
    about: str = "",
    unit: str = "",
    references: Mapping[str, float | None] | None = None,
    axis: str = "depth",
) -> None:
    """Adds the measure `title`: a table of names by depth and, if `figure` names one, a figure.

    Args:
        findings: Receives the numbers, the table and the figure.
        title: The measure.
        rows: The estimates by name and depth.
        note: How to read the table.
        figure: Name of the figure's file ("": no figure).
        about: The figure's own note (default: the table's).
        unit: Unit of the figure's axis.
        references: Reference lines of the figure, by name.
        axis: "depth", from 0, or "layer", from 1.
    """
    for name, row in rows.items():
        for depth, estimate in enumerate(row, int(axis == "layer")):
            findings.add(estimate, measure=title, encoder=name, **{axis: depth})
    findings.table(title, axis, across="encoder", note=note, measure=title)
    if figure:
        text = f"{about or note} Bands are 95 % intervals.".strip()
        shown = {"note": text, "unit": unit, "references": references or {}}
        findings.figure(figure, title, axis, "encoder", {"measure": title}, **shown)
