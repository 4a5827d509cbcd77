"""AdamW against torch, Adam without bias correction against its formula, groups, and moments that survive a
save.
"""

from dataclasses import replace

import pytest
import torch

from electra.model.pair import Pair
from electra.testing import toy
from electra.training.optimizer import Optimizer


def made(rates: dict[str, float] | None = None, **settings: object) -> tuple[Pair, Optimizer]:
    torch.manual_seed(0)
    pair = toy.pair_for(toy.objective("rtd"))
    return pair, Optimizer(pair, replace(toy.recipe().training, **settings), rates)  # type: ignore[arg-type]


def fill_gradients(pair: Pair, step: int) -> None:
    torch.manual_seed(step)
    for parameter in pair.parameters():
        parameter.grad = torch.randn_like(parameter)


def test_without_bias_correction_it_is_the_published_update() -> None:
    """m, v as usual; p -= lr * (m / (sqrt(v) + eps) + wd * p): google-research/electra,
    model/optimization.py.
    """
    pair, optimizer = made(bias_correction=False, weight_decay=0.1)
    name, parameter = next((n, p) for n, p in pair.named_parameters() if n.endswith("qkv.weight"))
    expected = parameter.detach().double().clone()
    m, v = torch.zeros_like(expected), torch.zeros_like(expected)
    for step in range(5):
        fill_gradients(pair, step)
        gradient = parameter.grad.double()  # type: ignore[union-attr]
        rate = 0.5 * 1e-3
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        expected = expected - rate * (m / (v.sqrt() + 1e-6) + 0.1 * expected)
        optimizer.step(0.5)
    assert torch.allclose(parameter.double(), expected, atol=1e-6), name


@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("skipped", [range(0), range(40), range(3, 40), range(1, 40, 2)], ids=str)
def test_a_weight_that_skips_updates_still_gets_the_published_one(skipped: range, resumed: bool) -> None:
    """Against the formula in float64. Each update computes c1, c2 and their quotients, and the division by
    them, to a few units of 2^-24, of an update below 3.2 times the rate; 44 updates of at most 3.2e-3 then
    differ by at most 44 * 3.2e-3 * 8 * 2^-24 and 44 roundings of a weight below 2.
    """
    pair, optimizer = made(bias_correction=False, weight_decay=0.1)
    parameters = dict(pair.named_parameters())
    name = next(name for name in parameters if name.endswith("discriminator.head.dense.weight"))
    expected = parameters[name].detach().double().clone()
    m, v = torch.zeros_like(expected), torch.zeros_like(expected)
    for step in range(44):
        fill_gradients(pair, step)
        if step in skipped:
            parameters[name].grad = None
        else:
            gradient = parameters[name].grad.double()  # type: ignore[union-attr]
            m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
            expected = expected - 1e-3 * (m / (v.sqrt() + 1e-6) + 0.1 * expected)
        optimizer.step(1.0)
        if resumed and step in (20, 42):
            saved = {key: tensor.clone() for key, tensor in optimizer.tensors().items()}
            optimizer = Optimizer(pair, optimizer.settings)
            optimizer.load_tensors(saved, step + 1)
    bound = 44 * (3.2e-3 * 8 + 2) * 2**-24
    assert (parameters[name].double() - expected).abs().max() < bound


def test_decay_spares_biases_and_norms_but_not_embeddings() -> None:
    pair, optimizer = made(weight_decay=0.1)
    names = {p: n for n, p in pair.named_parameters()}
    decayed = {names[p]: group["weight_decay"] > 0 for group in optimizer.param_groups for p in group["params"]}
    assert set(decayed) == set(names.values())
    for name, is_decayed in decayed.items():
        assert is_decayed == (not ("norm" in name or name.endswith("bias"))), name
    assert decayed["generator.encoder.embeddings.words.weight"]


def test_the_generators_rate_does_not_apply_to_shared_weights() -> None:
    pair, optimizer = made({"generator": 1e-2})
    names = {p: n for n, p in pair.named_parameters()}
    peaks = {names[p]: group["peak"] for group in optimizer.param_groups for p in group["params"]}
    assert peaks["generator.encoder.embeddings.words.weight"] == 1e-3, "shared: the discriminator's rate"
    assert peaks["generator.encoder.layers.0.qkv.weight"] == 1e-2
    assert peaks["discriminator.encoder.layers.0.qkv.weight"] == 1e-3


def test_moments_are_restored() -> None:
    pair, optimizer = made()
    other_pair, other = made()
    for step in range(3):
        fill_gradients(pair, step)
        optimizer.step(1.0)
    other_pair.load_state_dict(pair.state_dict())
    other.load_tensors({name: tensor.clone() for name, tensor in optimizer.tensors().items()}, 3)
    for each, its_optimizer in ((pair, optimizer), (other_pair, other)):
        fill_gradients(each, 99)
        its_optimizer.step(1.0)
    assert all(torch.equal(a, b) for a, b in zip(pair.parameters(), other_pair.parameters(), strict=True))
    missing = dict(optimizer.tensors())
    missing.pop(next(name for name in missing if "qkv" in name))
    with pytest.raises(KeyError, match="qkv"):
        made()[1].load_tensors(missing, 3)


def test_the_gradient_of_all_networks_is_clipped_to_the_norm() -> None:
    pair, optimizer = made(clip=1.0)
    fill_gradients(pair, 0)

    def norm() -> torch.Tensor:
        return torch.cat([p.grad.flatten() for p in pair.parameters()]).norm()  # type: ignore[union-attr]

    before = norm()
    assert before > 1 and torch.allclose(optimizer.clip(), before)
    assert torch.allclose(norm(), torch.tensor(1.0), rtol=1e-3)
