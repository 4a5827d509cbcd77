"""Results of earlier runs of ours, as expectations for similar runs."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.foundation.config import read_toml

NEAR = 3.0  # runs whose FLOPs are within this factor are comparable
METRICS = ("auc", "mlm_loss")


@dataclass(frozen=True)
class Expected:
    """The range of each metric among comparable runs.

    Attributes:
        runs: Number of comparable runs.
        values: Lowest and highest value of each metric.
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
    """Returns the metrics of our runs with this objective, shape and similar FLOPs, or None."""
    like = {"objective": objective, "encoder": encoder, "layers": layers, "hidden_size": hidden_size}
    near = [
        run
        for run in runs()
        if all(run[key] == value for key, value in like.items())
        and flops / NEAR <= run["flops"] <= flops * NEAR
    ]
    values = {name: [run[name] for run in near if name in run] for name in METRICS}
    return Expected(len(near), {k: (min(v), max(v)) for k, v in values.items() if v}) if near else None
