"""The metrics to expect of a run, taken from recorded runs that are similar to it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.foundation.config import read_toml

MAX_FACTOR = 3.0  # maximum ratio of the FLOPs of comparable runs
METRICS = ("auc", "mlm_loss")


@dataclass(frozen=True)
class Expected:
    """The range of each metric among comparable runs.

    Attributes:
        runs: Number of comparable runs.
        values: Lowest and highest value of each metric that a comparable run has.
    """

    runs: int
    values: dict[str, tuple[float, float]]

    def __str__(self) -> str:
        names = {"auc": "AUC", "mlm_loss": "MLM loss"}
        return ", ".join(
            f"{names[name]} {low:.3g}" if low == high else f"{names[name]} {low:.3g} to {high:.3g}"
            for name, (low, high) in self.values.items()
        )


@functools.cache
def runs() -> tuple[dict[str, Any], ...]:
    """Returns the recorded runs, from experience.toml."""
    return tuple(read_toml(Path(__file__).with_suffix(".toml"))["run"])


def expected(objective: str, encoder: str, layers: int, hidden_size: int, *, flops: float) -> Expected | None:
    """Returns the metrics of runs with this objective and shape and similar FLOPs; None if there are none."""
    required = {"objective": objective, "encoder": encoder, "layers": layers, "hidden_size": hidden_size}
    similar_runs = [
        run
        for run in runs()
        if all(run[key] == value for key, value in required.items())
        and flops / MAX_FACTOR <= run["flops"] <= flops * MAX_FACTOR
    ]
    values = {name: [run[name] for run in similar_runs if name in run] for name in METRICS}
    ranges = {
        name: (min(known_values), max(known_values)) for name, known_values in values.items() if known_values
    }
    return Expected(len(similar_runs), ranges) if similar_runs else None
