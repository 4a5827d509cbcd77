"""The head `counts`: a linear model of the encoder's states and of counted features, fitted in seconds.

The encoder is not trained. The states are those of the head `frozen`; of a word, the mean over its tokens of
the last two layers. The counted features (counts.py) say what was written: with few labels, words and their
endings are surer evidence than the states of a small encoder, and both together are surer than either.

Shapes: B examples, T tokens, N rows (texts, pairs or words), K features, O outputs, D hidden size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from electra.finetuning.counts import Counts, Kind
from electra.finetuning.heads.frozen import Frozen, read_states
from electra.finetuning.heads.parts.contract import Head, HeadFactory, HeadModule, HeadShape, TrainingData
from electra.finetuning.linear_fit import fit_by_folds, problem_of, standardised
from electra.finetuning.train.dataset import group_rows
from electra.finetuning.windows.features import NO_TARGET, LabelledBatch
from electra.model.encoder import Encoder
from electra.model.hidden import hidden_states

LAYERS = 2  # of which a word's states are read, from the last
SCALES = ((1.0, 1.0), (0.5, 1.0), (2.0, 1.0))  # of the states and the counted features


class WordStates(Head):
    """A linear layer on each word: the means of its tokens' states in the last layers, at its first token."""

    per_token = True

    def __init__(self, shape: HeadShape) -> None:
        super().__init__(shape.config, shape.num_outputs)
        self.output = nn.Linear(LAYERS * shape.config.hidden_size, shape.num_outputs)

    @override
    def encode(self, encoder: Encoder, batch: LabelledBatch) -> Tensor:
        """Returns the words' states [B, T, LAYERS D]; 0 at other tokens than the first of a word."""
        layers = hidden_states(encoder, batch.input_ids, batch.document_ids)
        states_ND = torch.cat(layers[-LAYERS:], -1).flatten(0, 1)
        starts, ends = word_places(batch)
        sizes = ends - starts
        words = torch.from_numpy(np.repeat(np.arange(len(starts)), sizes)).to(states_ND.device)
        tokens = np.arange(sizes.sum()) + np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
        sums_WD = states_ND.new_zeros(len(starts), states_ND.shape[1])
        sums_WD.index_add_(0, words, states_ND[torch.from_numpy(tokens).to(words.device)])
        found = torch.zeros_like(states_ND)
        found[torch.from_numpy(starts).to(words.device)] = (
            sums_WD / torch.from_numpy(sizes).to(sums_WD)[:, None]
        )
        return found.view(*batch.input_ids.shape, -1)


def word_places(batch: LabelledBatch) -> tuple[Any, Any]:
    """Returns the places of each word's first token, and behind its last, in the flat batch [B T]."""
    offsets = np.arange(len(batch.context)) * batch.input_ids.shape[1]
    pairs = list(zip(batch.context, offsets, strict=True))
    starts = np.concatenate([window.positions + offset for window, offset in pairs])
    return starts, np.concatenate([window.ends + offset for window, offset in pairs])


