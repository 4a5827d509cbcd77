"""The command `electra export`; folders and graphs are written by `electra.exchange`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Literal

from typing_extensions import override

from electra.artifacts.model_files import Dtype
from electra.commands.framework.command import Command, function
from electra.commands.results.rows import Rows
from electra.foundation.display import display_for
from electra.foundation.errors import ConfigError
from electra.foundation.options import OnCommandLine, Source, Sources, as_names, checked_path
from electra.inference.model import load


@dataclass(frozen=True)
class Export(
    Command[Path],
    examples=(
        "electra export runs/mine --out exported",
        "electra export runs/reviews --format onnx --out graph",
        "electra export tiny-en --network generator --out generator",
        "electra export MULTILINGUAL --cut-to texts/ --out mine",
    ),
):
    """Export a network as a Hugging Face model folder, or any model as an ONNX graph."""

    model: Source
    """A run folder, a model folder or a hub name. Of a fine-tuning, it is the subfolder model/, except with
    --format onnx.
    """
    _: KW_ONLY
    out: Source
    """The folder to write. It must be new, or contain only an exported model."""
    network: Literal["discriminator", "generator", "language_model"] | None = None
    """The network to export (default: the discriminator, or the only network). language_model: the full-size
    masked language model that electra detect prefers, if there is one, else the generator.
    """
    dtype: Dtype | None = None
    """Number format of the weights (default: the model's, if it has 16 bits, else float32). int8 and int4:
    8-bit and 4-bit integers, a quarter and about a seventh of the size (matrices whose width is no multiple
    of 64 keep 8 bits), which only electra reads; exporting such a folder makes a float32 copy. ONNX graphs
    are float32.
    """
    format: Literal["huggingface", "onnx"] = "huggingface"
    """The format to write. onnx: a graph for onnxruntime, of a discriminator, an encoder or a fine-tuned
    model.
    """
    step: int | None = None
    """The step of the checkpoint to export (default: the finished network, or the newest checkpoint)."""
    cut_to: Annotated[Sources | None, OnCommandLine(tuple[str, ...] | None)] = None
    """Text of your language or domain (files or folders): keep only the pieces of the vocabulary that it
    needs, of a WordPiece, BPE or Unigram tokenizer. Vectors of such text hardly change; a table shows by how
    much (default: all pieces).
    """
    coverage: float = 0.9995
    """With --cut-to, the share of the text's tokens whose pieces stay, the most frequent first. Letters and
    bytes stay too, to spell the rest.
    """

    @override
    def run(self) -> Path:
        out, model = checked_path(self.out, "out"), load(self.model, step=self.step, device="cpu")
        with display_for(self.progress) as display:
            if self.format == "huggingface":
                from electra.exchange.huggingface import export, require_replaceable
                from electra.exchange.weight_names import TUNED

                chosen = model.chosen(self.network)
                if self.cut_to is not None:
                    from electra.inference.cutting import cut_to

                    require_replaceable(out)
                    chosen, sizes, changes = cut_to(chosen, as_names(self.cut_to, "cut_to"), self.coverage)
                    for line in (*Rows(sizes).table().splitlines(), changes):
                        display.say(line)
                export(chosen, out, model.source, dtype=self.dtype)
                rounded = "4 bits may round a fine-tuning away: compare its predictions, or export int8"
                is_coarse = self.dtype == "int4" and chosen.kind in TUNED
                notes = (*chosen.notes, rounded) if is_coarse else chosen.notes
                for note in notes:
                    display.say(f"note: {note}")
                return out
            is_other = self.network in ("generator", "language_model") or self.cut_to is not None
            if is_other or self.dtype not in (None, "float32"):
                problem = "ONNX export supports discriminators and fine-tuned models, in float32, uncut"
                raise ConfigError(problem, key="format")
            from electra.exchange.onnx_graph import write_onnx
            from electra.finetuning.predict import export_tuned, is_tuned

            is_task = model.step is None and is_tuned(model.source)
            difference = export_tuned(model.source, out) if is_task else write_onnx(model.encoder, out)
            display.say(f"the graph's outputs differ from the model's by at most {difference:.2g}")
        return out


export = function(Export)
