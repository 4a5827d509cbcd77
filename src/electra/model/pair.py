"""The networks of a run as modules, and their shared weights (Clark et al. 2020, section 3.2).

    main        the full-size network that the training is for: a discriminator or a masked language model
    auxiliary   a small masked language model that corrupts the main one's input; not in every objective
    frozen      used but never trained: for example a teacher

An objective may add small modules of its own, such as a copy gate or a baseline (`heads`). They are never
exported.

`sharing` selects the weights that the main and the auxiliary network have in common:
    none          no weights
    token         the token embeddings
    embeddings    token, position and type embeddings with their norm, as in the published code (default)
    all           the whole encoder; both must have the same size
    disentangled  the token embeddings, trained by the auxiliary network alone; the main one learns a
                  difference to them (model/token_table.py)
"""

import math
from collections.abc import Callable, Mapping
from typing import Literal, Self

import torch
from torch import Tensor, nn

from electra.artifacts.network_names import NAMES, ORDER, Head
from electra.foundation.errors import ConfigError
from electra.foundation.seeds import key
from electra.foundation.terminal_text import with_article
from electra.model.adapted import AdaptedEncoder
from electra.model.encoder import ElectraEncoder, Encoder, embedding_table
from electra.model.heads import DiscriminatorHead, GeneratorHead
from electra.model.modern import ModernEncoder, ProjectedTable
from electra.model.networks import Network, Networks
from electra.model.sizes import Architecture, EncoderConfig
from electra.model.token_table import DisentangledTable

ENCODERS: dict[Architecture, Callable[[EncoderConfig], Encoder]] = {
    "electra": ElectraEncoder,
    "modern": ModernEncoder,
    "transformers": AdaptedEncoder,
}
Sharing = Literal["none", "token", "embeddings", "all", "disentangled"]
Initialisation = Literal["paper", "reference", "fan_in"]


class Generator(nn.Module):
    """A masked language model: the auxiliary network or, as the main network, the BERT baseline."""

    def __init__(self, encoder: Encoder, head: GeneratorHead | None = None) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head or GeneratorHead(encoder.config)

    def logits(self, hidden_ND: Tensor) -> Tensor:
        """Returns token logits [N, V] for hidden states [N, D], usually those of masked positions only."""
        logits: Tensor = self.head(hidden_ND, self.encoder.token_table())
        return logits


class Discriminator(nn.Module):
    """An encoder with a head for replaced token detection."""

    def __init__(self, encoder: Encoder, head: DiscriminatorHead | None = None) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head or DiscriminatorHead(encoder.config)

    def logits(self, hidden_BTD: Tensor) -> Tensor:
        """Returns log-odds [B, T] that each token was replaced."""
        logits: Tensor = self.head(hidden_BTD)
        return logits


class EncoderAlone(nn.Module):
    """An encoder without a head, such as a teacher of which only the states are used."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder


AnyNetwork = Generator | Discriminator | EncoderAlone


class Pair(nn.Module):
    """The networks of one run; `state_dict` contains them under their names (`artifacts/network_names.py`).

    The training is for `main`, and `auxiliary` is the generator that corrupts its input. The objective may
    add `heads`, `others` that are trained, and `frozen` ones: these move to another device or number format
    with the rest, but they are neither among the parameters nor in `state_dict`.
    """

    def __init__(
        self,
        main: Generator | Discriminator,
        auxiliary: Generator | None = None,
        heads: Mapping[str, nn.Module] | None = None,
        others: Mapping[str, Generator | Discriminator] | None = None,
        frozen: Mapping[str, AnyNetwork] | None = None,
    ) -> None:
        super().__init__()
        self.main_kind: Head = "discriminator" if isinstance(main, Discriminator) else "generator"
        networks = dict(zip(NAMES[self.main_kind], (main, auxiliary), strict=True))
        for name in ORDER:
            if name in networks:
                self.add_module(name, networks[name])
        for name, network in (others or {}).items():
            self.add_module(name, network)
        self.heads = nn.ModuleDict(dict(heads or {}))
        self.frozen = {name: network.eval().requires_grad_(False) for name, network in (frozen or {}).items()}

    @property
    def main(self) -> Generator | Discriminator:
        """The network that the training is for."""
        main = self._modules[NAMES[self.main_kind][0]]
        assert isinstance(main, Generator | Discriminator)
        return main

    @property
    def auxiliary(self) -> Generator | None:
        """The generator that corrupts the main network's input, if the objective has one."""
        auxiliary = self._modules[NAMES[self.main_kind][1]]
        assert auxiliary is None or isinstance(auxiliary, Generator)
        return auxiliary

    @property
    def named(self) -> dict[str, Generator | Discriminator]:
        """The trained networks by name."""
        children = self.named_children()
        return {name: child for name, child in children if isinstance(child, Generator | Discriminator)}

    def own_parameters(self, network: nn.Module) -> dict[nn.Parameter, None]:
        """Returns, as keys in order, the parameters of `network` that it does not share with the main one."""
        shared = {id(parameter) for parameter in self.main.parameters()}
        return dict.fromkeys(parameter for parameter in network.parameters() if id(parameter) not in shared)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        for network in self.frozen.values():
            network._apply(fn, recurse)  # type: ignore[no-untyped-call]
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self


def build_encoder(config: EncoderConfig) -> Encoder:
    """Builds an uninitialised encoder."""
    return ENCODERS[config.architecture](config)


NETWORKS: dict[Head, Callable[[Encoder], AnyNetwork]] = {
    "discriminator": Discriminator,
    "generator": Generator,
    "encoder": EncoderAlone,
}


def build_network(row: Network) -> AnyNetwork:
    """Builds an uninitialised network whose shape is known."""
    return NETWORKS[row.head](build_encoder(row.config))


