"""The head `counts`: a linear model of the encoder's states and of counted features, fitted in seconds.

The encoder is not trained. The states are those of the head `frozen` and, for a word, also the means over its
tokens of the last two layers. The counted features (counts.py) say what was written: with few labels, words
and their endings are surer evidence than the states of a small encoder, and both together than either.

Shapes: B examples, T tokens, N rows (texts, pairs or words), K features, O outputs, D hidden size.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from electra.finetuning.counts import NUM_OVERLAPS, Counts, Kind
from electra.finetuning.heads.frozen import Frozen, TrainingRows, read_rows
from electra.finetuning.heads.parts.contract import Head, HeadFactory, HeadModule, HeadShape, TrainingData
from electra.finetuning.linear_fit import Problem, fit, tuned
from electra.finetuning.windows.features import Ids, LabelledBatch, are_targets
from electra.model.encoder import Encoder
from electra.model.hidden import hidden_states

LAYERS = 2  # of which a word's states are read, from the last


class WordStates(Head):
    """A linear layer on the states of each word, which lie at its first token.

    They are the last layer's at that token, as in the head `frozen`, and the means over the word's tokens of
    the last LAYERS layers.
    """

    per_token = True

    def __init__(self, shape: HeadShape) -> None:
        super().__init__(shape.config, shape.num_outputs)
        self.output = nn.Linear((1 + LAYERS) * shape.config.hidden_size, shape.num_outputs)

    @override
    def encode(self, encoder: Encoder, batch: LabelledBatch) -> Tensor:
        """Returns the words' states [B, T, (1 + LAYERS) D]; 0 at other tokens than the first of a word."""
        layers = hidden_states(encoder, batch.input_ids, batch.document_ids)
        starts, ends = (torch.from_numpy(part).to(layers[-1].device) for part in word_places(batch))
        sizes = ends - starts
        offsets = sizes.cumsum(0) - sizes
        tokens = torch.arange(int(sizes.sum())).to(starts) + (starts - offsets).repeat_interleave(sizes)
        states = torch.cat(layers[-LAYERS:], -1).flatten(0, 1)
        means = F.embedding_bag(tokens, states, offsets, mode="mean")
        found = states.new_zeros(len(states), self.output.in_features)
        found[starts] = torch.cat([layers[-1].flatten(0, 1)[starts], means], -1)
        return found.view(*batch.input_ids.shape, -1)


def word_places(batch: LabelledBatch) -> tuple[Ids, Ids]:
    """Returns the places of each word's first token, and behind its last, in the flat batch [B T]."""
    rows = range(0, batch.input_ids.numel(), batch.input_ids.shape[1])
    starts = [window.positions + row for window, row in zip(batch.context, rows, strict=True)]
    ends = [window.ends + row for window, row in zip(batch.context, rows, strict=True)]
    return np.concatenate(starts), np.concatenate(ends)


class CountedHead(HeadModule):
    """The sum of a linear layer on states and one on counted features, whose vocabulary it keeps."""

    not_in_graphs = "the head counts reads the words of a text; an ONNX graph has only token ids"
    hashes: Tensor
    rarity: Tensor

    def __init__(self, shape: HeadShape) -> None:
        super().__init__()
        self.states = WordStates(shape) if shape.kind == "tagger" else Frozen().build(shape)
        self.per_token = self.states.per_token
        self.frozen_size = shape.config.hidden_size if self.per_token else None  # of the states, those of `frozen`
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
        parts = (matrix.indices.astype(np.int64), matrix.indptr[:-1].astype(np.int64), matrix.data)
        places, starts, values = (torch.from_numpy(part).to(logits.device) for part in parts)
        counted = F.embedding_bag(places, self.counted, starts, mode="sum", per_sample_weights=values)
        if not self.per_token:
            return logits + counted
        starts = torch.from_numpy(word_places(batch)[0]).to(logits.device)
        return logits.flatten(0, 1).index_add(0, starts, counted.to(logits)).view_as(logits)

    @property
    def counts(self) -> Counts:
        """The counted features."""
        return Counts(self.kind, self.hashes.cpu().numpy(), self.rarity.cpu().numpy())

    def read(self, encoder: Encoder, data: TrainingData) -> tuple[TrainingRows, Any]:
        """Returns the states and counted features [N, K] of the training data, whose vocabulary it takes."""
        rows, windows = read_rows(self.states, encoder, data), data.windows
        self.resize(Counts.learn(self.kind, windows.texts, data.task.num_outputs))
        pairs = zip(windows.context, windows.targets or (), strict=False)
        chosen = [window.words[are_targets(target[window.positions])] for window, target in pairs]
        return rows, self.counts.matrix(windows.texts, chosen)

    @override
    def rescale(self, factor: float, offset: float) -> None:
        self.states.rescale(factor, offset)
        self.counted.mul_(factor)

    @override
    def _load_from_state_dict(self, state_dict: Mapping[str, Tensor], prefix: str, *args: Any) -> None:
        """Takes the saved vocabulary, whatever its size."""
        hashes = state_dict.get(prefix + "hashes")
        if hashes is not None and hashes.dim() == 1 and (hashes.diff() > 0).all():
            size = len(hashes) + (NUM_OVERLAPS + 1) * (self.kind == "pairs")
            self.resize(Counts(self.kind, hashes.numpy(), np.empty(size, np.float32)))
        super()._load_from_state_dict(state_dict, prefix, *args)  # type: ignore[no-untyped-call]

    def resize(self, counts: Counts) -> None:
        """Takes counted features, with weights 0."""
        device = self.counted.device
        self.hashes, self.rarity = (torch.tensor(part).to(device) for part in (counts.hashes, counts.weights))
        self.counted = nn.Parameter(torch.zeros(len(counts.weights), self.counted.shape[1], device=device))


class CountsAndStates(HeadFactory):
    """Builds the head and fits it."""

    name = "counts"
    kinds, dropout, epochs, pooling = Frozen.kinds, Frozen.dropout, Frozen.epochs, Frozen.pooling
    separates_pairs = True

    @override
    def build(self, shape: HeadShape) -> HeadModule:
        return CountedHead(shape)

    @override
    @torch.no_grad()
    def start(self, head: HeadModule, encoder: Encoder, data: TrainingData) -> None:
        assert isinstance(head, CountedHead)
        rows, counted = head.read(encoder, data)
        fitted = fit(tuned(Problem(data.task, [rows.states, counted], rows.targets), rows.folds))
        head.states.output.weight.copy_(torch.from_numpy(fitted.weights[0].T))
        head.states.output.bias.copy_(torch.from_numpy(fitted.bias))
        head.counted.copy_(torch.from_numpy(fitted.weights[1]))


HEAD = CountsAndStates()
