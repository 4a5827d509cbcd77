"""What earlier runs of ours came to, for those who plan one like them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.foundation.config import read_toml

NEAR = 3.0  # runs of up to so many times the FLOPs, or of as much less, tell something
METRICS = ("auc", "mlm_loss")


@dataclass(frozen=True)
class Expected:
    """Lowest and highest value of each metric among the runs like it; `runs` of them."""

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
    return tuple(read_toml(Path(__file__).with_suffix(".toml"))["run"])


def expected(objective: str, encoder: str, layers: int, hidden_size: int, *, flops: float) -> Expected | None:
    """Of our runs with this objective and shape and about as many FLOPs; None where there are none."""
    like = {"objective": objective, "encoder": encoder, "layers": layers, "hidden_size": hidden_size}
    near = [
        run
        for run in runs()
        if all(run[key] == value for key, value in like.items())
        and flops / NEAR <= run["flops"] <= flops * NEAR
    ]
    found = {name: [run[name] for run in near if name in run] for name in METRICS}
    return Expected(len(near), {k: (min(v), max(v)) for k, v in found.items() if v}) if near else None
