"""Send the curves of a run or a fine-tuning to TensorBoard, Trackio, Weights & Biases or MLflow."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from electra.commands.cli.arguments import Positional


@dataclass(frozen=True)
class Arguments:
    run: Positional[Path]
    """A run folder or a fine-tuning, in progress or ended. Each seed of a fine-tuning becomes a run there."""
    to: Literal["tensorboard", "trackio", "wandb", "mlflow"]
    """Where to send them. Each needs its extra: pip install "electra-encoder[wandb]"."""
    out: Path | None = None
    """The folder of the tracker's files (default: one named after the tracker, here)."""
    project: str = "electra"
    """The project or experiment there. TensorBoard has none."""
    name: str | None = None
    """The run's name there (default: that of its folder)."""
    follow: bool = False
    """Keep sending until the run ends."""


def run(arguments: Arguments) -> int:
    from electra.commands.workflow.display import Terminal
    from electra.commands.workflow.log import log

    log(**vars(arguments), progress=Terminal())
    return 0
