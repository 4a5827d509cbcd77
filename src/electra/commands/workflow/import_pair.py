"""A published ELECTRA, or an export of your own -> a folder pair, from which pre-training goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from electra.commands.workflow.artifact import Source, given_name, given_path, name_of
from electra.commands.workflow.display import Told, display_for

if TYPE_CHECKING:
    from electra.commands.workflow.model import Model


def import_pair(
    source: Source,
    *,
    out: Source,
    generator: Source | None = None,
    allow_pickle: bool = False,
    progress: Told = None,
) -> Model:
    """Write the networks of `source` (and `generator`) to OUT/discriminator and OUT/generator, or a bare
    encoder to OUT.

    source: a folder or a hub name.
    allow_pickle: also read pytorch_model.bin, with torch's restricted unpickler.

    Raises ModelError.
    """
    from electra.commands.workflow.model import load
    from electra.exchange.transfer import import_pair as write_pair

    begin, other = given_name(source, "source"), name_of(generator, "generator")
    with display_for(progress) as display:
        for line in write_pair(begin, given_path(out, "out"), other, allow_pickle=allow_pickle):
            display.say(line)
    return load(out)
