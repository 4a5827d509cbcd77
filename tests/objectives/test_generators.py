"""Where replacements come from: networks of several sizes, frequencies, and how samples are drawn."""

from typing import Any

import numpy as np
import pytest
import torch

from electra.foundation.signals import StopRequest
from electra.model.sizes import SIZES, discriminator_config, generator_config
from electra.objectives.parts import replacing, vocabulary
from electra.testing import toy
from electra.training.assemble import build_run
from electra.training.distributed import World
from electra.training.heldout import evaluate

DRAWS = 200_000


def chi_square(drawn: torch.Tensor, probabilities: torch.Tensor) -> float:
    """Standardised: around 0, some units of deviation at most, when the draws follow the probabilities."""
    expected = probabilities.double() * len(drawn)
    counts = torch.bincount(drawn, minlength=len(probabilities)).double()
    often = expected > 5
    assert not counts[probabilities == 0].any()
    freedom = int(often.sum()) - 1
    return float((((counts - expected) ** 2) / expected)[often].sum() - freedom) / (2 * freedom) ** 0.5


@pytest.mark.parametrize("excluded", [None, 7, 0, 299])
def test_noise_follows_its_weights_without_the_excluded_token(excluded: int | None) -> None:
    weights = np.random.default_rng(0).integers(0, 1000, 300)
    weights[[0, 7, 299]] = (900, 5000, 300)
    uniforms = torch.rand(DRAWS, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    noise = replacing.Noise(weights)
    drawn = noise.draw(uniforms, None if excluded is None else torch.full((DRAWS,), excluded))
    probabilities = torch.from_numpy(weights).double()
    if excluded is not None:
        probabilities[excluded] = 0
    assert abs(chi_square(drawn, probabilities / probabilities.sum())) < 4


def test_noise_at_the_ends_of_its_range() -> None:
    noise = replacing.Noise(np.array([0, 3, 0, 10**15, 1, 0]))
    ends = torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64)
    assert noise.draw(ends).tolist() == [1, 4]
    assert noise.draw(ends, torch.tensor([3, 3])).tolist() == [1, 4]
    assert noise.draw(ends, torch.tensor([1, 4])).tolist() == [3, 3]


@pytest.mark.parametrize("name", ["rtd", "electra_15"])
@pytest.mark.parametrize("generator", ["unigram", "uniform"])
def test_a_generator_without_a_network(name: str, generator: str, tmp_path: Any) -> None:
    recipe = toy.recipe(objective={"name": name, "generator": generator})
    run = build_run(recipe, tmp_path, toy.store(), World())
    assert run.pair.auxiliary is None and run.pair.main is not None
    assert list(run.objective.weights) == ["rtd"]
    with_network = build_run(toy.recipe(objective={"name": name}), tmp_path, toy.store(), World())
    assert run.flops_per_step < with_network.flops_per_step
    part = run.objective.corrupt(toy.batches().batch(0, 2000), 1, 0.0)
    sampled = run.objective.noise.draw(part.uniforms)  # type: ignore[attr-defined]
    counts = torch.from_numpy(toy.store().counts).double()
    expected = counts if generator == "unigram" else torch.ones(toy.VOCABULARY, dtype=torch.double)
    expected[list(toy.SPECIALS)] = 0
    assert abs(chi_square(sampled, expected / expected.sum())) < 4
    metrics = evaluate(run, StopRequest())
    assert metrics["auc"] is not None and "generator_loss" not in metrics


def test_samples_follow_the_softmax_exactly() -> None:
    """Also if the vocabulary is no multiple of the block."""
    torch.manual_seed(0)
    probabilities = (torch.randn(1, 300) * 2).softmax(-1)
    uniforms = torch.rand(50_000, dtype=torch.float64)
    drawn = vocabulary.sample(probabilities.expand(len(uniforms), -1), uniforms)
    assert abs(chi_square(drawn, probabilities[0])) < 4


@pytest.mark.parametrize(("temperature", "disallow"), [(1.0, True), (0.5, True), (0.5, False), (2.0, False)])
def test_samples_have_the_temperature_and_may_exclude_the_truth(temperature: float, disallow: bool) -> None:
    generator = toy.pair_for(toy.objective("rtd")).auxiliary
    assert generator is not None
    torch.manual_seed(0)
    hidden = torch.randn(1, generator.encoder.config.hidden_size) * 3
    with torch.no_grad():
        p = (generator.logits(hidden)[0] / temperature).softmax(-1)
        truth = int(p.argmax())
        uniforms = torch.rand(DRAWS // 4, dtype=torch.float64)
        rows = (hidden.expand(len(uniforms), -1), torch.full((len(uniforms),), truth), uniforms, temperature)
        _, drawn, _ = vocabulary.loss_and_sample(generator, *rows, disallow_correct=disallow)
    p[truth] *= not disallow
    assert abs(chi_square(drawn, p / p.sum())) < 4


@pytest.mark.parametrize("architecture", ["electra", "modern"])
@pytest.mark.parametrize("size", list(SIZES))
def test_generators_of_every_width_have_whole_heads(size: str, architecture: Any) -> None:
    full = discriminator_config(SIZES[size], architecture, vocab_size=100, dropout=0.1, attention_dropout=0.1, pad_id=0)
    widths = [1 / 8, 1 / 4, 1 / 3, 1 / 2, 2 / 3, 3 / 4, 1.0]
    shapes = [generator_config(full, width, 1.0) for width in widths]
    for width, shape in zip(widths, shapes, strict=True):
        head, rest = divmod(shape.hidden_size, shape.num_heads)
        assert rest == 0 == head % 2 and head <= 64 and shape.num_heads == max(1, shape.hidden_size // 64)
        assert abs(shape.hidden_size - width * full.hidden_size) <= 32
    assert [shape.hidden_size for shape in shapes] == sorted(shape.hidden_size for shape in shapes)
    assert generator_config(full, 1.0, 1.0) == full
    assert generator_config(full, 0.5, 1 / 2).num_layers == full.num_layers // 2