def build_networks(
    networks: Networks,
    *,
    heads: Mapping[str, nn.Module] | None = None,
    frozen: Mapping[str, AnyNetwork] | None = None,
    sharing: Sharing = "embeddings",
    seed: int = 0,
    initialisation: Initialisation = "paper",
) -> Pair:
    """Builds networks with random weights, which depend only on the seed and each parameter's name.

    Frozen networks of the table are passed in `frozen`. `sharing` names the weights that the main and the
    auxiliary network have in common.
    """
    built: dict[str, Generator | Discriminator] = {}
    for row in networks.trained:
        network = build_network(row)
        assert not isinstance(network, EncoderAlone)
        built[row.name] = network
    main_row = next(row for row in networks.rows if row.role == "main")
    auxiliary = built.pop(NAMES[main_row.head][1], None)
    assert auxiliary is None or isinstance(auxiliary, Generator)
    pair = Pair(built.pop(main_row.name), auxiliary, heads, built, frozen)
    initialise(pair, seed, initialisation)
    if pair.auxiliary is not None:
        share(pair.auxiliary, pair.main, sharing)
        initialise_projection(pair.auxiliary.encoder, seed)
    return pair


def share(auxiliary: Generator, main: Generator | Discriminator, sharing: Sharing) -> None:
    """Makes `auxiliary` use weights of `main`, as `sharing` says; ConfigError if the shapes do not fit."""
    if sharing == "none":
        return
    mine, theirs = auxiliary.encoder, main.encoder
    architectures = [encoder.config.architecture for encoder in (mine, theirs)]
    if isinstance(theirs, AdaptedEncoder) and isinstance(mine, ElectraEncoder):
        if sharing == "all" or theirs.token_table().shape != mine.token_table().shape:
            problem = "the two networks share no more than a token table"
            raise ConfigError(problem, key="model.sharing", fix="Set `model.sharing` to token or none")
        mine.set_words(theirs.words)
    elif len(set(architectures)) > 1 or isinstance(mine, AdaptedEncoder):
        # the models that they start from, or one of them and the recipe
        given, needed = map(with_article, architectures)
        problem = f"the generator is {given} encoder and the discriminator {needed} one"
        fix = "Set `model.sharing` to none, or start both from the same architecture"
        raise ConfigError(f"{problem}; they cannot share embeddings", key="model.sharing", fix=fix)
    elif sharing != "all":
        mine.share_embeddings(theirs, table_only=sharing != "embeddings")
    elif mine.config == theirs.config:
        auxiliary.encoder = theirs
    else:
        problem = "sharing all weights requires a generator of the discriminator's size"
        fix = "Set `model.generator_width` and `model.generator_depth` to 1.0, or share less"
        raise ConfigError(problem, key="model.sharing", fix=fix)
    if sharing == "disentangled":
        theirs.set_words(DisentangledTable(theirs.words))


@torch.no_grad()
def merge_token_table(encoder: Encoder) -> None:
    """Replaces a disentangled token table with a plain one of the same values; does nothing to others."""
    if isinstance(encoder.words, DisentangledTable):
        plain = embedding_table(*encoder.token_table().shape)
        plain.weight.copy_(encoder.token_table())
        encoder.set_words(plain)


def initialise(module: nn.Module, seed: int, initialisation: Initialisation) -> None:
    """Initialises every parameter: biases with 0, the weights of norms with 1, matrices at random.

    Each matrix has a random key of its own, so that the weights do not depend on the order of building.

        paper      normal with standard deviation 0.02, truncated at two deviations (BERT)
        reference  the same, but Glorot-uniform where the published code used TensorFlow's default layers: the
                   embedding projection and the discriminator's last layer
        fan_in     as `paper`, but with standard deviation 1/sqrt(inputs), divided by sqrt(2 x layers) in the
                   last matrix of each residual branch; embedding tables as in `paper`
    """
    encoders = {name: each for name, each in module.named_modules() if isinstance(each, Encoder)}
    num_layers = {name: encoder.config.num_layers for name, encoder in encoders.items()}
    for name, parameter in module.named_parameters():
        rng = torch.Generator().manual_seed(key(seed, f"init/{name}"))
        with torch.no_grad():
            if parameter.dim() < 2:
                parameter.fill_(1.0 if "norm" in name.lower() and name.endswith("weight") else 0.0)
            elif initialisation == "reference" and name.endswith(
                ("encoder.projection.weight", "head.prediction.weight")
            ):
                nn.init.xavier_uniform_(parameter, generator=rng)
            else:
                std = 0.02 if initialisation != "fan_in" else _fan_in_std(name, parameter, num_layers)
                nn.init.trunc_normal_(parameter, std=std, a=-2 * std, b=2 * std, generator=rng)


def initialise_projection(encoder: Encoder, seed: int) -> None:
    """Draws the projection of a projected table, if any, so that the result has its source's scale."""
    if isinstance(encoder.words, ProjectedTable):
        weight = encoder.words.projection.weight
        rng = torch.Generator().manual_seed(key(seed, "init/generator.encoder.tokens.projection.weight"))
        nn.init.normal_(weight, std=weight.shape[1] ** -0.5, generator=rng)


def _fan_in_std(name: str, parameter: nn.Parameter, num_layers: dict[str, int]) -> float:
    if any(part in name for part in ("words", "positions", "token_types", "tokens", "embeddings")):
        return 0.02
    std = float(parameter.shape[1] ** -0.5)
    encoder, _, name_in_layer = name.partition(".layers.")
    if name_in_layer.endswith(("attention_output.weight", ".output.weight")):
        std /= math.sqrt(2 * num_layers[encoder])
    return std
