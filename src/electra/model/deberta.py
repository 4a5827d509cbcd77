"""DeBERTa's encoder (He et al. 2021, arXiv 2006.03654; version 3: arXiv 2111.09543).

A post-norm transformer whose attention adds two terms to the product of a query and a key: the product of
the query with one embedding of their distance (content to position), and that of the key with another
(position to content). Long distances share buckets. Weight-compatible with transformers' `DebertaV2Model`
(exchange/weight_names.py maps the names).

No [T, T, D] tensor is built. A block of n queries and all keys have T + n - 1 consecutive distances, so one
matrix product scores them. The block's part of the scores is a view of that product in which each row begins
one element later than the row before. All blocks are computed in one batched product. Documents packed into a
row are contiguous, so the distance of two tokens in the row is their distance in the document.

Shapes: B batch, T tokens, D hidden, E embedding, H heads, K head size, L = 2T - 1 distances, R rows of the
table of distance embeddings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from electra.model.dropout import dropout, dropout_factors
from electra.model.encoder import ElectraEncoder, Embeddings, Encoder, Layer, Variation, embedding_table
from electra.model.precision import device_kind
from electra.model.sizes import DISTANCE_BLOCK, EncoderConfig

SCORES_AT_A_TIME = 1 << 16  # on a CPU: few enough to stay in its cache
# Replaces DISTANCE_BLOCK on a GPU, where a few large products are faster than many small ones.
ACCELERATOR_BLOCK = 256
# Activations of the convolution.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "tanh": torch.tanh}


def buckets(distances: Tensor, config: EncoderConfig) -> Tensor:
    """Returns the row of each distance (query minus key) in the table of distance embeddings.

    Distances up to half of `position_buckets` have a row each; longer ones share logarithmically spaced rows
    up to `position_span`. Without buckets (0), each distance up to `position_span` has a row. Greater
    distances share the last row of their side.
    """
    half = config.position_buckets // 2
    rows = distances
    if half:
        far = distances.abs().clamp(min=half).float()
        max_ratio = torch.tensor((config.position_span - 1) / half, device=far.device)
        fraction = torch.log(far / half) / torch.log(max_ratio)
        bucket = (torch.ceil(fraction * (half - 1)) + half).long()
        rows = torch.where(distances.abs() <= half, distances, bucket * distances.sign())
    return (rows + config.num_distances).clamp(0, 2 * config.num_distances - 1)


def block_size(length: int, device: torch.device) -> int:
    """Returns the size of equal blocks that cover a row (on a GPU at most `ACCELERATOR_BLOCK`)."""
    max_size = ACCELERATOR_BLOCK if device_kind(device).own_memory else DISTANCE_BLOCK
    return -(-length // -(-length // max_size))


def _in_blocks(x: Tensor, n: int) -> Tensor:
    """Returns [H, B, T, ...] as a view [H, T / n, B, n, ...]."""
    return x.view(*x.shape[:2], -1, n, *x.shape[3:]).transpose(1, 2)


def _by_distance(x: Tensor, n: int) -> Tensor:
    """Returns queries or keys [H, B, T, K] as [H * T / n, B * n, K], to be multiplied by `_windows`."""
    return _in_blocks(x, n).flatten(2, 3).flatten(0, 1)


def _windows(positions: Tensor, n: int) -> Tensor:
    """Returns the projected distances for each block, [H * T / n, K, T + n - 1]; a view if H is 1."""
    T = (positions.shape[-1] + 1) // 2
    return positions.unfold(-1, T + n - 1, n).transpose(1, 2).flatten(0, 1)


def _skewed(product: Tensor, heads: int, n: int) -> Tensor:
    """Returns a product with `_windows` as a view [H, T / n, B, n, T] in which row r begins at column r."""
    blocks, rows, width = product.shape[0] // heads, product.shape[1] // n, product.shape[2]
    block, row, _ = product.stride()
    return product.as_strided(
        (heads, blocks, rows, n, width - n + 1), (blocks * block, block, n * row, row + 1, 1)
    )


def _scores(q: Tensor, k: Tensor, n: int, by_query: Tensor | None, by_key: Tensor | None) -> Tensor:
    """Returns attention scores [H, B, T, T] from queries and keys [H, B, T, K] and projected distances.

    Args:
        q: Scaled queries, last one first, so that entry i + j of the distances belongs to query i and key j.
        k: Keys.
        n: Size of a block, a divisor of T.
        by_query: Distances [H, K, L] in descending order (query minus key, from T - 1), or None.
        by_key: The same distances in the other projection, or None.
    """
    H, B, T, _ = q.shape
    scores = torch.bmm(q.flatten(0, 1), k.flatten(0, 1).mT).view(H, B, T, T)
    for x, positions, sums in ((q, by_query, scores), (k, by_key, scores.mT)):
        if positions is not None:
            product = torch.bmm(_by_distance(x, n), _windows(positions, n))
            _in_blocks(sums, n).add_(_skewed(product, H, n))
    return scores


class Attention(torch.autograd.Function):
    """Disentangled attention of queries, keys and values [H, B, T, K] -> [H, B, T, K].

    On a CPU it computes one head and a few rows at a time, so that their scores stay in the cache from the
    first product to the last.
    """

    @staticmethod
    def forward(context: Any, *arguments: Any) -> Tensor:  # type: ignore[override]
        """Takes q, k, v, n and projected distances (see `_scores`), a mask and dropout factors.

        The mask is [B, T, T] or None, true where attention is not allowed; the factors are [H, B, T, T] or
        None. The rows of mask, factors and result are in the order of the queries.
        """
        q, k, v, n, by_query, by_key, mask, factors = arguments
        H, B, T, _ = q.shape
        softmax_dtype = torch.promote_types(q.dtype, torch.float32)
        weights = q.new_empty(H, B, T, T, dtype=softmax_dtype) if any(context.needs_input_grad) else None
        output: Tensor = q.new_empty(v.shape)
        for at in _parts(q):
            scores = _scores(q[at], k[at], n, *_select(at, by_query, by_key))
            if mask is not None:
                scores.masked_fill_(mask[at[1]], float("-inf"))
            part = torch.softmax(scores, -1, dtype=softmax_dtype)
            if weights is not None:
                weights[at] = part
            output[at] = (part if factors is None else part * factors[at]).to(v.dtype) @ v[at]
        context.n = n
        context.save_for_backward(q, k, v, by_query, by_key, weights, factors)
        return output

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        """Returns the gradients of q, k, v and the projected distances."""
        n, (q, k, v, by_query, by_key, weights, factors) = context.n, context.saved_tensors
        dq, dk, dv = (q.new_empty(q.shape) for _ in range(3))
        d_by = [None if p is None else p.new_zeros(p.shape) for p in (by_query, by_key)]
        d_product = q.new_empty(0)
        for at in _parts(q):
            part, d_part = weights[at], (gradient[at] @ v[at].mT).to(weights.dtype)
            if factors is not None:
                d_part *= factors[at]
            dropped = part if factors is None else part * factors[at]
            dv[at] = dropped.to(v.dtype).mT @ gradient[at]
            d_scores = torch._softmax_backward_data(d_part, part, -1, part.dtype).to(q.dtype)
            factor_pairs = (
                (q[at], k[at], d_scores, dq, by_query, d_by[0]),
                (k[at], q[at], d_scores.mT, dk, by_key, d_by[1]),
            )
            for x, other, d_sums, dx, positions, d_positions in factor_pairs:
                dx[at] = d_sums @ other
                if positions is None or d_positions is None:
                    continue
                blocks, windows = _by_distance(x, n), _windows(positions[at[0]], n)
                # the gradient of `product` in `_scores`; its elements outside the view below stay 0
                if d_product.shape != (*blocks.shape[:2], windows.shape[2]):
                    d_product = q.new_zeros(*blocks.shape[:2], windows.shape[2])
                _skewed(d_product, len(x), n).copy_(_in_blocks(d_sums, n))
                d_blocks = _in_blocks(dx[at], n)
                d_blocks += torch.bmm(d_product, windows.mT).view(d_blocks.shape)
                d_windows = torch.bmm(blocks.mT, d_product).view(len(x), -1, *windows.shape[1:])
                for number, d_window in enumerate(d_windows.unbind(1)):
                    d_positions[at[0], :, number * n : number * n + windows.shape[2]] += d_window
        return dq, dk, dv, None, *d_by, None, None


def _select(at: tuple[slice, slice], *positions: Tensor | None) -> list[Tensor | None]:
    return [None if x is None else x[at[0]] for x in positions]


def _parts(q: Tensor) -> Iterator[tuple[slice, slice]]:
    """Yields slices of heads and rows that fit in a CPU's cache; on an accelerator, one pair for all."""
    heads, rows, length, _ = q.shape
    if device_kind(q).own_memory:
        yield slice(heads), slice(rows)
        return
    rows_at_a_time = max(1, SCORES_AT_A_TIME // length**2)
    for head in range(heads):
        for row in range(0, rows, rows_at_a_time):
            yield slice(head, head + 1), slice(row, min(row + rows_at_a_time, rows))


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions: Iterable[Tensor | None],
    *,
    mask_BTT: Tensor | None,
    dropout: float,
) -> Tensor:
    """Returns disentangled attention [H, B, T, K] of queries (scaled), keys and values [H, B, T, K].

    `positions` are the projected distances (see `_scores`) of a row padded to a multiple of `block_size`.
    `mask_BTT` is true where attention is allowed; None: everywhere.
    """
    H, B, T, _ = q.shape
    n = block_size(T, q.device)
    padding = -T % n
    if padding:
        q, k, v = (F.pad(x, (0, 0, 0, padding)) for x in (q, k, v))
        allowed = q.new_ones(B, T, T, dtype=torch.bool) if mask_BTT is None else mask_BTT.expand(B, T, T)
        # No token attends to the padding; the padding attends to tokens, so that its softmax is defined.
        mask_BTT = F.pad(F.pad(allowed, (0, 0, 0, padding), value=True), (0, padding))
    disallowed = None if mask_BTT is None else ~mask_BTT.expand(B, -1, -1).flip(1)
    factors = dropout_factors((H, B, T + padding, T + padding), dropout, dropout > 0, q)
    output = Attention.apply(q.flip(2), k, v, n, *positions, disallowed, factors)  # type: ignore[no-untyped-call]
    return torch.as_tensor(output.flip(2)[:, :, :T])


