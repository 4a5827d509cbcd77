"""What a frozen encoder knows of each word: a linear probe on a learned mix of its layers
(`electra.laboratory.analysis.measures.linear`).

The encoder reads every sentence once; a word's vector is the mean over its tokens, before the first layer and
after each one. Nothing is random, so a score is a function of the encoder alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from electra.data.tokenizer import Tokenizer
from electra.laboratory.analysis.measures.linear import classify
from electra.model.encoder import Encoder
from electra.model.hidden import Row, word_vectors

MAX_TOKENS = 128  # of a sentence, [CLS] and [SEP] included: the words behind them are left out
PENALTY = 1e-4  # on the squared weights


@dataclass(frozen=True)
class Tagged:
    """Sentences of words, and the tag of each word."""

    words: Sequence[Sequence[str]]
    tags: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Features:
    layers: Tensor  # [L + 1, N, D]: N words before the first layer and after each one
    tags: list[str]  # [N]


@dataclass(frozen=True)
class Probe:
    accuracy: float  # share of the test words tagged right
    mix: list[float]  # weight of each layer, the embeddings first


def probe(encoder: Encoder, tokenizer: Tokenizer, train: Tagged, test: Tagged) -> Probe:
    """Fit on the words of `train`, score on those of `test`."""
    learn, judge = read_words(encoder, tokenizer, train), read_words(encoder, tokenizer, test)
    answers, mix = classify(learn.layers, learn.tags, judge.layers, PENALTY)
    return Probe(float(np.mean(answers == np.array(judge.tags))), mix.tolist())


def read_words(encoder: Encoder, tokenizer: Tokenizer, data: Tagged) -> Features:
    """Run the sentences through the frozen encoder."""
    limit = min(MAX_TOKENS, encoder.config.max_positions) - 2
    specials = tokenizer.specials
    ids_of_words = iter(tokenizer.encode_corpus([word for words in data.words for word in words]))
    rows, counts = [], []
    tags: list[str] = []
    for names in data.tags:
        ids: list[int] = []
        owners: list[int] = []  # the word of the sentence that each token is a part of
        kept = 0
        for word in list(islice(ids_of_words, len(names))):
            pieces = word.tolist() or [specials.unk]
            if len(ids) + len(pieces) > limit:
                break
            ids += pieces
            owners += [kept] * len(pieces)
            kept += 1
        rows.append(Row.framed(specials.cls, ids, specials.sep, owners))
        counts.append(kept)
        tags += names[:kept]
    training = encoder.training
    states, _ = word_vectors(encoder.eval(), rows, counts)
    encoder.train(training)
    return Features(torch.from_numpy(states), tags)
