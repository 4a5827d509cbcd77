"""The command `electra prune`; neurons are removed by `electra.exchange.neurons`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from typing_extensions import override

from electra.commands.framework.command import Source, function
from electra.commands.parts.reshape import Reshape
from electra.commands.results.model import Model
from electra.foundation.options import checked_path


@dataclass(frozen=True)
class Prune(
    Reshape,
    group="Train",
    examples=(
        "electra prepare texts/ --tokenizer TEACHER --cut-to 12000 --out store",
        "electra prune TEACHER --store store --neurons 512 --out small",
        "electra distil TEACHER store --init small --out runs/small",
    ),
):
    """Make a model with fewer feed-forward neurons, which are a third to a half of most models' weights.

    In each layer, those whose removal changes its output least on your text are removed, and the others are
    refitted. The result needs further training: electra distil, with the original as the teacher, or electra
    pretrain.
    """

    _: KW_ONLY
    store: Source
    """A token store (electra prepare), of which 65,536 tokens are read. Its vocabulary is the model's, or cut
    from it, and then the result has the smaller vocabulary.
    """
    neurons: int
    """Number of neurons in each layer that stay."""

    @override
    def run(self) -> Model:
        from electra.data.store import TokenStore
        from electra.exchange.neurons import prune as write_pruned

        store = TokenStore.open(checked_path(self.store, "store"))

        def write(source: str, out: Path, neurons: int) -> Iterator[str]:
            return write_pruned(source, out, store, neurons)

        return self.reshape(write, self.neurons)


prune = function(Prune)
