"""The networks of a run as modules, and what they share (Clark et al. 2020, section 3.2).

    main        of the full size: what the training is for, a discriminator or a masked language model
    auxiliary   a small masked language model that writes what the main one reads; not every objective has one
    frozen      read from and never trained: a teacher, say

An objective may add small modules of its own (`heads`: a copy gate, a baseline), which are never exported.

`sharing` says which weights are one and the same:
    none          nothing
    token         the token embeddings
    embeddings    token, position and type embeddings with their norm, as in the published code (default)
    all           the whole encoder; both must have one size
    disentangled  the token embeddings, which the auxiliary network alone trains; the main one learns a
                  difference to them (model/token_table.py)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from electra.artifacts.networks import NAMES, ORDER, Head
from electra.foundation.errors import ConfigError
from electra.foundation.seeds import key
from electra.model.deberta import DebertaEncoder
from electra.model.encoder import ElectraEncoder, Encoder
from electra.model.heads import HEADS, DiscriminatorHead, GeneratorHead
from electra.model.modern import ModernEncoder, ProjectedTable, TokenTable
from electra.model.networks import Network, Networks
from electra.model.sizes import Architecture, EncoderConfig
from electra.model.token_table import DisentangledTable

ENCODERS: dict[Architecture, Callable[[EncoderConfig], Encoder]] = {
    "electra": ElectraEncoder,
    "modern": ModernEncoder,
    "deberta": DebertaEncoder,
}
Sharing = Literal["none", "token", "embeddings", "all", "disentangled"]
Initialisation = Literal["paper", "reference", "fan_in"]


class Generator(nn.Module):
    """A masked language model: the auxiliary network, or as the main one the BERT baseline."""

    def __init__(self, encoder: Encoder, head: GeneratorHead | None = None) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head or GeneratorHead(encoder.config)

    def logits(self, hidden_ND: Tensor) -> Tensor:
        """Token logits [N, V] at the hidden states given: pass the masked positions only."""
        logits: Tensor = self.head(hidden_ND, self.encoder.token_table())
        return logits


class Discriminator(nn.Module):
    def __init__(self, encoder: Encoder, head: DiscriminatorHead | None = None) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head or HEADS[encoder.config.architecture](encoder.config)

    def logits(self, hidden_BTD: Tensor, position_ids_BT: Tensor | None = None) -> Tensor:
        """Log-odds [B, T] that each token was replaced. position_ids_BT: where rows hold several
        documents.
        """
        logits: Tensor = self.head(hidden_BTD, position_ids_BT)
        return logits


class Pair(nn.Module):
    """The networks of one run. In `state_dict` they go by their names (`artifacts/networks.py`).

    `frozen` ones follow to another device or number format, and are no part of parameters and weights.
    """

    def __init__(
        self,
        main: Generator | Discriminator,
        auxiliary: Generator | None = None,
        heads: Mapping[str, nn.Module] | None = None,
        others: Mapping[str, Generator | Discriminator] | None = None,
        frozen: Mapping[str, Generator | Discriminator] | None = None,
    ) -> None:
        super().__init__()
        self.main_is: Head = "discriminator" if isinstance(main, Discriminator) else "generator"
        named = dict(zip(NAMES[self.main_is], (main, auxiliary), strict=True))
        for name in ORDER:
            if name in named:
                self.add_module(name, named[name])
        for name, network in (others or {}).items():
            self.add_module(name, network)
        self.heads = nn.ModuleDict(dict(heads or {}))
        self.frozen = {name: network.eval().requires_grad_(False) for name, network in (frozen or {}).items()}

    @property
    def main(self) -> Generator | Discriminator:
        main = self._modules[NAMES[self.main_is][0]]
        assert isinstance(main, Generator | Discriminator)
        return main

    @property
    def auxiliary(self) -> Generator | None:
        auxiliary = self._modules[NAMES[self.main_is][1]]
        assert auxiliary is None or isinstance(auxiliary, Generator)
        return auxiliary

    @property
    def named(self) -> dict[str, Generator | Discriminator]:
        """The networks that are trained, by name."""
        children = self.named_children()
        return {name: child for name, child in children if isinstance(child, Generator | Discriminator)}

    def own_parameters(self, network: nn.Module) -> dict[nn.Parameter, None]:
        """The weights of a network that the main one lacks, in order."""
        shared = {id(parameter) for parameter in self.main.parameters()}
        return dict.fromkeys(parameter for parameter in network.parameters() if id(parameter) not in shared)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Pair:
        for network in self.frozen.values():
            network._apply(fn, recurse)  # type: ignore[no-untyped-call]
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self


def build_encoder(config: EncoderConfig) -> Encoder:
    return ENCODERS[config.architecture](config)


def build_network(row: Network) -> Generator | Discriminator:
    kind: type[Discriminator | Generator] = Discriminator if row.head == "discriminator" else Generator
    return kind(build_encoder(row.config))


def build_networks(
    networks: Networks,
    *,
    heads: Mapping[str, nn.Module] | None = None,
    frozen: Mapping[str, Generator | Discriminator] | None = None,
    sharing: Sharing = "embeddings",
    seed: int = 0,
    initialisation: Initialisation = "paper",
) -> Pair:
    """The networks with fresh weights, which depend on the seed and on each parameter's name only."""
    built = {row.name: build_network(row) for row in networks.trained}
    main = next(row for row in networks.rows if row.role == "main")
    auxiliary = built.pop(NAMES[main.head][1], None)
    assert auxiliary is None or isinstance(auxiliary, Generator)
    pair = Pair(built.pop(main.name), auxiliary, heads, built, frozen)
    initialise(pair, seed, initialisation)
    if pair.auxiliary is not None:
        share(pair.auxiliary, pair.main, sharing)
        initialise_projection(pair.auxiliary.encoder, seed)
    return pair


