"""DeBERTa's encoder (He et al. 2021, arXiv 2006.03654; version 3: arXiv 2111.09543).

A post-norm transformer whose attention adds two terms to the product of a query and a key: the query with an
embedding of their distance (content to position), and the key with another (position to content). Long
distances share buckets. Weight-compatible with transformers' `DebertaV2Model` (interop holds the names).

No [T, T, D] tensor is made. In a block of queries, all distances to all keys are a run of T + BLOCK - 1
neighbours, so their scores are one matrix product; read with rows that begin one element earlier each time,
that product is the block's part of the scores. Documents packed into a row are runs too, so a distance in
the row is the distance in the document.

Shapes: B batch, T tokens, D hidden, E embedding, H heads, K head size, L = 2T - 1 distances, R rows of the
table of distances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from electra.model.attention import attention_mask
from electra.model.dropout import dropout, dropout_factors
from electra.model.encoder import PLAIN, ElectraEncoder, Embeddings, Encoder, Layer, Variation, table
from electra.model.precision import device_kind
from electra.model.sizes import BLOCK, EncoderConfig

CACHED = 1 << 16  # scores computed at a time on a CPU, so that they stay in its cache
# Replaces BLOCK on a GPU, where a few large products are faster than many small ones.
ACCELERATOR_BLOCK = 256
# Activations of the convolution.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "tanh": torch.tanh}


def buckets(distances: Tensor, config: EncoderConfig) -> Tensor:
    """Returns the row of the table of distances for each distance (query minus key).

    Up to half the buckets every distance has its own; longer ones share buckets that grow logarithmically up
    to `position_span`.
    """
    half = config.position_buckets // 2
    rows = distances
    if half:
        far = distances.abs().clamp(min=half).float()
        longest = torch.tensor((config.position_span - 1) / half, device=far.device)
        fraction = torch.log(far / half) / torch.log(longest)
        bucket = (torch.ceil(fraction * (half - 1)) + half).long()
        rows = torch.where(distances.abs() <= half, distances, bucket * distances.sign())
    return (rows + config.num_distances).clamp(0, 2 * config.num_distances - 1)


def _skewed(scores: Tensor, size: int, keys: bool) -> Tensor:
    """Returns a view [H, B, n, size] of [H, B, n, size + n - 1]: row r begins at column n - 1 - r.

    For blocks of keys the view is [H, B, size, n].
    """
    H, B, n, width = scores.shape
    strides = (scores.stride(0), scores.stride(1))
    shape, inner = ((H, B, size, n), (1, width - 1)) if keys else ((H, B, n, size), (width - 1, 1))
    return scores.as_strided(shape, (*strides, *inner), scores.storage_offset() + n - 1)


def _scores(q: Tensor, k: Tensor, by_query: Tensor | None, by_key: Tensor | None) -> Tensor:
    """Returns attention scores [H, B, T, T] of queries and keys [H, B, T, K] and projected distances.

    Args:
        q: Queries, scaled.
        k: Keys.
        by_query: Distances [H, K, L] in falling order (query minus key, from T - 1), or None.
        by_key: Distances [H, K, L] in rising order, or None.
    """
    T, scores = q.shape[2], q @ k.mT
    for keys, x, positions in ((False, q, by_query), (True, k, by_key)):
        if positions is None:
            continue
        for start, stop, window in _blocks(q):
            block = x[:, :, start:stop]
            product = block.flatten(1, 2) @ positions[:, :, window]
            shifted = _skewed(product.view(*block.shape[:3], -1), T, keys)
            (scores[..., start:stop] if keys else scores[:, :, start:stop]).add_(shifted)
    return scores


class Attention(torch.autograd.Function):
    """Disentangled attention of queries, keys and values [H, B, T, K] -> [H, B, T, K].

    It computes a few heads and rows at a time, so that their scores stay in the CPU's cache between the first
    product and the last.
    """

    @staticmethod
    def forward(context: Any, *arguments: Any) -> Tensor:  # type: ignore[override]
        """Takes q, k, v, the projected distances (see `_scores`), a mask and dropout factors.

        The mask is [B, T, T] or None, the factors [H, B, T, T] or None.
        """
        q, k, v, by_query, by_key, mask, factors = arguments
        trains = any(context.needs_input_grad)
        H, B, T, _ = q.shape
        exact = torch.promote_types(q.dtype, torch.float32)
        weights = q.new_empty(H, B, T, T, dtype=exact) if trains else None
        output = torch.empty_like(v)
        for heads, rows in _parts(q):
            at = heads, rows
            scores = _scores(q[at], k[at], *_select(heads, by_query, by_key))
            if mask is not None:
                scores.masked_fill_(~mask[rows], float("-inf"))
            part = scores.softmax(-1, dtype=exact)
            if weights is not None:
                weights[at] = part
            output[at] = (part if factors is None else part * factors[at]).to(v.dtype) @ v[at]
        context.save_for_backward(q, k, v, by_query, by_key, weights, factors)
        return output

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        """Returns the gradients of q, k, v and the projected distances."""
        q, k, v, by_query, by_key, weights, factors = context.saved_tensors
        T = q.shape[2]
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        d_by = [None if p is None else p.new_zeros(p.shape) for p in (by_query, by_key)]
        for heads, rows in _parts(q):
            at = heads, rows
            part, d_part = weights[at], (gradient[at] @ v[at].mT).to(weights.dtype)
            if factors is not None:
                d_part *= factors[at]
            dropped = part if factors is None else part * factors[at]
            dv[at] = dropped.to(v.dtype).mT @ gradient[at]
            d_scores = torch._softmax_backward_data(d_part, part, -1, part.dtype).to(q.dtype)
            d_q, d_k = d_scores @ k[at], d_scores.mT @ q[at]
            sides = zip((q[at], k[at]), (d_q, d_k), (by_query, by_key), d_by, (False, True), strict=True)
            for x, d_x, positions, d_positions, keys in sides:
                if positions is None or d_positions is None:
                    continue
                for start, stop, window in _blocks(q):
                    block = x[:, :, start:stop]
                    wide = gradient.new_zeros(*block.shape[:3], T + stop - start - 1, dtype=q.dtype)
                    _skewed(wide, T, keys).copy_(
                        d_scores[..., start:stop] if keys else d_scores[:, :, start:stop]
                    )
                    wide = wide.flatten(1, 2)
                    d_block = wide @ positions[heads, :, window].mT
                    d_x[:, :, start:stop] += d_block.view(block.shape)
                    d_positions[heads, :, window] += block.flatten(1, 2).mT @ wide
            dq[at], dk[at] = d_q, d_k
        return dq, dk, dv, *d_by, None, None


def _masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    return scores if mask is None else scores.masked_fill(~mask, float("-inf"))


def _select(heads: slice, *positions: Tensor | None) -> list[Tensor | None]:
    return [None if x is None else x[heads] for x in positions]


def _parts(q: Tensor) -> Iterator[tuple[slice, slice]]:
    """Yields slices of heads and rows that fit a CPU cache; on an accelerator a single one."""
    heads, rows, length, _ = q.shape
    fit = heads * rows if device_kind(q).own_memory else CACHED // (BLOCK * (length + BLOCK))
    of_heads = max(1, min(heads, fit))
    of_rows = max(1, fit // of_heads)
    for head in range(0, heads, of_heads):
        for row in range(0, rows, of_rows):
            yield slice(head, head + of_heads), slice(row, row + of_rows)


def _blocks(q: Tensor) -> Iterator[tuple[int, int, slice]]:
    """Yields the start and end of each block of positions, and the slice of the L distances it needs."""
    length, block = q.shape[2], ACCELERATOR_BLOCK if device_kind(q).own_memory else BLOCK
    for start in range(0, length, block):
        stop = min(start + block, length)
        yield start, stop, slice(length - stop, 2 * length - 1 - start)


def _gathered(q: Tensor, k: Tensor, by_query: Tensor | None, by_key: Tensor | None) -> Tensor:
    """Returns the result of `_scores` by plain operations, for graphs that are exported."""
    T = q.shape[2]
    place = torch.arange(T, device=q.device)
    index = (place[None, :] - place[:, None] + T - 1).expand(*q.shape[:2], T, T)
    scores = q @ k.mT
    if by_query is not None:
        scores = scores + (q @ by_query[:, None]).gather(-1, index)  # row: query, column: key
    if by_key is not None:
        scores = scores + (k @ by_key[:, None]).gather(-1, index).mT  # row: key, column: query
    return scores


class DebertaEmbeddings(Embeddings):
    """Word embeddings plus, if the shape has them, positions and token types.

    The sum is projected to size D and normalised.
    """

    def __init__(self, config: EncoderConfig) -> None:
        nn.Module.__init__(self)
        self.added = config.absolute_positions  # the mask decoder's positions are not part of the input
        self.words = table(config.vocab_size, config.embedding_size)
        if config.absolute_positions or config.mask_decoder:
            self.positions = table(config.max_positions, config.embedding_size)
        if config.num_token_types:
            self.token_types = table(config.num_token_types, config.embedding_size)
        same = config.embedding_size == config.hidden_size
        self.projection = (
            nn.Identity() if same else nn.Linear(config.embedding_size, config.hidden_size, bias=False)
        )
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps)

    def forward(
        self,
        input_ids_BT: Tensor,
        position_ids_BT: Tensor | None,
        token_type_ids_BT: Tensor | None,
        variation: Variation,
    ) -> Tensor:
        """Returns [B, T, D]. Without ids, positions count from 0 and token types are 0."""
        x_BTE = variation.embed(self.words(input_ids_BT))
        if self.added:
            x_BTE = x_BTE + self.places(input_ids_BT, position_ids_BT)
        if hasattr(self, "token_types"):
            no_types = token_type_ids_BT is None
            x_BTE = x_BTE + (self.token_types.weight[0] if no_types else self.token_types(token_type_ids_BT))
        return torch.as_tensor(self.norm(self.projection(x_BTE)))

    def places(self, input_ids_BT: Tensor, position_ids_BT: Tensor | None) -> Tensor:
        """Returns the embeddings of the absolute positions, [T, E] or [B, T, E]."""
        if position_ids_BT is None:
            return self.positions.weight[: input_ids_BT.shape[1]]
        return torch.as_tensor(self.positions(position_ids_BT))


class DebertaLayer(Layer):
    """A post-norm layer with disentangled attention, and in version 2's first layer a convolution."""

    convolution: nn.Conv1d
    convolution_norm: nn.LayerNorm

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        separate = not config.shared_position_keys  # else the layer's own qkv projects the distances
        for name, used in (
            ("position_keys", config.content_to_position),
            ("position_queries", config.position_to_content),
        ):
            if separate and used:
                self.add_module(name, nn.Linear(config.hidden_size, config.hidden_size))

    def projected(
        self, q: Tensor, distances_RD: Tensor, index_L: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Returns the scaled queries [H, B, T, K], and the distances projected for queries and keys.

        The distances are [H, K, L] or None; see `_scores`.

        Args:
            q: Queries [H, B, T, K].
            distances_RD: Embeddings of distances.
            index_L: The row of each distance, in falling order.
        """
        config, D = self.config, self.config.hidden_size
        parts: list[Tensor | None] = []
        for used, name, first in (
            (config.content_to_position, "position_keys", D),
            (config.position_to_content, "position_queries", 0),
        ):
            if not used:
                parts.append(None)
            elif config.shared_position_keys:
                weight, bias = (x[first : first + D] for x in (self.qkv.weight, self.qkv.bias))
                parts.append(F.linear(distances_RD, weight, bias))
            else:
                parts.append(self.get_submodule(name)(distances_RD))
        H, terms = config.num_heads, 1 + config.content_to_position + config.position_to_content
        scale = 1 / math.sqrt(q.shape[-1] * terms)
        by_query, by_key = (
            None if x is None else x[at].view(-1, H, q.shape[-1]).permute(1, 2, 0)
            for x, at in zip(parts, (index_L, index_L.flip(0)), strict=True)
        )
        return q * scale, by_query, None if by_key is None else by_key * scale

    def forward(  # type: ignore[override]
        self,
        x_BTD: Tensor,
        mask_B1TT: Tensor | None,
        distances_RD: Tensor,
        index_L: Tensor,
        queries_BTD: Tensor | None = None,
    ) -> Tensor:
        """Returns [B, T, D].

        Args:
            x_BTD: States that give keys and values, and queries unless `queries_BTD` is passed.
            mask_B1TT: Where attention is allowed, or None.
            distances_RD: Embeddings of distances.
            index_L: The row of each distance, in falling order.
            queries_BTD: Other states that give the queries, and to which the output is added.
        """
        config, training, input_BTD = self.config, self.training, x_BTD
        B, T, D = x_BTD.shape
        q, k, v = self.qkv(x_BTD).view(B, T, 3, config.num_heads, -1).permute(2, 3, 0, 1, 4)
        if queries_BTD is not None:
            q = F.linear(queries_BTD, self.qkv.weight[:D], self.qkv.bias[:D])
            q, x_BTD = q.view(B, T, config.num_heads, -1).permute(2, 0, 1, 3), queries_BTD
        q, *positions = self.projected(q, dropout(distances_RD, config.dropout, training), index_L)
        mask_BTT = None if mask_B1TT is None else mask_B1TT[:, 0]
        if torch.compiler.is_exporting():
            weights = _masked(_gathered(q, k, *positions), mask_BTT).softmax(-1)
            context = weights @ v
        else:
            factors = dropout_factors((config.num_heads, B, T, T), config.attention_dropout, training, q)
            mask_BTT = None if mask_BTT is None else mask_BTT.expand(B, T, T)
            context = Attention.apply(q, k, v, *positions, mask_BTT, factors)  # type: ignore[no-untyped-call]
        context = self.attention_output(context.permute(1, 2, 0, 3).reshape(B, T, D))
        x_BTD = self.attention_norm(x_BTD + dropout(context, config.dropout, training))
        update = self.output(F.gelu(self.intermediate(x_BTD)))
        x_BTD = self.output_norm(x_BTD + dropout(update, config.dropout, training))
        return self.convolved(x_BTD, input_BTD, mask_B1TT)

    def convolved(self, x_BTD: Tensor, input_BTD: Tensor, mask_B1TT: Tensor | None) -> Tensor:
        """Returns the output plus a convolution of the input, normalised (version 2's first layer).

        Other layers return the output unchanged.
        """
        if not hasattr(self, "convolution"):
            return x_BTD
        T, half = x_BTD.shape[1], self.config.convolution // 2
        padded = F.pad(input_BTD, (0, 0, half, half))
        parts = []
        for offset in range(-half, half + 1):
            part = padded[:, half + offset : half + offset + T]
            if mask_B1TT is not None and offset:  # not across the edge of a document
                near = mask_B1TT[:, 0].diagonal(offset, dim1=-2, dim2=-1)
                part = part * F.pad(near, (max(-offset, 0), max(offset, 0)))[..., None]
            parts.append(part)
        weight = self.convolution.weight.permute(0, 2, 1).flatten(1)
        update = F.linear(torch.cat(parts, dim=-1), weight, self.convolution.bias)
        activation = ACTIVATIONS[self.config.convolution_activation]
        update = activation(dropout(update, self.config.dropout, self.training))
        return torch.as_tensor(self.convolution_norm(x_BTD + update))


class DebertaEncoder(ElectraEncoder):
    """DeBERTa's encoder, optionally with the enhanced mask decoder."""

    embeddings: DebertaEmbeddings

    def __init__(self, config: EncoderConfig) -> None:
        Encoder.__init__(self)
        self.config = config
        self.embeddings = DebertaEmbeddings(config)
        self.relative_positions = table(2 * config.num_distances, config.hidden_size)
        self.relative_norm = _norm(config) if config.norm_distances else nn.Identity()
        self.layers = nn.ModuleList(DebertaLayer(config) for _ in range(config.num_layers))
        if config.convolution:
            first = self.layers[0]
            assert isinstance(first, DebertaLayer)
            first.convolution = nn.Conv1d(config.hidden_size, config.hidden_size, config.convolution)
            first.convolution_norm = _norm(config)

    @override
    def share_embeddings(self, other: Encoder, *, table_only: bool) -> None:
        assert isinstance(other, DebertaEncoder)
        self.embeddings.words = other.embeddings.words
        if not table_only and self.config.hidden_size == other.config.hidden_size:
            self.embeddings.norm = other.embeddings.norm

    def distances(self, length: int) -> tuple[Tensor, Tensor]:
        """Returns the embeddings of the distances [R, D], and the row of each, in falling order [L]."""
        rows_RD, device = self.relative_positions.weight, self.relative_positions.weight.device
        falling = torch.arange(length - 1, -length, -1, device="cpu")
        index_L = buckets(falling, self.config)
        if not torch.compiler.is_exporting():  # an exported graph has no fixed length: it keeps all rows
            first, last = int(index_L[-1]), int(index_L[0])
            rows_RD, index_L = rows_RD[first : last + 1], index_L - first
        return torch.as_tensor(self.relative_norm(rows_RD)), index_L.to(device)

    @override
    def attention_weights(self, number: int, qkv_BTX: Tensor, mask_B1TT: Tensor | None) -> Tensor:
        B, T, _ = qkv_BTX.shape
        q, k, _ = qkv_BTX.view(B, T, 3, self.config.num_heads, -1).permute(2, 3, 0, 1, 4)
        layer = self.layers[number]
        assert isinstance(layer, DebertaLayer)
        q, *positions = layer.projected(q, *self.distances(T))
        mask_BTT = None if mask_B1TT is None else mask_B1TT[:, 0]
        return _masked(_scores(q, k, *positions), mask_BTT).softmax(-1).transpose(0, 1)

    @override
    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor | None = None,
        piece_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        variation: Variation = PLAIN,
    ) -> Tensor:
        mask_B1TT = variation.allow(attention_mask(piece_ids), input_ids)
        x_BTD = self.embeddings(input_ids, position_ids, token_type_ids, variation)
        x_BTD = dropout(x_BTD, self.config.dropout, self.training)
        context = (mask_B1TT, *self.distances(input_ids.shape[1]))
        *layers, last = self.layers.children()
        variation.see(x_BTD)
        for layer in layers:
            x_BTD = layer(x_BTD, *context)
            variation.see(x_BTD)
        if not self.config.mask_decoder:
            x_BTD = last(x_BTD, *context)
            variation.see(x_BTD)
            return torch.as_tensor(x_BTD)
        # The enhanced mask decoder: the last layer twice, with queries from states plus absolute positions.
        places = self.embeddings.projection(self.embeddings.places(input_ids, position_ids))
        queries_BTD = x_BTD + places
        for _ in range(2):
            queries_BTD = last(x_BTD, *context, queries_BTD)
        variation.see(queries_BTD)
        return torch.as_tensor(queries_BTD)


def _norm(config: EncoderConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.hidden_size, eps=config.norm_eps)
