from __future__ import annotations

import sys
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from electra.artifacts.model import Dtype
from electra.commands.framework.command import Command, Source, function
from electra.commands.results.artifact import given_path
from electra.commands.results.model import load
from electra.foundation.errors import ConfigError

if TYPE_CHECKING:
    from electra.exchange.load import Loaded


@dataclass(frozen=True)
class Export(
    Command[Path],
    group="Share",
    examples=(
        "electra export runs/mine --out exported",
        "electra export runs/reviews --format onnx --int8 --out graph",
    ),
):
    """Write a network of a run as a Hugging Face folder, or any model as an ONNX graph."""

    model: Source
    """A run folder, a model folder or a hub name; with --format onnx also a fine-tuning, whose model/ is a
    Hugging Face folder already.
    """
    _: KW_ONLY
    out: Source
    """The folder to write. It must be new, or hold an exported model and nothing else."""
    network: Literal["discriminator", "generator", "language_model"] | None = None
    """Which network to write (default: the discriminator, or the only one there is). language_model: the
    full-size masked language model that detect prefers, where the model comes with one, else the generator.
    """
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

    def run(self) -> Path:
        return self._export()[0]

    def _export(self) -> tuple[Path, str, Loaded | None]:
        """The folder written, how a graph compares, and the network that was written."""
        model = load(self.model, step=self.step, average=self.average, device="cpu")
        out = given_path(self.out, "out")
        if self.format == "onnx":
            if self.network in ("generator", "language_model") or self.dtype != "float32":
                what = "ONNX export supports discriminators and fine-tuned models, in float32 or int8"
                raise ConfigError(what, key="format")
            compared = str(model.export_onnx(out, int8=self.int8))
            return out, compared, model.encoder if self.average else None
        if self.int8:
            raise ConfigError("only ONNX graphs have 8-bit weights", key="int8", fix="Add `format=onnx`")
        return out, "", model.write(out, self.network, self.dtype)

    def main(self) -> int:
        out, compared, network = self._export()
        if network is not None:
            sys.stderr.writelines(f"note: {note}\n" for note in network.notes)
        sys.stdout.write(f"{compared}\n{out}\n" if compared else f"{out}\n")
        return 0


export = function(Export)
