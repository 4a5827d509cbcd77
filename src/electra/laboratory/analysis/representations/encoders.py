"""The encoders that a probe of representations looks at: those of the models, and one that never learned
anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from electra.finetuning.labelled.tagged_sentences import Sentence
from electra.foundation.arrays import Ints, Vectors
from electra.foundation.errors import ModelError
from electra.foundation.progress import part_progress
from electra.laboratory.analysis.contract import Model, ProbeDataError, Progress
from electra.laboratory.analysis.contract.origin import Origin
from electra.model import hidden
from electra.model.hidden import Row

if TYPE_CHECKING:
    from electra.data.tokenizer import Tokenizer
    from electra.exchange.load import Loaded

UNTRAINED = "untrained"
LEAST_WORDS = 8  # that measures of representations are defined for


@dataclass(frozen=True)
class Named:
    name: str
    loaded: Loaded
    origin: Origin | None = None


def encoders_of(models: Sequence[Model], untrained: bool) -> list[Named]:
    """Each model's encoder; after them, where asked, one of the first model's shape with random weights: what
    the architecture and the tokenizer give without any training.
    """
    if untrained and any(model.name == UNTRAINED for model in models):
        raise ModelError(
            f"a model cannot be named {UNTRAINED!r}: that is the name of the encoder with random weights",
            fix="Give a link with another name",
        )
    found = [Named(model.name, model.encoder, model.origin) for model in models]
    return [*found, Named(UNTRAINED, untrained_like(found[0].loaded))] if untrained else found


def untrained_like(loaded: Loaded) -> Loaded:
    from electra.model.pair import build_encoder, initialise

    encoder = build_encoder(loaded.config).eval()
    initialise(encoder, 0, "fan_in")
    device = next(loaded.encoder.parameters()).device
    return replace(loaded, encoder=encoder.to(device), head=None, kind="encoder", head_weights={}, notes=())


def rows_of_words(tokenizer: Tokenizer, sentences: Sequence[Sequence[str]], max_positions: int) -> list[Row]:
    """Sentences given as words, joined by spaces. A token belongs to the word that holds its last character:
    some tokenizers let a token begin with the space before it. What is longer than the model's positions is
    cut; words without a token are possible.
    """
    rows = []
    for words in sentences:
        ends = np.cumsum([len(word) + 1 for word in words])  # of each word with the space after it
        encoding = tokenizer.encode(" ".join(words))
        kept = [i for i, special in enumerate(encoding.special) if not special][: max_positions - 2]
        last = np.array([max(encoding.offsets[i][1] - 1, 0) for i in kept], np.int64)
        rows.append(
            _row(tokenizer, [encoding.ids[i] for i in kept], np.searchsorted(ends, last, side="right"))
        )
    return rows


def rows_of_texts(tokenizer: Tokenizer, texts: Sequence[str], max_positions: int) -> list[Row]:
    """Texts of which each is one "word": for measures that look at all of its tokens alike."""
    encoded = (ids[: max_positions - 2].astype(np.int64) for ids in tokenizer.encode_corpus(texts))
    return [_row(tokenizer, ids, np.zeros(len(ids), np.int64)) for ids in encoded]


def _row(tokenizer: Tokenizer, ids: Sequence[int] | Ints, words: Ints) -> Row:
    return Row.framed(tokenizer.specials.cls, ids, tokenizer.specials.sep, words)


@dataclass(frozen=True)
class Words:
    """Words that every encoder has vectors for, so that they can be compared whatever the vocabularies."""

    vectors: list[Vectors]  # of each encoder: [depths, words, D]
    kept: Ints  # their numbers among all words of all sentences
    sentence: Ints  # the sentence of each

    def of(self, values: Iterable[Sequence[str | float]]) -> npt.NDArray[Any]:
        """Of one value for each word of each sentence, those of the words here."""
        return np.array([value for row in values for value in row])[self.kept]


def common_words(encoders: Sequence[Named], sentences: Sequence[Sentence], progress: Progress) -> Words:
    counts = [len(sentence) for sentence in sentences]
    vectors, present = [], np.ones(sum(counts), bool)
    for number, encoder in enumerate(encoders):
        loaded = encoder.loaded
        rows = rows_of_words(
            loaded.tokenizer, [sentence.words for sentence in sentences], loaded.config.max_positions
        )
        told = part_progress(progress, f"reading by {encoder.name}", number, len(encoders))
        states, has = hidden.word_vectors(loaded.encoder, rows, counts, told)
        vectors.append(states)
        present &= has
    if present.sum() < LEAST_WORDS:
        what = f"{present.sum()} of {len(present):,} words have a token in every model's vocabulary"
        raise ProbeDataError(what, fix="Give more sentences, in the models' language")
    kept = np.flatnonzero(present)
    return Words(
        [states[:, kept] for states in vectors], kept, np.repeat(np.arange(len(counts)), counts)[kept]
    )
