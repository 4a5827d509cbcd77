"""Base classes of probes that run on every model's encoder, and on an untrained one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from electra.finetuning.labelled.sentence_pairs import read_scored_pairs
from electra.finetuning.labelled.tagged_sentences import universal_dependencies
from electra.laboratory.analysis.contract import Data, Findings, Input, Model, Probe, Progress
from electra.laboratory.analysis.representations.encoders import NamedEncoder, encoders_of
from electra.laboratory.analysis.texts.sampling import sample


class EncoderProbe(Probe):
    """Subclasses implement `run_on_encoders`. Their `Config` has `sentences` and `untrained`."""

    needs = ("encoder",)
    data_input: ClassVar[Input]
    """The data that the probe needs."""
    read: ClassVar[Callable[[Path], list[Any]]]
    """Reads the items of a file."""

    @override
    def inputs(self) -> tuple[Input, ...]:
        return (self.data_input,)

    @override
    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Findings:
        encoders = encoders_of(models, self.config.untrained)
        items = [item for path in data[self.data_input.key] for item in type(self).read(path)]
        return self.run_on_encoders(encoders, sample(items, self.config.sentences), progress)

    @abstractmethod
    def run_on_encoders(
        self, encoders: Sequence[NamedEncoder], items: Sequence[Any], progress: Progress
    ) -> Findings:
        """Run the probe on the encoders and the sampled items.

        `encoders[0]` is the first model's; the untrained one, if included, is the last.
        """


@dataclass(frozen=True)
class TreebankConfig:
    """Options of probes of a treebank."""

    sentences: int = 500
    """Treebank sentences to use (0: all)."""
    resamples: int = 100
    """Half-samples of the sentences for the intervals."""
    untrained: bool = True
    """Include an untrained encoder."""


class TreebankProbe(EncoderProbe):
    """The items are sentences of a treebank."""

    data_input = Input(
        "treebank", "Universal Dependencies dev or test file", ("*dev.conllu*", "*test.conllu*")
    )
    read = universal_dependencies


@dataclass(frozen=True)
class PairsConfig:
    """Options of probes of sentence pairs."""

    sentences: int = 0
    """Sentence pairs to use (0: all)."""
    resamples: int = 500
    """Bootstrap samples of the pairs for the intervals."""
    untrained: bool = True
    """Include an untrained encoder."""


class PairsProbe(EncoderProbe):
    """The items are scored pairs of sentences."""

    data_input = Input(
        "pairs", "STS-B dev file", ("sts-b/dev.tsv*", "STS-B/dev.tsv*", "*sts*dev*.tsv*", "dev.tsv*")
    )
    read = read_scored_pairs
