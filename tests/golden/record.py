"""Golden loss curves: 100 updates of a toy run for each objective and encoder, bit-identical.

    python tests/golden/record.py [OBJECTIVE ...]    records the curves of these objectives (default: all)

A change that alters a curve changes the meaning of recipes: record curves only on purpose, and say so in the
commit.
"""

import json
import platform
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch

from electra.model.sizes import SIZES, Size
from electra.testing import toy
from electra.training.assemble import build_run
from electra.training.distributed import World
from electra.training.loop import update

FOLDER = Path(__file__).parent
STEPS = 100
CASES = [(name, encoder) for name in toy.names() for encoder in ("electra", "modern")]
SMALL = Size(num_layers=2, hidden_size=64, embedding_size=32, generator_width=1 / 2, max_positions=32)


class Rows(list[dict[str, Any]]):
    """A stand-in for a run's telemetry that collects its rows."""

    def record_training(self, row: dict[str, Any], total: int) -> None:
        self.append(row)

    def say(self, line: str) -> None:
        """Ignores warnings, such as that of a busy machine."""


def curve(objective: str, encoder: str, steps: int = STEPS) -> dict[str, list[float]]:
    """Returns the losses and gradient norms of a run through the real loop: fp32, one thread, dropout on."""
    recipe = toy.recipe(
        model={"size": "golden", "encoder": encoder, "initialisation": "fan_in"},
        objective={"name": objective},
        training={"steps": STEPS, "learning_rate": 3e-3, "warmup": 0.1, "device": "cpu", "micro_batch": 5},
    )
    with patch.dict(SIZES, golden=SMALL), tempfile.TemporaryDirectory() as folder:
        rows = Rows()
        run = replace(build_run(recipe, Path(folder), toy.store(), World()), telemetry=rows)  # type: ignore[arg-type]
        for _ in range(steps):
            update(run)
    kept = {name: [row["losses"][name] for row in rows] for name in run.objective.weights}
    return {**kept, "gradient_norm": [row["gradient_norm"] for row in rows]}


def machine() -> dict[str, str]:
    """Returns what the last bits of a curve depend on, besides our code."""
    # one name covers several designs
    wanted = ("model name", "cpu family", "model", "stepping", "cache size")
    try:
        first, *_ = Path("/proc/cpuinfo").read_text().split("\n\n")
    except OSError:
        first = ""
    told = {name.strip(): value.strip() for name, _, value in (x.partition(":") for x in first.splitlines())}
    model = ", ".join(f"{name} {told[name]}" for name in wanted if name in told) or platform.processor()
    return {"torch": torch.__version__, "cpu": model, "capability": torch.backends.cpu.get_cpu_capability()}


def file_of(objective: str, encoder: str) -> Path:
    return FOLDER / f"{objective}-{encoder}.json"


def record(objectives: list[str]) -> None:
    for objective, encoder in CASES:
        if objectives and objective not in objectives:
            continue
        content = {**machine(), **curve(objective, encoder)}
        file_of(objective, encoder).write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    record(sys.argv[1:])
