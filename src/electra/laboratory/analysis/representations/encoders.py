"""The encoders that probes of representations run on: the models' own, and one with random weights."""

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
from electra.laboratory.analysis.scoring.words import owners_at
from electra.model import hidden
from electra.model.hidden import Row

if TYPE_CHECKING:
    from electra.data.tokenizer import Tokenizer
    from electra.exchange.load import Loaded

UNTRAINED = "untrained"
MIN_WORDS = 8  # for the measures of representations to be defined


@dataclass(frozen=True)
class NamedEncoder:
    """An encoder under its model's name."""

    name: str
    loaded: Loaded
    origin: Origin | None = None


def encoders_of(models: Sequence[Model], untrained: bool) -> list[NamedEncoder]:
    """Each model's encoder, then, if `untrained`, one of the first model's shape with random weights.

    The untrained encoder shows what architecture and tokenizer give without training.

    Raises:
        ModelError: A model has the untrained encoder's name.
    """
    if untrained and any(model.name == UNTRAINED for model in models):
        raise ModelError(
            f"a model cannot be named {UNTRAINED!r}: that is the name of the encoder with random weights",
            fix="Pass a link with another name",
        )
    encoders = [NamedEncoder(model.name, model.encoder, model.origin) for model in models]
    return [*encoders, NamedEncoder(UNTRAINED, untrained_like(encoders[0].loaded))] if untrained else encoders


def untrained_like(loaded: Loaded) -> Loaded:
    """The same model with a freshly initialised encoder and no head."""
    from electra.model.pair import build_encoder, initialise

    encoder = build_encoder(loaded.config).eval()
    initialise(encoder, 0, "fan_in")
    device = next(loaded.encoder.parameters()).device
    return replace(loaded, encoder=encoder.to(device), head=None, kind="encoder", head_weights={}, notes=())


def rows_of_words(tokenizer: Tokenizer, sentences: Sequence[Sequence[str]], max_positions: int) -> list[Row]:
    """Token rows of sentences given as words.

    Words are joined by spaces; a token belongs to the word with its last character. Tokens beyond the model's
    positions are dropped, so a word may have no token.
    """
    rows = []
    for words in sentences:
        encoding = tokenizer.encode(" ".join(words))
        kept = [i for i, special in enumerate(encoding.special) if not special][: max_positions - 2]
        owner = owners_at(words, [encoding.offsets[i] for i in kept])
        rows.append(_row(tokenizer, [encoding.ids[i] for i in kept], owner))
    return rows


def rows_of_texts(tokenizer: Tokenizer, texts: Sequence[str], max_positions: int) -> list[Row]:
    """Token rows of texts, each text being one "word": for measures over all of its tokens."""
    encoded = (ids[: max_positions - 2].astype(np.int64) for ids in tokenizer.encode_corpus(texts))
    return [_row(tokenizer, ids, np.zeros(len(ids), np.int64)) for ids in encoded]


def _row(tokenizer: Tokenizer, ids: Sequence[int] | Ints, words: Ints) -> Row:
    return Row.framed(tokenizer.specials.cls, ids, tokenizer.specials.sep, words)


@dataclass(frozen=True)
class Words:
    """Words that every encoder has vectors for, so that they compare whatever the vocabularies."""

    vectors: list[Vectors]
    """The vectors of each encoder: [depths, words, D]."""
    kept: Ints
    """The index of each word among all words of all sentences."""
    sentence: Ints
    """The sentence of each word."""

    def select(self, values: Iterable[Sequence[str | float]]) -> npt.NDArray[Any]:
        """The values of the words here, from one value for each word of each sentence."""
        return np.array([value for row in values for value in row])[self.kept]


def common_words(
    encoders: Sequence[NamedEncoder], sentences: Sequence[Sentence], progress: Progress
) -> Words:
    """The vectors of the words that every encoder has a token for.

    Raises:
        ProbeDataError: There are too few.
    """
    counts = [len(sentence) for sentence in sentences]
    vectors, present = [], np.ones(sum(counts), bool)
    for number, encoder in enumerate(encoders):
        loaded = encoder.loaded
        rows = rows_of_words(
            loaded.tokenizer, [sentence.words for sentence in sentences], loaded.config.max_positions
        )
        share_read = part_progress(progress, f"reading by {encoder.name}", number, len(encoders))
        states, has_token = hidden.word_vectors(loaded.encoder, rows, counts, share_read)
        vectors.append(states)
        present &= has_token
    if present.sum() < MIN_WORDS:
        problem = f"only {present.sum()} of {len(present):,} words have a token in every model's vocabulary"
        raise ProbeDataError(problem, fix="Use more sentences, in the models' language")
    kept = np.flatnonzero(present)
    return Words(
        [states[:, kept] for states in vectors], kept, np.repeat(np.arange(len(counts)), counts)[kept]
    )
