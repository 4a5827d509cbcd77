"""Write a network of a run as a Hugging Face folder, or any model as an ONNX graph."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from electra.artifacts.model import Dtype
from electra.commands.cli.arguments import Positional
from electra.foundation.errors import ConfigError

if TYPE_CHECKING:
    from electra.exchange.load import Loaded


@dataclass(frozen=True)
class Arguments:
    run: Positional[str]
    """A run folder, a model folder or a hub name; with --format onnx also a fine-tuning, whose model/ is a
    Hugging Face folder already.
    """
    out: Path
    """The folder to write. It must be new, or hold an exported model and nothing else."""
    network: Literal["discriminator", "generator"] | None = None
    """Which network to write (default: the discriminator, or the only one there is)."""
    dtype: Dtype = "float32"
    """Number format of the weights."""
    format: Literal["huggingface", "onnx"] = "huggingface"
    """onnx: a graph for onnxruntime, of the discriminator, a bare encoder or a fine-tuned model."""
    int8: bool = False
    """Store the weights of the ONNX graph as 8-bit integers."""
    step: int | None = None
    """The checkpoint to export (default: the finished network, or the newest checkpoint)."""
    average: int | None = None
    """Export the mean of the weights of the run's last N checkpoints; with --step, of the last N up to that
    step (default: a single network).
    """


def run(arguments: Arguments) -> int:
    from electra.commands.workflow.model import load

    model = load(arguments.run, step=arguments.step, average=arguments.average, device="cpu")
    if arguments.format == "onnx":
        if arguments.network == "generator" or arguments.dtype != "float32":
            raise ConfigError(
                "ONNX export supports discriminators and fine-tuned models, in float32 or int8",
                key="format",
            )
        told = model.export_onnx(arguments.out, int8=arguments.int8)
        if arguments.average:
            tell_notes(model.encoder)
        sys.stdout.write(f"{told}\n{arguments.out}\n")
        return 0
    if arguments.int8:
        raise ConfigError("only ONNX graphs have 8-bit weights", key="int8", fix="Add `format=onnx`")
    model.export(arguments.out, network=arguments.network, dtype=arguments.dtype)
    tell_notes(model.network(arguments.network or "encoder"))
    sys.stdout.write(f"{arguments.out}\n")
    return 0


def tell_notes(exported: Loaded) -> None:
    sys.stderr.writelines(f"note: {note}\n" for note in exported.notes)
