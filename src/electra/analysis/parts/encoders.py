"""The encoders that a probe of representations looks at: those of the models, and one that never learned anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from electra.analysis.parts import hidden
from electra.analysis.parts.interface import Input, ProbeDataError, Progress
from electra.analysis.parts.models import Model
from electra.analysis.parts.reading import Sentence, sample, universal_dependencies

if TYPE_CHECKING:
    from electra.interop.load import Loaded

UNTRAINED = "untrained"
TREEBANK = Input("treebank", "Universal Dependencies dev or test file", ("*dev.conllu*", "*test.conllu*"))


@dataclass(frozen=True)
class Named:
    name: str
    loaded: Loaded


def encoders_of(models: Sequence[Model], untrained: bool) -> list[Named]:
    """Each model's encoder; after them, where asked, one of the first model's shape with random weights: what the architecture and
    the tokenizer give without any training."""
    found = [Named(model.name, model.encoder) for model in models]
    return [*found, Named(UNTRAINED, untrained_like(found[0].loaded))] if untrained else found


def untrained_like(loaded: Loaded, seed: int = 0) -> Loaded:
    from electra.model.pair import build_encoder, initialise

    encoder = build_encoder(loaded.config).eval()
    initialise(encoder, seed, "fan_in")
    device = next(loaded.encoder.parameters()).device
    return replace(loaded, encoder=encoder.to(device), head=None, kind="encoder", head_weights={}, notes=())


def treebank(paths: Sequence[Path], limit: int) -> list[Sentence]:
    return sample([sentence for path in paths for sentence in universal_dependencies(path)], limit)


@dataclass(frozen=True)
class Words:
    """Words that every encoder has vectors for, so that they can be compared word by word whatever the vocabularies."""

    vectors: list[hidden.Floats]  # of each encoder: [depths, words, D]
    kept: npt.NDArray[np.int64]  # their numbers among all words of all sentences
    sentence: npt.NDArray[np.int64]  # the sentence of each

    def of(self, values: Iterable[Sequence[str | float]]) -> npt.NDArray[Any]:
        """Of one value for each word of each sentence, those of the words here."""
        return np.array([value for row in values for value in row])[self.kept]


def common_words(encoders: Sequence[Named], sentences: Sequence[Sentence], progress: Progress) -> Words:
    counts = [len(sentence) for sentence in sentences]
    vectors, present = [], np.ones(sum(counts), bool)
    for number, encoder in enumerate(encoders):
        loaded = encoder.loaded
        rows = hidden.rows_of_words(loaded.tokenizer, [sentence.words for sentence in sentences], loaded.config.max_positions)
        states, has = hidden.word_vectors(loaded, rows, counts, within(progress, f"reading by {encoder.name}", number, len(encoders)))
        vectors.append(states)
        present &= has
    if not present.any():
        raise ProbeDataError("no word has a token in every model's vocabulary", fix="Check that the data is in the models' language")
    kept = np.flatnonzero(present)
    return Words([states[:, kept] for states in vectors], kept, np.repeat(np.arange(len(counts)), counts)[kept])


def within(progress: Progress, what: str, number: int, count: int) -> Callable[[float], None]:
    """Progress of part `number` of `count` equal parts."""
    return lambda share: progress(what, (number + share) / count)
