"""The command `electra import`; folders are converted by `electra.exchange.transfer`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from typing_extensions import override

from electra.artifacts.model import Dtype
from electra.commands.framework.command import Command, Source, function
from electra.commands.framework.display import display_for
from electra.commands.results.model import Model, load
from electra.foundation.options import as_name, checked_path, optional_name


@dataclass(frozen=True)
class Import(
    Command[Model],
    group="Share",
    examples=(
        "electra import google/electra-small-discriminator --out small",
        "electra import roberta-base --out roberta",
    ),
):
    """Convert a published ELECTRA model or other encoder, or your own export, for further pre-training."""

    source: Source
    """A folder or a hub name, usually of a discriminator. All networks of a run or pair are converted."""
    _: KW_ONLY
    out: Source
    """The folder to write. Networks go to its subfolders discriminator/ and generator/; a plain encoder
    (BERT, RoBERTa) goes to the folder itself. With --dtype int8 or int4, what two networks share is stored
    once.
    """
    generator: Source | None = None
    """The folder or hub name of the generator, if there is one."""
    dtype: Dtype = "float32"
    """Number format of the weights. int8 and int4: 8-bit and 4-bit integers, a quarter and about a
    seventh of the size (matrices whose width is no multiple of 64 keep 8 bits), which only electra reads;
    electra import makes a float32 copy of them.
    """
    allow_pickle: bool = False
    """Also read pytorch_model.bin, with torch's restricted unpickler, which loads tensors and runs no code.
    """

    @override
    def run(self) -> Model:
        from electra.exchange.transfer import import_pair as write_pair

        source, generator = as_name(self.source, "source"), optional_name(self.generator, "generator")
        with display_for(self.progress) as display:
            out = checked_path(self.out, "out")
            for line in write_pair(source, out, generator, allow_pickle=self.allow_pickle, dtype=self.dtype):
                display.say(line)
        return load(self.out)


import_pair = function(Import)
