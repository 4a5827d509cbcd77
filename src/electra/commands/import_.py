from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from electra.commands.framework.command import Command, Source, function
from electra.commands.framework.display import display_for
from electra.commands.results.artifact import given_path
from electra.commands.results.model import Model, load
from electra.foundation.options import given_name, name_of


@dataclass(frozen=True)
class Import(
    Command[Model],
    group="Share",
    examples=(
        "electra import google/electra-small-discriminator --out small",
        "electra import roberta-base --out roberta",
    ),
):
    """Convert a published ELECTRA or encoder (or your own export) to folders to pre-train further."""

    source: Source
    """A folder or a hub name, usually of a discriminator; of a run or a pair, all its networks."""
    _: KW_ONLY
    out: Source
    """The folder to write; the networks go to discriminator/ and generator/ in it, a bare encoder (BERT,
    RoBERTa) to the folder itself.
    """
    generator: Source | None = None
    """Folder or hub name of the generator, if there is one."""
    allow_pickle: bool = False
    """Also read pytorch_model.bin, with torch's restricted unpickler, which makes tensors and runs no code.
    """

    def run(self) -> Model:
        from electra.exchange.transfer import import_pair as write_pair

        source, generator = given_name(self.source, "source"), name_of(self.generator, "generator")
        with display_for(self.progress) as display:
            out = given_path(self.out, "out")
            for line in write_pair(source, out, generator, allow_pickle=self.allow_pickle):
                display.say(line)
        return load(self.out)


import_pair = function(Import)
