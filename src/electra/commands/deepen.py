"""The command `electra deepen`; the layers are repeated by `electra.exchange.layers`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from typing_extensions import override

from electra.commands.framework.command import function
from electra.commands.parts.reshape import Reshape
from electra.commands.results.model import Model


@dataclass(frozen=True)
class Deepen(
    Reshape,
    group="Train",
    examples=(
        "electra deepen tiny-en --layers 16 --out deeper",
        "electra deepen runs/mine --layers 8 --out deeper",
    ),
):
    """Make a deeper model by repeating a model's layers in order (Gong et al. 2019).

    The result does not compute the same function as the original model: pre-train it further before use. A
    generator's layers are repeated as many times as the discriminator's.
    """

    _: KW_ONLY
    layers: int
    """The new number of layers, a multiple of the current one."""

    @override
    def run(self) -> Model:
        from electra.exchange.layers import deepen as write_deeper

        return self.reshape(write_deeper, self.layers)


deepen = function(Deepen)
