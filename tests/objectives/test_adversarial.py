"""The generator against the discriminator: its gradients are what they claim, and the schedule moves them."""

from itertools import product
from typing import Any

import pytest
import torch

from electra.model.pair import build_networks
from electra.objectives.adversarial import AddedVectors, Objective, conditional_gumbel, reinforce
from electra.objectives.parts import vocabulary
from electra.objectives.parts.detector_output import detect
from electra.testing import toy


def reward_of(ids: torch.Tensor) -> torch.Tensor:
    """Any function of each slot's own token will do for a reward."""
    return (ids.double() * 1.7 + torch.arange(ids.shape[-1])).sin() + 2


def test_reinforce_is_the_exact_gradient_in_expectation() -> None:
    """Two slots, a vocabulary of four: every outcome weighed by its probability, with any baseline."""
    torch.manual_seed(0)
    logits = torch.randn(2, 4, dtype=torch.double, requires_grad=True)
    baseline = torch.tensor([0.3, -1.1], dtype=torch.double)
    log_p = logits.log_softmax(-1)
    rewards = torch.stack([reward_of(torch.full((2,), token)) for token in range(4)], 1)
    exact = torch.autograd.grad(-(log_p.exp() * rewards).sum(), logits)[0]
    estimate = torch.zeros_like(exact)
    for first, second in product(range(4), repeat=2):
        sampled = torch.tensor([first, second])
        log_p = logits.log_softmax(-1)
        loss = reinforce(log_p, sampled, reward_of(sampled), baseline)
        assert float(loss.detach()) == pytest.approx(-float(reward_of(sampled).sum()))
        weight = log_p.exp()[torch.arange(2), sampled].prod().detach()
        estimate += weight * torch.autograd.grad(loss, logits)[0]
    assert torch.allclose(estimate, exact, atol=1e-12)


def passed(gradient: str, progress: float = 1.0, **options: Any) -> tuple[Objective, Any, Any, Any]:
    objective = toy.objective("adversarial", gradient=gradient, **options)
    pair = toy.pair_for(objective)
    part = objective.corrupt(toy.batches().batch(0, 8), 3, progress)
    torch.manual_seed(0)
    return objective, pair, part, objective.forward(pair, part)  # type: ignore[return-value]


def own_gradients(pair: Any, loss: torch.Tensor) -> list[torch.Tensor | None]:
    own = [*pair.own_parameters(pair.auxiliary)]
    return list(torch.autograd.grad(loss, own, allow_unused=True, retain_graph=True))


def test_the_gumbel_gradient_is_the_discriminators_reversed() -> None:
    """By hand: the gradient at the sampled embeddings, through the mixtures, -weight / (lambda * share)."""
    objective, pair, part, _ = passed("gumbel", mask_fraction=0.25, temperature=2.0, adversarial_weight=3.0)
    torch.manual_seed(0)
    outcome = objective.forward(pair, part)
    gradients = own_gradients(pair, outcome.losses["rtd"])

    sampled, slots = outcome.observed["sampled"], part.masked_positions
    log_p = pair.auxiliary.logits(part.masked_states(pair.auxiliary)).log_softmax(-1)
    table = pair.main.encoder.token_table().detach()
    torch.manual_seed(0)
    mixtures = ((log_p + conditional_gumbel(log_p.detach(), sampled)) / 2.0).softmax(-1) @ table
    ids = part.input_ids.flatten().index_copy(0, slots, sampled).view_as(part.input_ids)
    vectors = torch.zeros(len(slots), table.shape[1], requires_grad=True)
    loss = detect(pair.main, part, ids, AddedVectors(slots, vectors)).loss()
    [at_slots] = torch.autograd.grad(loss, vectors)
    own = [*pair.own_parameters(pair.auxiliary)]
    through = torch.autograd.grad(mixtures, own, at_slots, allow_unused=True)
    for actual, by_hand in zip(gradients, through, strict=True):
        assert (actual is None) == (by_hand is None)
        if actual is not None and by_hand is not None:
            assert torch.allclose(actual, -3.0 / (50.0 * 0.25) * by_hand, rtol=1e-3, atol=1e-6)
    assert any(actual is not None and bool((actual.abs() > 1e-4).any()) for actual in gradients)


def test_the_gumbel_gradient_does_not_train_the_discriminators_table_to_fool_it() -> None:
    gradients = []
    for weight in (0.0, 1.0):
        objective = toy.objective("adversarial", gradient="gumbel", adversarial_weight=weight)
        pair = build_networks(toy.shapes_for(objective), sharing="none", initialisation="fan_in")
        part = objective.corrupt(toy.batches().batch(0, 8), 3, 1.0)
        table = pair.main.encoder.token_table()  # type: ignore[union-attr]
        gradients.append(torch.autograd.grad(objective.forward(pair, part).losses["rtd"], table)[0])
    assert torch.allclose(*gradients, atol=1e-6)


def test_noise_given_the_sample_is_gumbel_noise_whose_winner_is_the_sample() -> None:
    torch.manual_seed(0)
    log_p = torch.randn(4).log_softmax(-1)
    rows = log_p.expand(40_000, -1)
    sampled = vocabulary.sample(rows.exp(), torch.rand(len(rows), dtype=torch.float64))
    noise = conditional_gumbel(rows, sampled)
    assert torch.equal((rows + noise).argmax(-1), sampled)
    mean, variance = 0.5772, 1.6449  # of the standard Gumbel distribution, in every column
    assert torch.allclose(noise.mean(0), torch.full((4,), mean), atol=0.03)
    assert torch.allclose(noise.var(0), torch.full((4,), variance), atol=0.08)
    assert float(torch.corrcoef(noise.T).triu(1).abs().max()) < 0.03


@pytest.mark.parametrize("gradient", ["reinforce", "gumbel"])
def test_annealing_moves_from_likelihood_to_adversary(gradient: str) -> None:
    """The logged losses stay what they are; the generator's gradient goes from MLM's to the adversary's."""
    options = {"anneal_from": 0.2, "anneal_to": 0.6}
    objective = toy.objective("adversarial", gradient=gradient, **options)
    shares = [objective.adversarial_share(progress) for progress in (0.0, 0.2, 0.4, 0.6, 1.0)]
    assert shares == pytest.approx([0, 0, 0.5, 1, 1])

    def gradients(progress: float) -> tuple[float, float, float]:
        _, pair, _, outcome = passed(gradient, progress, **options)
        adversary = outcome.losses["adversarial" if gradient == "reinforce" else "rtd"]
        sizes = [
            sum(float(g.norm()) for g in own_gradients(pair, loss) if g is not None)
            for loss in (outcome.losses["mlm"], adversary)
        ]
        return sizes[0], sizes[1], float(outcome.losses["mlm"].detach())

    first, middle, last = gradients(0.1), gradients(0.4), gradients(0.9)
    assert first[0] > 0 and first[1] == 0 and last[0] == 0 and last[1] > 0
    assert middle[0] == pytest.approx(first[0] / 2, rel=1e-3)
    assert middle[1] == pytest.approx(last[1] / 2, rel=1e-2)
    assert first[2] == pytest.approx(last[2])
