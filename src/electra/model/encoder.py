"""The paper's encoder: a post-norm transformer with factorised embeddings (Clark et al. 2020, section 3.1).

Weight-compatible with transformers' `ElectraModel` (exchange/weight_names.py maps the names); here one matrix
computes queries, keys and values. Shapes: B batch, T tokens, D hidden, E embedding, H heads, K head size,
V vocabulary.
"""

import re
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from electra.model.attention import attend, attention_mask
from electra.model.dropout import dropout
from electra.model.sizes import EncoderConfig


class Variation:
    """An experiment's changes to an encoder's forward pass; this base class changes nothing."""

    def embed(self, words_BTE: Tensor) -> Tensor:
        """Returns the embeddings [B, T, E] to use instead of those of the tokens."""
        return words_BTE

    def limit_attention(self, mask_B1TT: Tensor | None, input_ids_BT: Tensor) -> Tensor | None:
        """Returns bool [B or 1, 1, T, T], true where attention is allowed; None: everywhere."""
        return mask_B1TT

    def observe(self, states_BTD: Tensor) -> None:
        """Called with the states that enter the first layer, then with those that leave each layer."""


PLAIN = Variation()
LAYER = re.compile(r"\blayers?\.(\d+)\.")  # in the name of a layer's parameter


class Encoder(nn.Module):
    """The base class of all encoders: embeddings, then layers."""

    WORDS: ClassVar[str]  # the submodule with the token embeddings
    config: EncoderConfig
    layers: nn.ModuleList

    def embed(self, ids: Tensor, positions: Tensor | None, types: Tensor | None, variation: Variation) -> Tensor:
        """Returns the states [B, T, D] that enter the first layer; the arguments are those of `forward`.

        An encoder that replaces `forward` itself, such as an ONNX graph, does not need it.
        """
        raise NotImplementedError

    def context(self, mask_B1TT: Tensor | None, input_ids: Tensor, position_ids: Tensor | None) -> Any:
        """Returns what `run_layer` needs besides the states: in this class, the attention mask alone."""
        return mask_B1TT

    def run_layer(self, index: int, states_BTD: Tensor, context: Any) -> Tensor:
        """Returns the states [B, T, D] that leave a layer."""
        states_BTD = self.layers[index](states_BTD, context)
        return states_BTD

    def finish(self, states_BTD: Tensor) -> Tensor:
        """Returns the encoder's output, from the states that leave the last layer."""
        return states_BTD

    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor | None = None,
        document_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        variation: Variation = PLAIN,
    ) -> Tensor:
        """Returns the last layer's states [B, T, D]; ids are [B, T].

        Positions default to 0, 1, 2, ... in every row, token types to 0 (encoders without them ignore them).
        `document_ids` are those of the documents that share a row, -1 at padding: tokens attend to tokens
        with the same id (default: to all tokens of the row). `variation`: an experiment's changes.
        """
        mask_B1TT = variation.limit_attention(attention_mask(document_ids), input_ids)
        states_BTD = self.embed(input_ids, position_ids, token_type_ids, variation)
        variation.observe(states_BTD)
        context = self.context(mask_B1TT, input_ids, position_ids)
        for index in range(len(self.layers)):
            states_BTD = self.run_layer(index, states_BTD, context)
            variation.observe(states_BTD)
        return self.finish(states_BTD)

    def first_state(self, input_ids: Tensor, document_ids: Tensor | None, types: Tensor | None) -> Tensor:
        """Returns the last layer's state of each row's first token [B, 1, D]; arguments as for `forward`."""
        return self(input_ids, document_ids=document_ids, token_type_ids=types)[:, :1]  # type: ignore[no-any-return]

    @property
    def words(self) -> nn.Module:
        """The module whose `weight` is the token embeddings."""
        return self.get_submodule(self.WORDS)

    def set_words(self, words: nn.Module) -> None:
        """Replaces the module of the token embeddings."""
        self.set_submodule(self.WORDS, words)

    def token_table(self) -> Tensor:
        """Returns the token embeddings [V, E], which the generator's head uses as its output layer."""
        weight = self.words.weight
        assert isinstance(weight, Tensor)
        return weight

    def share_embeddings(self, other: "Encoder", *, table_only: bool) -> None:
        """Makes this encoder use `other`'s embeddings: all of the same shape, or only the token table."""
        raise NotImplementedError

    def depth_of(self, name: str) -> int:
        """Returns a parameter's depth: 0 in the embeddings, n in layer n; a final norm's is the last."""
        if layer := LAYER.search(name):
            return int(layer[1]) + 1
        return self.config.num_layers if name.startswith("final_norm.") else 0


