"""An encoder's intermediate results: hidden states of every layer, and word vectors.

Shapes: B batch, T tokens, D hidden.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from electra.foundation.arrays import Bools, Ints, Vectors
from electra.model.encoder import Encoder, Variation
from electra.model.passes import PaddedBatch, map_rows


class LayerStates(Variation):
    """Records the states [B, T, D] of a forward pass: the embeddings, then each layer's output."""

    def __init__(self) -> None:
        self.layers: list[Tensor] = []

    @override
    def observe(self, states_BTD: Tensor) -> None:
        self.layers.append(states_BTD)


def hidden_states(encoder: Encoder, input_ids: Tensor, document_ids: Tensor | None = None) -> list[Tensor]:
    """Returns states [B, T, D] at each depth: the input of the first layer, then the output of each layer.

    The last states are the encoder's output, to which the modern encoder applies one more norm.
    """
    states = LayerStates()
    final_states = encoder(input_ids, document_ids=document_ids, variation=states)
    return [*states.layers[:-1], final_states]


def word_vectors(encoder: Encoder, rows: Sequence[tuple[Ints, Ints]], counts: Sequence[int]) -> tuple[Vectors, Bools]:
    """Averages the hidden states of each word's tokens; row i has `counts[i]` words.

    A row is its ids, with [CLS] and [SEP], and for each token between them the index of its word. Returns
    float32 [depths, words, D] over the words of all rows, and bool [words]: false for words without tokens
    (truncated, or dropped by the tokenizer), whose vectors are zero.
    """
    device = next(encoder.parameters()).device

    def network(batch: PaddedBatch) -> list[tuple[Vectors, Bools]]:
        states = hidden_states(encoder, batch.input_ids, batch.document_ids)
        found = []
        for line, index in enumerate(batch.index):
            words = torch.from_numpy(rows[index][1])
            sums_LWD = torch.zeros(len(states), counts[index], encoder.config.hidden_size)
            for sum_WD, state_BTD in zip(sums_LWD, states, strict=True):
                sum_WD.index_add_(0, words, state_BTD[line, 1 : len(words) + 1].float().cpu())
            tokens_W = torch.bincount(words, minlength=counts[index])
            found.append(((sums_LWD / tokens_W.clamp(min=1)[:, None]).numpy(), (tokens_W > 0).numpy()))
        return found

    found = list(map_rows((ids for ids, _ in rows), network, device))
    return np.concatenate([v for v, _ in found], 1), np.concatenate([has for _, has in found])
