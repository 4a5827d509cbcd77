from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from electra.commands.framework.command import Command, Source, function
from electra.commands.framework.display import display_for
from electra.commands.results.artifact import given_path
from electra.commands.results.model import Model, load
from electra.foundation.options import given_name


@dataclass(frozen=True)
class Lengthen(
    Command[Model],
    group="Train",
    examples=(
        "electra lengthen runs/mine --length 2048 --out long",
        "electra lengthen google/electra-small-discriminator --length 1024 --out long",
    ),
):
    """Write a model with positions for longer texts: the same weights, to train further.

    Rotary positions get a larger base, a position table is repeated. The model has not learned to use them:
    pre-train or fine-tune it on longer texts before you rely on it.
    """

    model: Source
    """A run, a pair (both networks are written), a model folder or a hub name; not a fine-tuned one."""
    _: KW_ONLY
    out: Source
    """The folder to write; new, or holding exported models and nothing else."""
    length: int
    """The most tokens it reads at once, special ones included; more than now, at most 131,072."""

    def run(self) -> Model:
        from electra.exchange.longer import lengthen as write_longer

        with display_for(self.progress) as display:
            for line in write_longer(
                given_name(self.model, "model"), given_path(self.out, "out"), self.length
            ):
                display.say(line)
        return load(self.out)


lengthen = function(Lengthen)
