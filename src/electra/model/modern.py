"""The modern encoder: pre-norm, rotary positions, gated feed-forward, no biases.

Weight-compatible with transformers' `ModernBertModel` (Warner et al. 2024) and exported as such
(exchange/weight_names.py maps the names), so no remote code is needed. It exists because the paper's
post-norm network spends most of a small budget on a plateau (docs/decisions.md). In our own sizes, every
layer attends to all tokens; in published models only every third does, and the others attend to a window,
with another rotary base. Shapes: B batch, T tokens, D hidden, H heads, K head size, V vocabulary.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from electra.model.attention import attend, rotary_table, rotate, windowed_mask
from electra.model.dropout import dropout
from electra.model.encoder import Encoder, Variation, embedding_table
from electra.model.sizes import EncoderConfig


class ProjectedTable(nn.Module):
    """A projection of another network's table: lets a narrow generator share the discriminator's embeddings.

    ModernBERT has no factorised embeddings, so the projected table is exported as the generator's own.
    """

    def __init__(self, source: nn.Module, hidden_size: int) -> None:
        super().__init__()
        assert isinstance(source, nn.Embedding)
        self.source = source
        self.projection = nn.Linear(source.weight.shape[1], hidden_size, bias=False)

    @property
    def weight(self) -> Tensor:
        """The projected embeddings [V, D'], named as in `nn.Embedding`."""
        return F.linear(self.source.weight, self.projection.weight)

    def forward(self, ids: Tensor) -> Tensor:
        """Returns embeddings [..., D'] of ids [...]."""
        return F.embedding(ids, self.weight)


class ModernLayer(nn.Module):
    """A pre-norm layer with rotary attention and a gated feed-forward network."""

    def __init__(self, config: EncoderConfig, first: bool) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.config = config
        # The embeddings are normalised already, so the first layer's norm is the identity.
        self.attention_norm = nn.Identity() if first else _norm(config)
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.attention_output = nn.Linear(hidden, hidden, bias=False)
        self.mlp_norm = _norm(config)
        # the first half of its output is activated, the second is the gate
        self.gated = nn.Linear(hidden, 2 * config.intermediate_size, bias=False)
        self.output = nn.Linear(config.intermediate_size, hidden, bias=False)

    def forward(self, x_BTD: Tensor, mask_B1TT: Tensor | None, cos: Tensor, sin: Tensor) -> Tensor:
        """Returns [B, T, D]. `cos` and `sin` broadcast to [B, H, T, K]."""
        config, training = self.config, self.training
        B, T, D = x_BTD.shape
        qkv = self.qkv(self.attention_norm(x_BTD)).view(B, T, 3, config.num_heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
        context = attend(q, k, v, mask_B1TT, config.attention_dropout if training else 0.0)
        context = self.attention_output(context.transpose(1, 2).reshape(B, T, D))
        # As in ModernBERT, dropout on the attention's output has the rate of the attention, not of the layer.
        x_BTD = x_BTD + dropout(context, config.attention_dropout, training)
        activated, gate = self.gated(self.mlp_norm(x_BTD)).chunk(2, dim=-1)
        x_BTD = x_BTD + self.output(dropout(F.gelu(activated) * gate, config.dropout, training))
        return x_BTD


class ModernEncoder(Encoder):
    """The modern encoder, with attention to all tokens or, in some layers, to a window."""

    WORDS = "tokens"

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens: nn.Module = embedding_table(config.vocab_size, config.hidden_size)
        self.embedding_norm = _norm(config)
        self.layers = nn.ModuleList(ModernLayer(config, first=i == 0) for i in range(config.num_layers))
        self.final_norm = _norm(config)
        self.cos: Tensor
        self.sin: Tensor
        self.window_cos: Tensor
        self.window_sin: Tensor
        head_size = config.hidden_size // config.num_heads
        for prefix, theta in (("", config.rope_theta), ("window_", config.window_theta)):
            if not prefix or config.global_every > 1:
                cos, sin = rotary_table(config.max_positions, head_size, theta)
                self.register_buffer(f"{prefix}cos", cos, persistent=False)
                self.register_buffer(f"{prefix}sin", sin, persistent=False)

    @override
    def share_embeddings(self, other: Encoder, *, table_only: bool) -> None:
        assert isinstance(other, ModernEncoder)
        same_width = self.config.hidden_size == other.config.hidden_size
        self.tokens = other.tokens if same_width else ProjectedTable(other.tokens, self.config.hidden_size)
        if same_width and not table_only:  # a norm of another width cannot be shared
            self.embedding_norm = other.embedding_norm

    def is_local(self, index: int) -> bool:
        """Whether a layer attends to a window instead of all tokens."""
        return index % self.config.global_every > 0

    @override
    def embed(self, ids: Tensor, positions: Tensor | None, types: Tensor | None, variation: Variation) -> Tensor:
        words_BTD = variation.embed(self.words(ids))
        return dropout(self.embedding_norm(words_BTD), self.config.dropout, self.training)

    @override
    def context(self, mask_B1TT: Tensor | None, input_ids: Tensor, position_ids: Tensor | None) -> Any:
        """Returns the mask, cosines and sines of layers without a window and, if there are any, with one.

        The cosines and sines of the rotary positions are [T, K] or, with `position_ids`, [B, 1, T, K].
        """
        length = input_ids.shape[1]
        found = [(mask_B1TT, self.cos, self.sin)]
        if self.config.global_every > 1:
            mask_B1TT = windowed_mask(mask_B1TT, self.config.window, length, input_ids.device)
            found.append((mask_B1TT, self.window_cos, self.window_sin))
        if position_ids is None:
            return [(mask, cos[:length], sin[:length]) for mask, cos, sin in found]
        return [(mask, cos[position_ids].unsqueeze(1), sin[position_ids].unsqueeze(1)) for mask, cos, sin in found]

    @override
    def run_layer(self, index: int, states_BTD: Tensor, context: Any) -> Tensor:
        states_BTD = self.layers[index](states_BTD, *context[self.is_local(index)])
        return states_BTD

    @override
    def finish(self, states_BTD: Tensor) -> Tensor:
        return torch.as_tensor(self.final_norm(states_BTD))


def _norm(config: EncoderConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.hidden_size, eps=config.norm_eps, bias=False)
