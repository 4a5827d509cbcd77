"""Convert a published ELECTRA or encoder (or your own export) to folders to continue pre-training from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from electra.commands.cli.arguments import Positional


@dataclass(frozen=True)
class Arguments:
    source: Positional[str]
    """A folder or a hub name, usually of a discriminator; of a run or a pair, all its networks."""
    out: Path
    """The folder to write; the networks go to discriminator/ and generator/ in it, a bare encoder (BERT,
    RoBERTa) to the folder itself.
    """
    generator: str | None = None
    """Folder or hub name of the generator, if there is one."""
    allow_pickle: bool = False
    """Also read pytorch_model.bin, with torch's restricted unpickler, which makes tensors and runs no code.
    """


def run(arguments: Arguments) -> int:
    from electra.commands.workflow.display import Terminal
    from electra.commands.workflow.import_pair import import_pair

    import_pair(**vars(arguments), progress=Terminal())
    return 0
