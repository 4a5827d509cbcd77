"""Derived randomness: reproducible, distinct for distinct keys, uniform, and a permutation of every range."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from electra.foundation import seeds


def test_known_values_never_change() -> None:
    """The weights of every run depend on these values: a change needs a new seeds.SCHEME."""
    assert seeds.SCHEME == 1
    assert seeds.key(1, "mask", 2, 3) == KNOWN["key"]
    assert seeds.uniforms(np.array([7], dtype=np.uint64), 2)[0].tolist() == KNOWN["uniforms"]
    assert seeds.permute(np.arange(5), 5, 11).tolist() == KNOWN["permutation"]


def test_every_part_of_a_key_changes_the_numbers() -> None:
    base = seeds.key(1, "mask", 2, 3)
    others = [(2, "mask", 2, 3), (1, "sample", 2, 3), (1, "mask", 3, 3), (1, "mask", 2, 4)]
    assert len({base, *(seeds.key(*each) for each in others)}) == 5
    assert seeds.keys(1, "mask", 2, [3, 4]).tolist() == [base, seeds.key(1, "mask", 2, 4)]


def test_uniforms_are_uniform_and_independent() -> None:
    draws = seeds.uniforms(seeds.keys(0, "test", 0, np.arange(2000)), 50)
    assert draws.min() >= 0 and draws.max() < 1
    counts = np.histogram(draws, bins=100, range=(0, 1))[0]
    chi_square = ((counts - 1000.0) ** 2 / 1000.0).sum()
    assert 60 < chi_square < 150  # 99 degrees of freedom
    assert abs(np.corrcoef(draws[:, 0], draws[:, 1])[0, 1]) < 0.08
    assert abs(np.corrcoef(draws[:-1, 0], draws[1:, 0])[0, 1]) < 0.08


@settings(max_examples=60, deadline=None)
@given(size=st.integers(1, 3000), key=st.integers(0, 2**64 - 1))
def test_permute_is_a_bijection(size: int, key: int) -> None:
    assert sorted(seeds.permute(np.arange(size), size, key).tolist()) == list(range(size))


def test_permute_mixes_and_is_random_access() -> None:
    whole = seeds.permute(np.arange(10_000), 10_000, 5)
    assert abs(np.corrcoef(np.arange(10_000), whole.astype(float))[0, 1]) < 0.05
    assert seeds.permute(np.array([1234]), 10_000, 5)[0] == whole[1234]
    assert not np.array_equal(whole, seeds.permute(np.arange(10_000), 10_000, 6))
    with pytest.raises(ValueError):
        seeds.permute(np.array([10]), 10, 1)


KNOWN: dict[str, object] = {
    "key": 15802520282056422836,
    "uniforms": [0.3898297483912715, 0.01678829452815611],
    "permutation": [3, 1, 4, 2, 0],
}
