"""What probes of encoders have in common: they look at every model's encoder, and at an untrained one, with
the words of a treebank or with scored pairs of sentences.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from electra.finetuning.labelled.sentence_pairs import read_scored_pairs
from electra.finetuning.labelled.tagged_sentences import universal_dependencies
from electra.laboratory.analysis.contract import Data, Findings, Input, Model, Probe, Progress
from electra.laboratory.analysis.representations.encoders import Named, encoders_of
from electra.laboratory.analysis.texts.sampling import sample


class EncoderProbe(Probe):
    """Subclasses find out in `look`. Their `Config` has `sentences` and `untrained`."""

    needs = ("encoder",)
    wanted: ClassVar[Input]
    read: ClassVar[Callable[[Path], list[Any]]]

    def inputs(self) -> tuple[Input, ...]:
        return (self.wanted,)

    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Findings:
        encoders = encoders_of(models, self.config.untrained)
        items = [item for path in data[self.wanted.key] for item in type(self).read(path)]
        return self.look(encoders, sample(items, self.config.sentences), progress)

    @abstractmethod
    def look(self, encoders: Sequence[Named], items: Sequence[Any], progress: Progress) -> Findings:
        """`encoders[0]` is the first model's; the untrained one, where it is wanted, is the last."""


@dataclass(frozen=True)
class TreebankConfig:
    sentences: int = 500
    """Treebank sentences whose words are looked at (0: all)."""
    resamples: int = 100
    """Half-samples of the sentences, for the intervals."""
    untrained: bool = True
    """Look at an untrained encoder too."""


class TreebankProbe(EncoderProbe):
    """The items are `Sentence`s of a treebank."""

    wanted = Input("treebank", "Universal Dependencies dev or test file", ("*dev.conllu*", "*test.conllu*"))
    read = universal_dependencies


@dataclass(frozen=True)
class PairsConfig:
    sentences: int = 0
    """Pairs of sentences to judge (0: all)."""
    resamples: int = 500
    """Bootstrap samples of the pairs."""
    untrained: bool = True
    """Look at an untrained encoder too."""


class PairsProbe(EncoderProbe):
    """The items are `ScoredPair`s."""

    wanted = Input(
        "pairs", "STS-B dev file", ("sts-b/dev.tsv*", "STS-B/dev.tsv*", "*sts*dev*.tsv*", "dev.tsv*")
    )
    read = read_scored_pairs