def _gathered(q: Tensor, k: Tensor, by_query: Tensor | None, by_key: Tensor | None) -> Tensor:
    """Returns attention scores by plain operations, for analysis and for exported graphs.

    Like `_scores`, but queries are in the order of the text.
    """
    T = q.shape[2]
    position_T = torch.arange(T, device=q.device)
    index_HBTT = (position_T[None, :] - position_T[:, None] + T - 1).expand(*q.shape[:2], T, T)
    scores = q @ k.mT
    if by_query is not None:
        scores = scores + (q @ by_query[:, None]).gather(-1, index_HBTT)  # row: query, column: key
    if by_key is not None:
        scores = scores + (k @ by_key[:, None]).gather(-1, index_HBTT.mT).mT  # row: key, column: query
    return scores


def _masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    return scores if mask is None else scores.masked_fill(~mask, float("-inf"))


class DebertaEmbeddings(Embeddings):
    """The sum of word embeddings and, if the shape has them, of position and token-type embeddings.

    It is projected to size D and normalised.
    """

    def __init__(self, config: EncoderConfig) -> None:
        nn.Module.__init__(self)
        # the mask decoder's positions are not part of the input
        self.adds_positions = config.absolute_positions
        self.words = embedding_table(config.vocab_size, config.embedding_size)
        if config.absolute_positions or config.mask_decoder:
            self.positions = embedding_table(config.max_positions, config.embedding_size)
        if config.num_token_types:
            self.token_types = embedding_table(config.num_token_types, config.embedding_size)
        same_size = config.embedding_size == config.hidden_size
        self.projection = (
            nn.Identity() if same_size else nn.Linear(config.embedding_size, config.hidden_size, bias=False)
        )
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps)

    def forward(
        self,
        input_ids_BT: Tensor,
        position_ids_BT: Tensor | None,
        token_type_ids_BT: Tensor | None,
        variation: Variation,
    ) -> Tensor:
        """Returns [B, T, D]. Positions default to 0, 1, 2, ..., token types to 0."""
        x_BTE = variation.embed(self.words(input_ids_BT))
        if self.adds_positions:
            x_BTE = x_BTE + self.position_embeddings(input_ids_BT, position_ids_BT)
        if hasattr(self, "token_types"):
            no_types = token_type_ids_BT is None
            x_BTE = x_BTE + (self.token_types.weight[0] if no_types else self.token_types(token_type_ids_BT))
        return torch.as_tensor(self.norm(self.projection(x_BTE)))

    def position_embeddings(self, input_ids_BT: Tensor, position_ids_BT: Tensor | None) -> Tensor:
        """Returns the embeddings of the absolute positions [B, T, E], or [T, E] without position ids."""
        if position_ids_BT is None:
            return self.positions.weight[: input_ids_BT.shape[1]]
        return torch.as_tensor(self.positions(position_ids_BT))