def build_pair(
    main: EncoderConfig,
    auxiliary: EncoderConfig | None = None,
    *,
    main_is: Head = "discriminator",
    **how: Any,
) -> Pair:
    """Main and auxiliary network alone, as `build_networks`."""
    return build_networks(Networks.pair(main, auxiliary, main_is), **how)


def share(auxiliary: Generator, main: Generator | Discriminator, sharing: Sharing) -> None:
    """Make the auxiliary network use weights of the main one, as far as `sharing` says."""
    mine, theirs = auxiliary.encoder, main.encoder
    if sharing == "none":
        return
    if sharing == "all":
        if mine.config != theirs.config:
            raise ConfigError(
                "sharing all weights needs a generator of the discriminator's size",
                key="model.sharing",
                fix="Set model.generator_width and model.generator_depth to 1.0, or share less",
            )
        auxiliary.encoder = theirs
    else:
        mine.share_embeddings(theirs, table_only=sharing != "embeddings")
        if sharing == "disentangled" and isinstance(theirs, ModernEncoder):
            theirs.tokens = DisentangledTable(theirs.tokens)
        elif sharing == "disentangled" and isinstance(theirs, ElectraEncoder):
            theirs.embeddings.words = DisentangledTable(theirs.embeddings.words)


@torch.no_grad()
def fold(encoder: Encoder) -> None:
    """Give an encoder a token table of its own where its table is a sum with another network's."""
    table = encoder.token_table()
    if isinstance(encoder, ModernEncoder) and isinstance(encoder.tokens, DisentangledTable):
        encoder.tokens = TokenTable(*table.shape)
        encoder.tokens.weight.copy_(table)
    elif isinstance(encoder, ElectraEncoder) and isinstance(encoder.embeddings.words, DisentangledTable):
        encoder.embeddings.words = nn.Embedding(*table.shape)
        encoder.embeddings.words.weight.copy_(table)


def initialise(module: nn.Module, seed: int, initialisation: Initialisation) -> None:
    """Fill every parameter from its own key, so that no weight depends on the order of construction.

    paper:      normal 0.02, cut at two deviations (BERT).
    reference:  the same, but Glorot-uniform where the published code used TensorFlow's default layers: the
                embedding projection and the discriminator's last layer.
    fan_in:     normal 1/sqrt(inputs), each residual branch's last matrix divided by sqrt(2 x layers); token
        table normal 0.02.
    """
    num_layers = {
        name: inner.config.num_layers for name, inner in module.named_modules() if isinstance(inner, Encoder)
    }
    for name, parameter in module.named_parameters():
        draw = torch.Generator().manual_seed(key(seed, f"init/{name}"))
        with torch.no_grad():
            if parameter.dim() < 2:
                parameter.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)
            elif initialisation == "reference" and name.endswith(
                ("encoder.projection.weight", "head.prediction.weight")
            ):
                nn.init.xavier_uniform_(parameter, generator=draw)
            else:
                std = 0.02 if initialisation != "fan_in" else _fan_in_std(name, parameter, num_layers)
                nn.init.trunc_normal_(parameter, std=std, a=-2 * std, b=2 * std, generator=draw)


def initialise_projection(encoder: Encoder, seed: int) -> None:
    """A projected table keeps the scale of the table it projects."""
    if isinstance(encoder, ModernEncoder) and isinstance(encoder.tokens, ProjectedTable):
        weight = encoder.tokens.projection.weight
        draw = torch.Generator().manual_seed(key(seed, "init/generator.encoder.tokens.projection.weight"))
        nn.init.normal_(weight, std=weight.shape[1] ** -0.5, generator=draw)


def _fan_in_std(name: str, parameter: nn.Parameter, num_layers: dict[str, int]) -> float:
    if any(part in name for part in ("words", "positions", "token_types", "tokens")):
        return 0.02
    std = float(parameter.shape[1] ** -0.5)
    encoder, _, inner = name.partition(".layers.")
    if inner.endswith(("attention_output.weight", ".output.weight")):
        std /= math.sqrt(2 * num_layers[encoder])
    return std
