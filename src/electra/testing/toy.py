"""A toy world for tests: a token store in memory whose text has structure to learn, and fast recipes."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from electra import objectives
from electra.data.corpus.batches import Batches
from electra.data.corpus.store import TokenDocuments, TokenStore
from electra.data.corpus.tokenizer_folder import Specials
from electra.foundation.config import merge
from electra.foundation.extensions import OBJECTIVES
from electra.model.networks import Networks
from electra.model.pair import Pair, build_network, build_networks, initialise
from electra.model.sizes import EncoderConfig, generator_config
from electra.objectives.parts.interface import Objective
from electra.training.recipe import Recipe, make_recipe

VOCABULARY = 60
SPECIALS = Specials(pad=0, unk=1, cls=2, sep=3, mask=4)


@cache
def documents(count: int, seed: int) -> TokenDocuments:
    """Returns chains of tokens in which each token nearly determines the next."""
    rng = np.random.default_rng(seed)
    chains = []
    for _ in range(count):
        chain = [int(rng.integers(5, VOCABULARY))]
        for _ in range(int(rng.integers(3, 40))):
            follows = rng.random() < 0.9
            next_token = 5 + (chain[-1] * 3 + 1) % (VOCABULARY - 5)
            chain.append(next_token if follows else int(rng.integers(5, VOCABULARY)))
        chains.append(np.array(chain, dtype=np.uint16))
    return TokenDocuments(np.concatenate(chains), np.cumsum([*map(len, chains)]).astype(np.uint64))


def store(path: Path = Path("nowhere")) -> TokenStore:
    """Returns a token store in memory, with a vocabulary of 60."""
    return TokenStore(
        path=path,
        train=documents(200, 1),
        heldout=documents(20, 2),
        specials=SPECIALS,
        vocab_size=VOCABULARY,
        tokenizer_digest="toy",
        description={"digest": "toy"},
    )


def batches(length: int = 16, seed: int = 1) -> Batches:
    """Returns the batches of the store's training documents."""
    return Batches(store().train, length=length, seed=seed, specials=SPECIALS)


def recipe(**sections: Any) -> Recipe:
    """Returns a recipe of 6 steps that trains in seconds, with `sections` merged into it.

    Settings that the objective requires are set.
    """
    training = {"length": 16, "batch_size": 8, "steps": 6, "learning_rate": 1e-3, "log_every": 1}
    base: dict[str, Any] = {
        "model": {"size": "tiny", "dropout": 0.1},
        "training": training | {"precision": "fp32", "threads": 1},
        "evaluation": {"rows": 8},
    }
    name = sections.get("objective", {}).get("name")
    required = {} if name is None else dict(objective(name).required_settings)
    return make_recipe(merge(merge(base, {"model": required}), sections))


def config(architecture: str = "electra", **changes: Any) -> EncoderConfig:
    """Returns a small encoder's shape, with changes."""
    shape: dict[str, Any] = {"embedding_size": 16 if architecture == "electra" else 32, "hidden_size": 32}
    shape |= {"num_layers": 2, "num_heads": 2, "intermediate_size": 64, "max_positions": 64}
    shape |= {"dropout": 0.0, "attention_dropout": 0.0, "vocab_size": VOCABULARY}
    return EncoderConfig(architecture=architecture, **(shape | changes))  # type: ignore[arg-type]


def objective(name: str, **options: Any) -> Objective:
    """Returns an objective with these options."""
    shape = {"vocab_size": VOCABULARY, "specials": SPECIALS._asdict(), "statistics": store()}
    return objectives.create({"name": name, **options}, **shape)


def names() -> list[str]:
    """Returns the names of the objectives that need no teacher."""
    return [name for name in OBJECTIVES.names() if not list(objective(name).extra_networks(config()))]


def pair_for(objective: Objective, seed: int = 0, **changes: Any) -> Pair:
    """Returns initialised networks for an objective; `changes` are passed to `config`."""
    sharing = objective.required_settings.get("sharing", "embeddings")
    networks = shapes_for(objective, **changes)
    frozen = {row.name: build_network(row) for row in networks.frozen}
    for network in frozen.values():
        initialise(network, seed + 1, "fan_in")
    settings: dict[str, Any] = {"sharing": sharing, "seed": seed, "initialisation": "fan_in"}
    pair = build_networks(networks, heads=objective.heads(networks), frozen=frozen, **settings)
    objective.tie_weights(pair)
    return pair


def shapes_for(objective: Objective, **changes: Any) -> Networks:
    """Returns the table of an objective's networks; `changes` are passed to `config`."""
    full_shape = config(**changes)
    small_shape = generator_config(full_shape, objective.required_settings.get("generator_width", 0.5), 1.0)
    pair = Networks.pair(full_shape, small_shape if objective.auxiliary else None, objective.main)
    other_rows = (
        replace(row, shape=row.shape or config(hidden_size=32)) for row in objective.extra_networks(full_shape)
    )
    return Networks.in_order([*pair.rows, *other_rows])


def loss_and_gradients(
    objective: Objective, pair: Pair, parts: list[Any]
) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    """Returns the mean losses, and the gradients of their weighted total, over several corrupted batches."""
    pair.zero_grad()
    counts = {name: sum(part.counts[name] for part in parts) for name in objective.weights}
    sums = dict.fromkeys(objective.weights, 0.0)
    for part in parts:
        losses = objective.forward(pair, part).losses
        weighted_loss = sum(weight * losses[name] / max(1, counts[name]) for name, weight in objective.weights.items())
        assert isinstance(weighted_loss, torch.Tensor)
        weighted_loss.backward()  # type: ignore[no-untyped-call]
        for name, value in losses.items():
            sums[name] += float(value.detach())
    gradients = {name: p.grad.clone() for name, p in pair.named_parameters() if p.grad is not None}
    return {name: sums[name] / max(1, counts[name]) for name in sums}, gradients
