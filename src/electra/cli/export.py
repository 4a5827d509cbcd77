"""Write a network of a run as a Hugging Face folder, also as of a chosen checkpoint."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from electra.cli.arguments import Positional


@dataclass(frozen=True)
class Arguments:
    run: Positional[str]
    """A run folder, or any model folder or hub name."""
    out: Path
    """The folder to write. It must be new, or hold an exported model and nothing else."""
    network: Literal["discriminator", "generator"] = "discriminator"
    """Which of the two networks."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Number format of the weights."""
    step: int | None = None
    """The checkpoint to export (default: the finished network, or the newest checkpoint)."""


def run(arguments: Arguments) -> int:
    from electra.workflow.model import load

    model = load(arguments.run, step=arguments.step, device="cpu")
    model.export(arguments.out, network=arguments.network, dtype=arguments.dtype)
    sys.stderr.writelines(f"note: {note}\n" for note in model.network(arguments.network).notes)
    sys.stdout.write(f"{arguments.out}\n")
    return 0