def embedding_table(rows: int, width: int) -> nn.Embedding:
    """Returns an uninitialised embedding; torch's own initialisation takes seconds on the meta device."""
    return nn.Embedding(rows, width, _weight=torch.empty(rows, width))


class Embeddings(nn.Module):
    """The normalised sum of word, position and token-type embeddings, all of size E."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.words: nn.Module = embedding_table(config.vocab_size, config.embedding_size)
        self.positions = embedding_table(config.max_positions, config.embedding_size)
        self.token_types = embedding_table(config.num_token_types, config.embedding_size)
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.norm_eps)

    def forward(
        self,
        input_ids_BT: Tensor,
        position_ids_BT: Tensor | None,
        token_type_ids_BT: Tensor | None,
        variation: Variation,
    ) -> Tensor:
        """Returns [B, T, E]. Positions default to 0, 1, 2, ..., token types to 0."""
        length = input_ids_BT.shape[1]
        words = variation.embed(self.words(input_ids_BT))
        positions = self.positions.weight[:length] if position_ids_BT is None else self.positions(position_ids_BT)
        types = self.token_types.weight[0] if token_type_ids_BT is None else self.token_types(token_type_ids_BT)
        x_BTE: Tensor = self.norm(words + positions + types)
        return x_BTE


class Layer(nn.Module):
    """A post-norm transformer layer."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.config = config
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.attention_output = nn.Linear(hidden, hidden)
        self.attention_norm = nn.LayerNorm(hidden, eps=config.norm_eps)
        self.intermediate = nn.Linear(hidden, config.intermediate_size)
        self.output = nn.Linear(config.intermediate_size, hidden)
        self.output_norm = nn.LayerNorm(hidden, eps=config.norm_eps)

    def forward(self, x_BTD: Tensor, mask_B1TT: Tensor | None, first_only: bool = False) -> Tensor:
        """Returns [B, T, D], or what leaves at the first token [B, 1, D]."""
        config, training = self.config, self.training
        B, T, D = x_BTD.shape
        if first_only:
            weight, bias = self.qkv.weight, self.qkv.bias
            kv = F.linear(x_BTD, weight[D:], bias[D:]).view(B, T, 2, config.num_heads, -1)
            k, v = kv.permute(2, 0, 3, 1, 4)
            x_BTD, T = x_BTD[:, :1], 1
            q = F.linear(x_BTD, weight[:D], bias[:D]).view(B, T, config.num_heads, -1).transpose(1, 2)
            mask_B1TT = None if mask_B1TT is None else mask_B1TT[:, :, :1]
        else:
            # the gradient of a split is assembled in one pass, that of a permuted view in two
            parts = self.qkv(x_BTD).split(D, -1)
            q, k, v = (part.view(B, T, config.num_heads, -1).transpose(1, 2) for part in parts)
        context = attend(q, k, v, mask_B1TT, config.attention_dropout if training else 0.0)
        context = self.attention_output(context.transpose(1, 2).reshape(B, T, D))
        x_BTD = self.attention_norm(x_BTD + dropout(context, config.dropout, training))
        update = self.output(F.gelu(self.intermediate(x_BTD)))
        x_BTD = self.output_norm(x_BTD + dropout(update, config.dropout, training))
        return x_BTD


class ElectraEncoder(Encoder):
    """The paper's encoder."""

    WORDS = "embeddings.words"

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.projection = (
            nn.Linear(config.embedding_size, config.hidden_size)
            if config.embedding_size != config.hidden_size
            else nn.Identity()
        )
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_layers))

    @override
    def share_embeddings(self, other: Encoder, *, table_only: bool) -> None:
        assert isinstance(other, ElectraEncoder)
        if table_only:
            self.set_words(other.words)
        else:
            self.embeddings = other.embeddings

    @override
    def embed(self, ids: Tensor, positions: Tensor | None, types: Tensor | None, variation: Variation) -> Tensor:
        x_BTE = self.embeddings(ids, positions, types, variation)
        x_BTD: Tensor = self.projection(dropout(x_BTE, self.config.dropout, self.training))
        return x_BTD

    @override
    def first_state(self, input_ids: Tensor, document_ids: Tensor | None, types: Tensor | None) -> Tensor:
        mask_B1TT = attention_mask(document_ids)
        x_BTD = self.embed(input_ids, None, types, PLAIN)
        for layer in self.layers[:-1]:
            x_BTD = layer(x_BTD, mask_B1TT)
        x_B1D: Tensor = self.layers[-1](x_BTD, mask_B1TT, first_only=True)
        return x_B1D