class CountedHead(HeadModule):
    """The sum of a linear layer on states and one on counted features, whose vocabulary it keeps."""

    not_in_graphs = "the head counts reads the words of a text; an ONNX graph has only token ids"
    hashes: Tensor
    rarity: Tensor

    def __init__(self, shape: HeadShape) -> None:
        super().__init__()
        self.states = WordStates(shape) if shape.kind == "tagger" else Frozen().build(shape)
        self.per_token = self.states.per_token
        self.kind: Kind = "words" if self.per_token else "pairs" if shape.separate_texts else "texts"
        self.register_buffer("hashes", torch.zeros(0, dtype=torch.int64))
        self.register_buffer("rarity", torch.zeros(0))
        self.counted = nn.Parameter(torch.zeros(0, shape.num_outputs))

    @override
    def encode(self, encoder: Encoder, batch: LabelledBatch) -> Tensor:
        return self.states.encode(encoder, batch)

    @override
    def forward(self, encoded: Tensor, batch: LabelledBatch) -> Tensor:
        logits: Tensor = self.states(encoded, batch)
        matrix = self.counts.matrix(batch.texts, [window.words for window in batch.context])
        places, ends, values = (
            torch.from_numpy(part).to(logits.device) for part in (matrix.indices, matrix.indptr, matrix.data)
        )
        counted = F.embedding_bag(
            places.long(), self.counted, ends[:-1].long(), mode="sum", per_sample_weights=values
        )
        if not self.per_token:
            return logits + counted
        starts = torch.from_numpy(word_places(batch)[0]).to(logits.device)
        return logits.flatten(0, 1).index_add(0, starts, counted.to(logits)).view_as(logits)

    @property
    def counts(self) -> Counts:
        """The counted features."""
        return Counts(self.kind, self.hashes.cpu().numpy(), self.rarity.cpu().numpy())

    @override
    def rescale(self, factor: float, offset: float) -> None:
        self.states.rescale(factor, offset)
        self.counted.mul_(factor)

    @override
    def _load_from_state_dict(self, state_dict: Mapping[str, Tensor], prefix: str, *args: Any) -> None:
        """Takes the saved vocabulary, whatever its size."""
        hashes = state_dict.get(prefix + "hashes")
        if hashes is not None and hashes.dim() == 1 and (hashes.diff() > 0).all():
            counts = Counts(self.kind, hashes.numpy(), np.empty(len(hashes), np.float32))
            self.resize(counts)
        super()._load_from_state_dict(state_dict, prefix, *args)  # type: ignore[no-untyped-call]

    def resize(self, counts: Counts) -> None:
        """Takes counted features, with weights 0."""
        device = self.counted.device
        self.hashes, self.rarity = (torch.tensor(part).to(device) for part in (counts.hashes, counts.rarity))
        self.counted = nn.Parameter(torch.zeros(counts.num_columns, self.counted.shape[1], device=device))


class CountsAndStates(HeadFactory):
    """Builds the head and fits it."""

    name = "counts"
    kinds, dropout, epochs, pooling = Frozen.kinds, Frozen.dropout, Frozen.epochs, Frozen.pooling
    separates_pairs = True

    @override
    def build(self, shape: HeadShape) -> HeadModule:
        return CountedHead(shape)

    @override
    def start(self, head: HeadModule, encoder: Encoder, data: TrainingData) -> None:
        assert isinstance(head, CountedHead)
        fit_head(head, encoder, data)


@torch.no_grad()
def fit_head(head: CountedHead, encoder: Encoder, data: TrainingData) -> None:
    """Fits both layers of the head together."""
    windows, task = data.windows, data.task
    assert windows.targets is not None, "training data has answers"
    head.resize(Counts.learn(head.kind, windows.texts, task.num_outputs))
    chosen = [window.words for window in windows.context]
    if head.per_token:
        pairs = zip(windows.context, windows.targets, strict=True)
        chosen = [window.words[target[window.positions] != NO_TARGET] for window, target in pairs]
    matrix = head.counts.matrix(windows.texts, chosen)
    states_ND, targets, _ = read_states(head.states, encoder, data, np.arange(len(windows)))
    groups = group_rows(windows.texts, task)
    if head.per_token:
        groups = np.repeat(groups, [*map(len, chosen)])
    (states, mean_D, scale_D), (counted, mean_K, scale_K) = standardised(states_ND), standardised(matrix)
    found = fit_by_folds(problem_of(task, [states, counted], targets), groups, SCALES)
    of_states, of_counts = found.weights[0] / scale_D, found.weights[1] / scale_K
    head.states.output.weight.copy_(torch.from_numpy(of_states.T))
    head.states.output.bias.copy_(torch.from_numpy(found.bias - mean_D @ of_states - mean_K @ of_counts))
    head.counted.copy_(torch.from_numpy(of_counts))


HEAD = CountsAndStates()
