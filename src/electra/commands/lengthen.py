"""The command `electra lengthen`; the positions are made by `electra.exchange.longer`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from typing_extensions import override

from electra.commands.framework.command import function
from electra.commands.parts.reshape import Reshape
from electra.commands.results.model import Model


@dataclass(frozen=True)
class Lengthen(
    Reshape,
    group="Train",
    examples=(
        "electra lengthen runs/mine --length 2048 --out long",
        "electra lengthen google/electra-small-discriminator --length 1024 --out long",
    ),
):
    """Make a model that reads longer texts: the same weights, with more positions.

    Rotary positions get a larger base; a position table is repeated. The model has not learned to use the new
    positions: pre-train or fine-tune it on longer texts before use.
    """

    _: KW_ONLY
    length: int
    """The new maximum number of tokens, including special ones: more than now, at most 131,072."""

    @override
    def run(self) -> Model:
        from electra.exchange.longer import lengthen as write_longer

        return self.reshape(write_longer, self.length)


lengthen = function(Lengthen)
