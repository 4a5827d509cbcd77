"""Gradient-disentangled embedding sharing: which network trains which table, and plain tables in folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from electra.data.tokenizer import Tokenizer
from electra.exchange.warm_start import load_weights_into
from electra.model.pair import Pair, build_networks, build_pair
from electra.model.sizes import generator_config
from electra.model.token_table import DisentangledTable
from electra.testing import toy

MakePair = Callable[..., Pair]


def pair_for(architecture: str, width: float = 0.5) -> Pair:
    full = toy.config(architecture)
    return build_pair(
        full, generator_config(full, width, 1.0), sharing="disentangled", seed=1, initialisation="fan_in"
    )


@pytest.mark.parametrize("width", [0.5, 1.0])
@pytest.mark.parametrize("architecture", ["electra", "modern", "deberta"])
def test_each_network_trains_its_own_part(architecture: str, width: float) -> None:
    pair = pair_for(architecture, width)
    generator, discriminator = pair.auxiliary, pair.main
    assert generator is not None
    [sum_of] = [module for module in discriminator.modules() if isinstance(module, DisentangledTable)]
    base = sum_of._source[0].weight
    assert id(base) in {id(p) for p in generator.parameters()}
    assert id(base) not in {id(p) for p in discriminator.parameters()}, (
        "its rate and its clipping are the generator's"
    )
    assert torch.equal(discriminator.encoder.token_table(), base) and not sum_of.delta.any(), "equal at first"

    output = toy.objective("rtd")
    losses = output.forward(pair, output.corrupt(toy.batches().batch(0, 8), 1, 0.0)).losses
    by_mlm = torch.autograd.grad(losses["mlm"], [base, sum_of.delta], retain_graph=True, allow_unused=True)
    by_rtd = torch.autograd.grad(losses["rtd"], [base, sum_of.delta], allow_unused=True)
    assert by_mlm[0].any() and by_mlm[1] is None
    assert by_rtd[0] is None and by_rtd[1].any()


def test_a_corrector_can_share_the_encoder() -> None:
    output = toy.objective("all_tokens_mlm")
    shapes = toy.shapes_for(output)
    pair = build_networks(
        shapes,
        heads=output.heads(shapes),
        sharing="disentangled",
        initialisation="fan_in",
    )
    assert pair.auxiliary is not None
    words = pair.main.encoder.embeddings.words  # type: ignore[union-attr]
    losses = output.forward(pair, output.corrupt(toy.batches().batch(0, 8), 1, 0.0)).losses
    base = pair.auxiliary.encoder.token_table()
    assert (
        torch.autograd.grad(losses["mlm"], [words.delta, base], retain_graph=True, allow_unused=True)[1]
        is None
    )
    assert torch.autograd.grad(losses["sampler"], [words.delta, base], allow_unused=True)[0] is None


def test_a_pair_is_trained_further_from_its_folders(
    export_pair: Callable[..., tuple[Pair, Path]], make_pair: MakePair, uncased: Tokenizer
) -> None:
    pair, folder = export_pair(size="mini", sharing="disentangled")
    for given in ({"discriminator": folder, "generator": folder}, {"discriminator": folder}):
        fresh = make_pair("mini", vocab_size=uncased.vocab_size, seed=7, sharing="disentangled")
        load_weights_into(fresh, **given, tokenizer=uncased)
        for kind in given:
            old, new = getattr(pair, kind).encoder.token_table(), getattr(fresh, kind).encoder.token_table()
            assert torch.allclose(old, new, atol=1e-6), kind
