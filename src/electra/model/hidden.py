"""An encoder's intermediate results: hidden states of every layer, and word vectors.

Shapes: B batch, T tokens, D hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from electra.foundation.arrays import Bools, Ints, Vectors
from electra.model.encoder import Encoder, Variation
from electra.model.passes import padded_batches

NO_WORD = -1


@dataclass(frozen=True)
class Row:
    """A sentence as encoder input."""

    ids: Ints  # [T] with [CLS] and [SEP]
    words: Ints  # [T] index in the sentence of each token's word; NO_WORD at the special tokens

    @property
    def num_tokens(self) -> int:
        """Number of tokens without the two special ones."""
        return len(self.ids) - 2


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


def word_vectors(encoder: Encoder, rows: Sequence[Row], counts: Sequence[int]) -> tuple[Vectors, Bools]:
    """Averages the hidden states of each word's tokens.

    Args:
        encoder: The encoder, in evaluation mode.
        rows: The sentences.
        counts: Number of words of each row.

    Returns:
        float32 [depths, words, D] over the words of all rows, and bool [words]: false for words without
        tokens (truncated, or dropped by the tokenizer), whose vectors are zero.
    """
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    num_words = int(starts[-1])
    sums = [torch.zeros(num_words, encoder.config.hidden_size) for _ in range(encoder.config.num_layers + 1)]
    token_counts = torch.zeros(num_words)
    device = next(encoder.parameters()).device
    with torch.inference_mode():
        for batch in padded_batches((row.ids for row in rows), device):
            batch_rows = [rows[i] for i in batch.index]
            row_index = torch.from_numpy(np.repeat(np.arange(len(batch_rows)), batch.lengths - 2))
            positions = torch.from_numpy(
                np.concatenate([np.arange(1, row.num_tokens + 1) for row in batch_rows])
            )
            word_index = torch.from_numpy(
                np.concatenate([row.words[1:-1] for row in batch_rows])
            ) + torch.from_numpy(np.repeat(starts[batch.index], batch.lengths - 2))
            token_counts.index_add_(0, word_index, torch.ones(len(word_index)))
            states_of_layers = hidden_states(encoder, batch.input_ids, batch.document_ids)
            for sum_ND, state_BTD in zip(sums, states_of_layers, strict=True):
                sum_ND.index_add_(0, word_index, state_BTD.float().cpu()[row_index, positions])
    means = torch.stack(sums) / token_counts.clamp(min=1)[:, None]
    return means.numpy(), (token_counts > 0).numpy()
