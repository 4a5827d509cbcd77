"""Replaced token detection: labels, gradients, the mask split and the sampler."""

import pytest
import torch
from torch.nn import functional as F

from electra.objectives.parts import vocabulary
from electra.testing import toy


def outcome_of(objective: object, seed: int = 3) -> tuple[object, object, object]:
    pair = toy.pair_for(objective)  # type: ignore[arg-type]
    part = objective.corrupt(toy.batches().batch(0, 32), seed, 0.0)  # type: ignore[attr-defined]
    return pair, part, objective.forward(pair, part)  # type: ignore[attr-defined]


def test_labels_replaced_exactly_where_the_token_differs() -> None:
    """Also where the generator is right by luck, and where 15 % of the chosen show no [MASK]."""
    objective = toy.objective("rtd", mask_fraction=0.5)
    _, part, outcome = outcome_of(objective)
    ids = part.input_ids.flatten().clone()
    ids[part.masked_positions] = outcome.observed["sampled"]
    expected = (ids != part.input_ids.flatten())[part.is_token().flatten()]
    assert torch.equal(outcome.observed["replaced"], expected)
    lucky = outcome.observed["sampled"] == part.targets
    assert lucky.any(), "the toy vocabulary is small enough for lucky guesses"
    assert int(expected.sum()) == int((~lucky).sum())


def test_discriminator_loss_covers_every_real_token() -> None:
    objective = toy.objective("rtd")
    _pair, part, outcome = outcome_of(objective)
    assert part.counts["rtd"] == int(part.is_token().sum()) == len(outcome.observed["replaced_logits"])
    by_hand = F.binary_cross_entropy_with_logits(
        outcome.observed["replaced_logits"], outcome.observed["replaced"].float(), reduction="sum"
    )
    assert torch.allclose(by_hand, outcome.losses["rtd"])
    assert objective.weights == {"mlm": 1.0, "rtd": 50.0}


@pytest.mark.parametrize(("name", "masked", "kept"), [("rtd", 0.85, 0.15), ("mlm", 0.8, 0.1)])
def test_masked_positions_show_a_mask_the_token_or_a_random_one(
    name: str, masked: float, kept: float
) -> None:
    part = toy.objective(name, mask_fraction=0.5).corrupt(toy.batches().batch(0, 2000), 1, 0.0)
    shown = part.masked_ids.flatten()[part.masked_positions]
    is_masked, is_kept = shown == toy.SPECIALS.mask, shown == part.targets
    assert abs(float(is_masked.double().mean()) - masked) < 0.01
    assert abs(float(is_kept.double().mean()) - kept) < 0.01
    random = shown[~is_masked & ~is_kept]
    assert len(random) == 0 if name == "rtd" else random.min() >= 5, "ordinary tokens"


def test_held_out_accuracy_is_that_of_the_best_guess_also_where_logits_are_equal() -> None:
    """bfloat16 logits often are: counting every tie as right flattered the generator by half a point."""
    generator = toy.pair_for(toy.objective("rtd")).auxiliary
    assert generator is not None
    hidden = torch.zeros(toy.VOCABULARY, generator.encoder.config.hidden_size)
    with torch.no_grad():
        generator.encoder.token_table().zero_()  # every logit is that of the bias: all equal
        generator.head.bias.zero_()
        _, top1_correct = vocabulary.loss_and_top1(generator, hidden, torch.arange(toy.VOCABULARY))
    assert top1_correct.sum() == 1


@pytest.mark.parametrize("size", [vocabulary.BLOCK - 3, vocabulary.BLOCK, 2 * vocabulary.BLOCK + 5])
def test_the_highest_draw_is_the_last_token_that_can_be_drawn(size: int) -> None:
    """The last block may be short and may end in tokens of probability zero."""
    probabilities = torch.full((1, size), 0.1)
    probabilities[0, -2:] = 0
    highest = torch.tensor([1 - 2**-53], dtype=torch.float64)
    assert vocabulary.sample(probabilities, highest).item() == size - 3
