"""A start from counts: what it fills, that it is repeatable and recorded, what it refuses."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from electra.data.corpus.cooccurrence import token_vectors
from electra.model.networks import Networks
from electra.model.pair import Pair, build_networks
from electra.model.sizes import generator_config
from electra.testing import toy
from electra.training import token_init
from electra.training.assemble import start
from electra.training.distributed import World


def pair(architecture: str, sharing: Any) -> Pair:
    full = toy.config(architecture)
    small = full if sharing == "all" else generator_config(full, 0.5, 1.0)
    return build_networks(Networks.pair(small, full), sharing=sharing, seed=1, initialisation="fan_in")


@pytest.mark.parametrize("sharing", ["none", "token", "embeddings", "all", "disentangled"])
@pytest.mark.parametrize("architecture", ["electra", "modern"])
def test_every_table_and_bias_is_filled_and_nothing_else(architecture: str, sharing: str) -> None:
    networks, fresh, store = pair(architecture, sharing), pair(architecture, sharing), toy.store()
    token_init.initialise_tokens(networks, store)
    generator, discriminator = networks.generator, networks.discriminator
    assert generator is not None and discriminator is not None
    tables = token_init.token_tables(networks)
    assert len(tables) == (2 if sharing == "none" else 1)
    for table in tables:
        width = table.shape[1]
        scale = 0.9 / width**0.5
        expected = torch.from_numpy(scale * token_vectors(store.train, 60, width)).float()
        assert torch.equal(table[5:], expected[5:])
        assert table[5:].std().item() == pytest.approx(scale, rel=0.05)
    if sharing != "none":  # both networks read it
        assert torch.equal(discriminator.encoder.token_table(), tables[0])
    frequency = np.bincount(store.train.tokens, minlength=60) + 0.5
    assert generator.head.bias.exp().numpy(force=True) == pytest.approx(frequency / frequency.sum(), rel=1e-5)
    before = dict(fresh.named_parameters())
    changed = {name for name, now in networks.named_parameters() if not torch.equal(now, before[name])}
    kinds = {name.split(".", 1)[1] for name in changed}
    assert kinds <= {
        "head.bias",
        "encoder.tokens.weight",
        "encoder.tokens.source.weight",
        "encoder.embeddings.words.weight",
    }


def test_too_little_text_keeps_random_values(tmp_path: Path) -> None:
    little = replace(toy.store(), train=toy.documents(20, 1))
    with (
        start(toy.recipe(model={"start": "auto"}), tmp_path / "auto", little, World()) as one,
        start(toy.recipe(), tmp_path / "fresh", little, World()) as other,
    ):
        assert all(map(torch.equal, one.pair.parameters(), other.pair.parameters()))
