"""Frozen encoders side by side: the models' own, one with random weights, and the same words' vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from electra.finetuning.labelled.tagged_sentences import Sentence
from electra.foundation.arrays import Ints, Vectors
from electra.foundation.errors import ModelError
from electra.laboratory.analysis.contract import Model, ProbeDataError, Progress
from electra.laboratory.analysis.scoring.words import word_ids_at
from electra.model import hidden

if TYPE_CHECKING:
    from electra.data.tokenizer import Tokenizer
    from electra.exchange.load import Loaded

UNTRAINED = "untrained"
MIN_WORDS = 8  # for the measures of representations to be defined


def encoders_of(models: Sequence[Model], untrained: bool) -> dict[str, Loaded]:
    """Returns the models' encoders by name; if `untrained`, also one like the first but with random weights.

    The untrained encoder shows what the architecture and the tokenizer provide without training. Raises
    ModelError if a model cannot be loaded, or has the untrained encoder's name.
    """
    from electra.model.pair import build_encoder, initialise

    encoders = {model.name: model.network("encoder") for model in models}
    if not untrained:
        return encoders
    if UNTRAINED in encoders:
        problem = f"{UNTRAINED!r} is the name of the encoder with random weights, so no model's"
        raise ModelError(problem, fix="Pass a link with another name")
    first = next(iter(encoders.values()))
    encoder = build_encoder(first.config).eval()
    initialise(encoder, 0, "fan_in")
    changed = replace(first, encoder=encoder.to(first.device), head=None, kind="encoder", notes=())
    return {**encoders, UNTRAINED: replace(changed, head_weights={})}


def rows_of_words(
    tokenizer: Tokenizer, sentences: Sequence[Sequence[str]], max_positions: int
) -> list[hidden.Row]:
    """Returns token rows of sentences given as words.

    Words are joined by spaces; a token belongs to the word with its last character. Tokens beyond the model's
    positions are dropped, so a word may have no token.
    """
    rows, specials = [], tokenizer.specials
    for words in sentences:
        encoding = tokenizer.encode(" ".join(words))
        kept = [i for i, special in enumerate(encoding.special) if not special][: max_positions - 2]
        owner = word_ids_at(words, [encoding.offsets[i] for i in kept])
        rows.append(hidden.Row.framed(specials.cls, [encoding.ids[i] for i in kept], specials.sep, owner))
    return rows


def common_words(
    encoders: Mapping[str, Loaded], sentences: Sequence[Sentence], progress: Progress
) -> tuple[list[Vectors], Ints]:
    """Returns vectors of the words that every encoder has a token for, so that vocabularies may differ.

    They are [depths, words, D] for each encoder; the second value is the index [words] of each word's
    sentence. Raises ProbeDataError if there are fewer than `MIN_WORDS`.
    """
    counts = [len(sentence) for sentence in sentences]
    vectors, present = [], np.ones(sum(counts), bool)
    for i, (name, loaded) in enumerate(encoders.items()):
        texts = [sentence.words for sentence in sentences]
        rows = rows_of_words(loaded.tokenizer, texts, loaded.config.max_positions)
        progress(f"reading by {name}", i / len(encoders))
        states, has_token = hidden.word_vectors(loaded.encoder, rows, counts)
        vectors.append(states)
        present &= has_token
    if present.sum() < MIN_WORDS:
        problem = f"only {present.sum()} of {len(present):,} words have a token in every model's vocabulary"
        raise ProbeDataError(problem, fix="Use more sentences, in the models' language")
    return [states[:, present] for states in vectors], np.repeat(np.arange(len(counts)), counts)[present]
