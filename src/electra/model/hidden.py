"""What an encoder computes on the way: the hidden states of every depth, words' vectors made of them, every
head's attention weights.

All are caught by hooks while the encoder runs as it always does, so its own code knows nothing of it.
Attention weights are not computed twice the fast way: they are made anew from the queries and keys that the
layer had. Shapes: B batch, T tokens, D hidden, H heads, K head size.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from electra.foundation.arrays import Bools, Ints, Vectors
from electra.foundation.progress import Share, unshared
from electra.model.attention import attention_mask
from electra.model.encoder import Encoder
from electra.model.passes import passes

NO_WORD = -1


@dataclass(frozen=True)
class Row:
    """One sentence as an encoder reads it."""

    ids: Ints  # [T] with [CLS] and [SEP]
    words: Ints  # [T] the word that each token belongs to; NO_WORD for the specials at its ends

    @classmethod
    def between(cls, first: int, ids: Sequence[int] | Ints, last: int, words: Sequence[int] | Ints) -> Row:
        """A sentence's ordinary tokens and their words, between two special ones."""
        return cls(np.array([first, *ids, last], np.int64), np.array([NO_WORD, *words, NO_WORD], np.int64))

    @property
    def num_tokens(self) -> int:
        return len(self.ids) - 2


def layers_of(encoder: Encoder) -> list[nn.Module]:
    return list(encoder.get_submodule("layers").children())


def hidden_states(encoder: Encoder, input_ids: Tensor, piece_ids: Tensor | None = None) -> list[Tensor]:
    """[B, T, D] at each depth: 0 what enters the first layer (no token has seen another yet), then what
    leaves each layer; the last is the encoder's output, which the modern encoder normalises once more.
    """
    layers = layers_of(encoder)
    states: list[Tensor] = []
    with ExitStack() as hooks:
        hooks.callback(layers[0].register_forward_pre_hook(lambda _, given: states.append(given[0])).remove)
        for layer in layers[:-1]:
            hooks.callback(layer.register_forward_hook(lambda _, __, made: states.append(made)).remove)
        last = encoder(input_ids, piece_ids=piece_ids)
    return [*states, last]


def attention_weights(encoder: Encoder, input_ids: Tensor, piece_ids: Tensor | None = None) -> list[Tensor]:
    """[B, H, T, T] of each layer: the share of its attention that token i (row) gives to token j (column)."""
    projected: list[Tensor] = []
    with ExitStack() as hooks:
        for layer in layers_of(encoder):
            hooks.callback(
                layer.get_submodule("qkv")
                .register_forward_hook(lambda _, __, made: projected.append(made))
                .remove
            )
        encoder(input_ids, piece_ids=piece_ids)
    mask_B1TT = attention_mask(piece_ids)
    projected = projected[: encoder.config.num_layers]  # a mask decoder goes through its last layer again
    return [encoder.attention_weights(number, qkv, mask_B1TT) for number, qkv in enumerate(projected)]


def word_vectors(
    encoder: Encoder, rows: Sequence[Row], counts: Sequence[int], progress: Share = unshared
) -> tuple[Vectors, Bools]:
    """The vectors of all words of all rows, which have `counts` words: (states [depths, words, D], present
    [words]).

    A word's vector is the mean of its tokens'. A word without tokens (cut off, or nothing that the tokenizer
    keeps) is not present.
    """
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    total = int(starts[-1])
    sums = [torch.zeros(total, encoder.config.hidden_size) for _ in range(encoder.config.num_layers + 1)]
    tokens = torch.zeros(total)
    device, done = next(encoder.parameters()).device, 0
    with torch.inference_mode():
        for one in passes((row.ids for row in rows), device):
            group = [rows[i] for i in one.index]
            lines = torch.from_numpy(np.repeat(np.arange(len(group)), one.lengths - 2))
            places = torch.from_numpy(np.concatenate([np.arange(1, row.num_tokens + 1) for row in group]))
            words = torch.from_numpy(np.concatenate([row.words[1:-1] for row in group])) + torch.from_numpy(
                np.repeat(starts[one.index], one.lengths - 2)
            )
            tokens.index_add_(0, words, torch.ones(len(words)))
            for total_ND, state_BTD in zip(
                sums, hidden_states(encoder, one.input_ids, one.piece_ids), strict=True
            ):
                total_ND.index_add_(0, words, state_BTD.float().cpu()[lines, places])
            done += len(group)
            progress(done / len(rows))
    states = torch.stack(sums) / tokens.clamp(min=1)[:, None]
    return states.numpy(), (tokens > 0).numpy()
