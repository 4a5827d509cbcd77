"""What the probes have in common that look at the words of a treebank with every model's encoder."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from electra.analysis import contract
from electra.analysis.contract import Data, Findings, Input, Model, Progress
from electra.analysis.representations.encoders import Named, encoders_of
from electra.analysis.texts.reading import Sentence, sample, universal_dependencies

TREEBANK = Input("treebank", "Universal Dependencies dev or test file", ("*dev.conllu*", "*test.conllu*"))


@dataclass(frozen=True)
class TreebankConfig:
    sentences: int = 500
    """Treebank sentences whose words are looked at (0: all)."""
    resamples: int = 100
    """Half-samples of the sentences, for the intervals."""
    untrained: bool = True
    """Look at an untrained encoder too."""


class TreebankProbe(contract.Probe):
    """Subclasses answer in `look`. Their `Config` is a `TreebankConfig`."""

    needs = ("encoder",)

    def inputs(self) -> tuple[Input, ...]:
        return (TREEBANK,)

    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Findings:
        return self.look(
            encoders_of(models, self.config.untrained),
            treebank(data["treebank"], self.config.sentences),
            progress,
        )

    @abstractmethod
    def look(self, encoders: Sequence[Named], sentences: Sequence[Sentence], progress: Progress) -> Findings:
        """Ask. `encoders[0]` is MODEL's; the untrained one, where it is asked for, is the last."""


def treebank(paths: Sequence[Path], limit: int) -> list[Sentence]:
    return sample([sentence for path in paths for sentence in universal_dependencies(path)], limit)
