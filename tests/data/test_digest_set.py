"""The set of digests is exact, and takes 8 bytes per digest."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from electra.data import sorted_runs
from electra.data.sorted_runs import DigestSet


def test_a_digest_set_equals_a_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_runs, "RECENT", 16)
    draw = random.Random(0)
    actual, expected = DigestSet(), set[int]()
    for _ in range(5000):
        digest = draw.choice([draw.randrange(3000), draw.randrange(2**64), 0, 2**64 - 1])
        assert actual.add(digest) == (digest not in expected)
        expected.add(digest)
    assert len(actual) == len(expected)
    sizes = [len(run) for run in actual._runs]
    assert sizes and all(longer > 2 * shorter for longer, shorter in pairwise(sizes))
