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
from electra.laboratory.analysis.contract.models import Origin
from electra.laboratory.analysis.scoring.words import word_ids_at
from electra.model import hidden
from electra.model.hidden import Row

if TYPE_CHECKING:
    from electra.data.tokenizer import Tokenizer
    from electra.exchange.load import Loaded

UNTRAINED = "untrained"
MIN_WORDS = 8  # for the measures of representations to be defined


@dataclass(frozen=True)
class NamedEncoder:
    """An encoder under its model's name; its origin is None if it is unknown or the encoder is untrained."""

    name: str
    loaded: Loaded
    origin: Origin | None = None


def encoders_of(models: Sequence[Model], untrained: bool) -> list[NamedEncoder]:
    """Returns the models' encoders; if `untrained`, also one like the first but with random weights.

    The untrained encoder shows what the architecture and the tokenizer provide without training.

    Raises:
        ModelError: A model cannot be loaded, or has the untrained encoder's name.
    """
    if untrained and any(model.name == UNTRAINED for model in models):
        raise ModelError(
            f"a model cannot be named {UNTRAINED!r}: that is the name of the encoder with random weights",
            fix="Pass a link with another name",
        )
    encoders = [NamedEncoder(model.name, model.network("encoder"), model.origin) for model in models]
    return [*encoders, NamedEncoder(UNTRAINED, untrained_like(encoders[0].loaded))] if untrained else encoders


def untrained_like(loaded: Loaded) -> Loaded:
    """Returns the same model with a freshly initialised encoder and no head."""
    from electra.model.pair import build_encoder, initialise

    encoder = build_encoder(loaded.config).eval()
    initialise(encoder, 0, "fan_in")
    device = next(loaded.encoder.parameters()).device
    return replace(loaded, encoder=encoder.to(device), head=None, kind="encoder", head_weights={}, notes=())


def rows_of_words(tokenizer: Tokenizer, sentences: Sequence[Sequence[str]], max_positions: int) -> list[Row]:
    """Returns token rows of sentences given as words.

    Words are joined by spaces; a token belongs to the word with its last character. Tokens beyond the model's
    positions are dropped, so a word may have no token.
    """
    rows = []
    for words in sentences:
        encoding = tokenizer.encode(" ".join(words))
        token_indices = [i for i, special in enumerate(encoding.special) if not special][: max_positions - 2]
        owner = word_ids_at(words, [encoding.offsets[i] for i in token_indices])
        specials = tokenizer.specials
        ids = [encoding.ids[i] for i in token_indices]
        rows.append(Row.framed(specials.cls, ids, specials.sep, owner))
    return rows


@dataclass(frozen=True)
class Words:
    """Words that every encoder has vectors for, so that different vocabularies can be compared."""

    vectors: list[Vectors]
    """The vectors of each encoder: [depths, words, D]."""
    index: Ints
    """The index of each word among all words of all sentences."""
    sentence: Ints
    """The index of each word's sentence."""

    def select(self, values: Iterable[Sequence[str | float]]) -> npt.NDArray[Any]:
        """Returns the values [words] of these words, from the values of all words of each sentence."""
        return np.array([value for row in values for value in row])[self.index]


def common_words(
    encoders: Sequence[NamedEncoder], sentences: Sequence[Sentence], progress: Progress
) -> Words:
    """Returns the vectors of the words that every encoder has a token for.

    Raises:
        ProbeDataError: There are fewer than `MIN_WORDS`.
    """
    counts = [len(sentence) for sentence in sentences]
    vectors, present = [], np.ones(sum(counts), bool)
    for i, encoder in enumerate(encoders):
        loaded = encoder.loaded
        rows = rows_of_words(
            loaded.tokenizer, [sentence.words for sentence in sentences], loaded.config.max_positions
        )
        share_read = part_progress(progress, f"reading by {encoder.name}", i, len(encoders))
        states, has_token = hidden.word_vectors(loaded.encoder, rows, counts, share_read)
        vectors.append(states)
        present &= has_token
    if present.sum() < MIN_WORDS:
        problem = f"only {present.sum()} of {len(present):,} words have a token in every model's vocabulary"
        raise ProbeDataError(problem, fix="Use more sentences, in the models' language")
    index = np.flatnonzero(present)
    return Words(
        [states[:, index] for states in vectors], index, np.repeat(np.arange(len(counts)), counts)[index]
    )
