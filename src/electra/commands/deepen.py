from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from electra.commands.framework.command import Command, Source, function
from electra.commands.framework.display import display_for
from electra.commands.results.artifact import given_path
from electra.commands.results.model import Model, load
from electra.foundation.options import given_name


@dataclass(frozen=True)
class Deepen(
    Command[Model],
    group="Train",
    examples=(
        "electra deepen tiny-en --layers 16 --out deeper",
        "electra deepen runs/mine --layers 8 --out deeper",
    ),
):
    """Write a model of more layers, its own repeated in order (Gong et al. 2019), to train further.

    Pre-train it further before you use it: its function has changed.
    """

    model: Source
    """A run, a pair (each network gets as many times its layers), a model folder or a hub name; not a
    fine-tuned one.
    """
    _: KW_ONLY
    out: Source
    """The folder to write; new, or holding exported models and nothing else."""
    layers: int
    """The new number of layers, a multiple of the present one."""

    def run(self) -> Model:
        from electra.exchange.deeper import deepen as write_deeper

        with display_for(self.progress) as display:
            for line in write_deeper(
                given_name(self.model, "model"), given_path(self.out, "out"), self.layers
            ):
                display.say(line)
        return load(self.out)


deepen = function(Deepen)
