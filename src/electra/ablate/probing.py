"""What a frozen encoder knows of each word: a linear probe on a learned mix of its layers.

The encoder reads every sentence once; a word's vector is the mean over its tokens, before the first layer and after each one. One softmax
weight a layer mixes them (the scalar mix of ELMo, Peters et al. 2018, section 3.2) and one linear layer answers; both are fitted by L-BFGS
from zeros. Nothing is random, so a score is a function of the encoder alone. Departures from ELMo: every layer is standardised before it is
mixed, so that layers of different scale start level, and there is no overall scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from electra.data.specials import Specials
from electra.data.tokenizer import Tokenizer
from electra.model.encoder import Encoder

MAX_TOKENS = 128  # of a sentence, [CLS] and [SEP] included: the words behind them are left out
TOKENS_AT_ONCE = 4096  # in a batch, padding included
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
    gold = torch.tensor([names.get(tag, -1) for tag in judge.tags])  # a tag never seen in training cannot be right
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
    """Run the sentences through the frozen encoder, those of similar length together."""
    limit = min(MAX_TOKENS, encoder.config.max_positions) - 2
    ids_of_words = iter(tokenizer.encode_corpus([word for words in data.words for word in words]))
    sentences: list[list[int]] = []
    owners: list[list[int]] = []  # the number of the word that each token is a part of
    tags: list[str] = []
    for names in data.tags:
        ids: list[int] = []
        owner: list[int] = []
        for name, word in zip(names, list(islice(ids_of_words, len(names))), strict=True):
            pieces = word.tolist() or [tokenizer.specials.unk]
            if len(ids) + len(pieces) > limit:
                break
            owner += [len(tags)] * len(pieces)
            ids += pieces
            tags.append(name)
        sentences.append(ids)
        owners.append(owner)
    sums, counts = torch.zeros(encoder.config.num_layers + 1, len(tags), encoder.config.hidden_size), torch.zeros(len(tags))
    for rows in _batches([len(ids) for ids in sentences]):
        states = hidden_states(encoder, *_padded([sentences[row] for row in rows], tokenizer.specials))
        for place, row in enumerate(rows):
            owner_of = torch.tensor(owners[row], dtype=torch.long)
            sums.index_add_(1, owner_of, states[:, place, 1 : len(owner_of) + 1].float().cpu())
            counts.index_add_(0, owner_of, torch.ones(len(owner_of)))
    return Features(sums.div_(counts[:, None]), tags)


@torch.no_grad()
def hidden_states(encoder: Encoder, input_ids: Tensor, piece_ids: Tensor) -> Tensor:
    """[L + 1, B, T, D]: what enters the first layer, what leaves each, and in the place of the last what the encoder gives."""
    states: list[Tensor] = []
    device = next(encoder.parameters()).device
    layers: Any = encoder.layers
    training = encoder.training
    encoder.eval()
    with ExitStack() as hooks:
        hooks.enter_context(layers[0].register_forward_pre_hook(lambda module, inputs: states.append(inputs[0])))
        for layer in layers[:-1]:
            hooks.enter_context(layer.register_forward_hook(lambda module, inputs, output: states.append(output)))
        states.append(encoder(input_ids.to(device), piece_ids=piece_ids.to(device)))
    encoder.train(training)
    return torch.stack(states)


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    group: list[int] = []
    for row in sorted((row for row, length in enumerate(lengths) if length), key=lambda row: -lengths[row]):
        if group and (len(group) + 1) * lengths[group[0]] > TOKENS_AT_ONCE:
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _padded(sentences: Sequence[Sequence[int]], specials: Specials) -> tuple[Tensor, Tensor]:
    """Ids and piece ids [B, T] of sentences between [CLS] and [SEP]."""
    shape = (len(sentences), max(map(len, sentences)) + 2)
    ids, pieces = np.full(shape, specials.pad, np.int64), np.full(shape, -1, np.int64)
    for row, tokens in enumerate(sentences):
        ids[row, : len(tokens) + 2] = [specials.cls, *tokens, specials.sep]
        pieces[row, : len(tokens) + 2] = 0
    return torch.from_numpy(ids), torch.from_numpy(pieces)