class DebertaLayer(Layer):
    """A post-norm layer with disentangled attention and, in the first layer of version 2, a convolution."""

    convolution: nn.Conv1d
    convolution_norm: nn.LayerNorm

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        has_own_matrices = not config.shared_position_keys  # else the layer's own qkv projects the distances
        for name, is_used in (
            ("position_keys", config.content_to_position),
            ("position_queries", config.position_to_content),
        ):
            if has_own_matrices and is_used:
                self.add_module(name, nn.Linear(config.hidden_size, config.hidden_size))

    def projected(
        self, q: Tensor, distances_RD: Tensor, index_L: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Returns the scaled queries [H, B, T, K], and the distances projected for queries and keys.

        The distances are [H, K, L] or None; see `_scores`.

        Args:
            q: Queries [H, B, T, K].
            distances_RD: Distance embeddings.
            index_L: The row of each distance, in descending order of distance.
        """
        config, D = self.config, self.config.hidden_size
        projections: list[Tensor | None] = []
        for is_used, name, offset in (
            (config.content_to_position, "position_keys", D),
            (config.position_to_content, "position_queries", 0),
        ):
            if not is_used:
                projections.append(None)
            elif config.shared_position_keys:
                weight, bias = (x[offset : offset + D] for x in (self.qkv.weight, self.qkv.bias))
                projections.append(F.linear(distances_RD, weight, bias))
            else:
                projections.append(self.get_submodule(name)(distances_RD))
        H, terms = config.num_heads, 1 + config.content_to_position + config.position_to_content
        scale = 1 / math.sqrt(q.shape[-1] * terms)
        by_query, by_key = (
            None if x is None else x[index_L].view(-1, H, q.shape[-1]).permute(1, 2, 0) for x in projections
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
            x_BTD: States for keys and values, and also for the queries unless `queries_BTD` is passed.
            mask_B1TT: Where attention is allowed, or None.
            distances_RD: Distance embeddings.
            index_L: The row of each distance, in descending order of distance.
            queries_BTD: Other states for the queries, to which the layer's output is added.
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
            rate = config.attention_dropout if training else 0.0
            context = attend(q, k, v, positions, mask_BTT=mask_BTT, dropout=rate)
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
        T, reach = x_BTD.shape[1], self.config.convolution // 2
        padded = F.pad(input_BTD, (0, 0, reach, reach))
        parts = []
        for offset in range(-reach, reach + 1):
            part = padded[:, reach + offset : reach + offset + T]
            if mask_B1TT is not None and offset:  # the kernel does not reach across the edge of a document
                allowed = mask_B1TT[:, 0].diagonal(offset, dim1=-2, dim2=-1)
                part = part * F.pad(allowed, (max(-offset, 0), max(offset, 0)))[..., None]
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
        self.relative_positions = embedding_table(2 * config.num_distances, config.hidden_size)
        self.relative_norm = _norm(config) if config.norm_distances else nn.Identity()
        self.layers = nn.ModuleList(DebertaLayer(config) for _ in range(config.num_layers))
        if config.convolution:
            first_layer = self.layers[0]
            assert isinstance(first_layer, DebertaLayer)
            first_layer.convolution = nn.Conv1d(config.hidden_size, config.hidden_size, config.convolution)
            first_layer.convolution_norm = _norm(config)

    @override
    def share_embeddings(self, other: Encoder, *, table_only: bool) -> None:
        assert isinstance(other, DebertaEncoder)
        self.embeddings.words = other.embeddings.words
        if not table_only and self.config.hidden_size == other.config.hidden_size:
            self.embeddings.norm = other.embeddings.norm

    def distances(self, length: int) -> tuple[Tensor, Tensor]:
        """Returns the distance embeddings [R, D], and each distance's row [L], in descending order.

        `length` is the number of tokens in a row, padding included.
        """
        rows_RD, device = self.relative_positions.weight, self.relative_positions.weight.device
        distances = torch.arange(length - 1, -length, -1, device="cpu")
        index_L = buckets(distances, self.config)
        if not torch.compiler.is_exporting():  # an exported graph has no fixed length: it keeps all rows
            first_row, last_row = int(index_L[-1]), int(index_L[0])
            rows_RD, index_L = rows_RD[first_row : last_row + 1], index_L - first_row
        return torch.as_tensor(self.relative_norm(rows_RD)), index_L.to(device)

    @override
    def attention_weights(self, index: int, qkv_BTX: Tensor, mask_B1TT: Tensor | None) -> Tensor:
        B, T, _ = qkv_BTX.shape
        q, k, _ = qkv_BTX.view(B, T, 3, self.config.num_heads, -1).permute(2, 3, 0, 1, 4)
        layer = self.layers[index]
        assert isinstance(layer, DebertaLayer)
        q, *positions = layer.projected(q, *self.distances(T))
        mask_BTT = None if mask_B1TT is None else mask_B1TT[:, 0]
        return _masked(_gathered(q, k, *positions), mask_BTT).softmax(-1).transpose(0, 1)

    @override
    def embed(
        self, ids: Tensor, positions: Tensor | None, types: Tensor | None, variation: Variation
    ) -> Tensor:
        return dropout(self.embeddings(ids, positions, types, variation), self.config.dropout, self.training)

    @override
    def context(self, mask_B1TT: Tensor | None, input_ids: Tensor, position_ids: Tensor | None) -> Any:
        """Returns the arguments of every layer, and the embeddings that the mask decoder adds (or None)."""
        length = input_ids.shape[1]
        padding = 0 if torch.compiler.is_exporting() else -length % block_size(length, input_ids.device)
        position_embeddings = None
        if self.config.mask_decoder:
            position_embeddings = self.embeddings.projection(
                self.embeddings.position_embeddings(input_ids, position_ids)
            )
        return (mask_B1TT, *self.distances(length + padding)), position_embeddings

    @override
    def run_layer(self, index: int, states_BTD: Tensor, context: Any) -> Tensor:
        layer, (arguments, position_embeddings) = self.layers[index], context
        if position_embeddings is None or index < len(self.layers) - 1:
            return torch.as_tensor(layer(states_BTD, *arguments))
        # The enhanced mask decoder: the last layer runs twice, with queries from states plus positions.
        queries_BTD = states_BTD + position_embeddings
        for _ in range(2):
            queries_BTD = layer(states_BTD, *arguments, queries_BTD)
        return torch.as_tensor(queries_BTD)


def _norm(config: EncoderConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.hidden_size, eps=config.norm_eps)
