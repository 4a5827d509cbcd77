"""Schemes of masking: how many, where never, and what makes each what it is."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from electra import objectives
from electra.foundation.extensions import OBJECTIVES
from electra.objectives.parts import masking
from electra.objectives.parts.masking import MaskingOptions
from electra.testing import toy

SCHEMES = ("uniform", "frequency")
NAMES = [name for name in OBJECTIVES.names() if issubclass(objectives.module_of(name).Config, MaskingOptions)]


def objective(name: str, scheme: str, **options: Any) -> Any:
    return objectives.create(
        {"name": name, "masking": scheme, **options},
        vocab_size=toy.VOCABULARY,
        specials=toy.SPECIALS._asdict(),
        statistics=toy.store(),
    )


rows = (
    st.integers(0, 2**32 - 1)
    .map(np.random.default_rng)
    .map(lambda random: (random, random.random((6, 40)) < random.random()))
)
fractions = st.floats(0.0, 1.0)


@given(rows, fractions)
def test_exactly_the_budget_is_masked_and_no_special_token(drawn: Any, fraction: float) -> None:
    random, special = drawn
    scores, counts = random.random(special.shape), random.integers(0, 99, special.shape)
    wanted = [0 if free == 0 else min(max(1, round(fraction * free)), free) for free in (~special).sum(1)]
    for chosen in (
        masking.choose(special, scores, fraction),
        masking.choose_rare(special, counts, scores, fraction),
    ):
        assert not (chosen & special).any()
        assert chosen.sum(1).tolist() == wanted


def test_rare_tokens_are_masked_more_often() -> None:
    """The chance of the first draw is 1 / sqrt(count): three tokens, one masked, 40,000 rows."""
    counts = np.tile([0, 3, 15], (40_000, 1))
    scores = np.random.default_rng(0).random(counts.shape)
    chosen = masking.choose_rare(np.zeros_like(counts, dtype=bool), counts, scores, 1 / 3)
    weights = np.array([1, 1 / 2, 1 / 4])
    assert np.allclose(chosen.mean(0), weights / weights.sum(), atol=0.01)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", NAMES)
def test_every_objective_can_mask_in_every_way(name: str, scheme: str) -> None:
    masked = objective(name, scheme, mask_fraction=0.3)
    whole = masked.corrupt(toy.batches().batch(0, 8), 3, 0.0)
    parts = [masked.corrupt(toy.batches().batch(0, 8, start, start + 4), 3, 0.0) for start in (0, 4)]
    in_parts = [row for part in parts for row in part.masked_ids.tolist()]
    assert whole.masked_ids.tolist() == in_parts, "whatever the batch layout"
    assert not set(whole.targets.tolist()) & {toy.SPECIALS.cls, toy.SPECIALS.sep, toy.SPECIALS.pad}
    other = objective(name, "uniform", mask_fraction=0.3).corrupt(toy.batches().batch(0, 8), 3, 0.0)
    assert (whole.masked_positions.tolist() == other.masked_positions.tolist()) == (scheme == "uniform")
    fixed = masked.for_evaluation(0.3).corrupt(toy.batches().batch(0, 8), 3, 0.0)
    assert fixed.masked_positions.tolist() == other.masked_positions.tolist(), "held-out masks are uniform"
