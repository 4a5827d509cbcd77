"""What a frozen encoder knows of each word: a linear probe on a learned mix of its layers.

The encoder reads every sentence once; a word's vector is the mean over its tokens, before the first layer and
after each one. One softmax weight a layer mixes them (the scalar mix of ELMo, Peters et al. 2018, section
3.2) and one linear layer answers; both are fitted by L-BFGS from zeros. Nothing is random, so a score is a
function of the encoder alone. Departures from ELMo: every layer is standardised before it is mixed, so that
layers of different scale start level, and there is no overall scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor
from torch.nn import functional as F

from electra.data.tokenizer import Tokenizer
from electra.model.encoder import Encoder
from electra.model.hidden import Row, word_vectors

MAX_TOKENS = 128  # of a sentence, [CLS] and [SEP] included: the words behind them are left out
ITERATIONS, PENALTY = 60, 1e-4  # of the fit; the penalty is on the squared weights


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
    names = {name: index for index, name in enumerate(sorted(set(learn.tags)))}
    targets = torch.tensor([names[tag] for tag in learn.tags])
    mean, scale = learn.layers.mean(1, keepdim=True), learn.layers.std(1, keepdim=True) + 1e-6
    layers = learn.layers.sub_(mean).div_(scale)
    weights = fit(layers, targets, len(names))
    answers = _logits(judge.layers.sub_(mean).div_(scale), weights).argmax(1)
    gold = torch.tensor(
        [names.get(tag, -1) for tag in judge.tags]
    )  # a tag never seen in training cannot be right
    return Probe(float((answers == gold).double().mean()), weights[0].softmax(0).tolist())


def fit(layers: Tensor, targets: Tensor, num_tags: int) -> list[Tensor]:
    """Mixing weights [L + 1], matrix [tags, D] and bias [tags] of the least penalised cross-entropy."""
    weights = [torch.zeros(layers.shape[0]), torch.zeros(num_tags, layers.shape[2]), torch.zeros(num_tags)]
    for weight in weights:
        weight.requires_grad_(True)
    solver = torch.optim.LBFGS(weights, max_iter=ITERATIONS, history_size=20, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        solver.zero_grad()
        loss = F.cross_entropy(_logits(layers, weights), targets) + PENALTY * weights[1].square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    solver.step(closure)  # type: ignore[no-untyped-call]
    return [weight.detach() for weight in weights]


def _logits(layers: Tensor, weights: Sequence[Tensor]) -> Tensor:
    mix, matrix, bias = weights
    return F.linear(torch.tensordot(mix.softmax(0), layers, dims=1), matrix, bias)


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
        rows.append(Row.between(specials.cls, ids, specials.sep, owners))
        counts.append(kept)
        tags += names[:kept]
    training = encoder.training
    states, _ = word_vectors(encoder.eval(), rows, counts)
    encoder.train(training)
    return Features(torch.from_numpy(states), tags)
