"""The set of digests is exact, takes 8 bytes per digest, and stores long runs on disk."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from electra.data import sorted_runs
from electra.data.sorted_runs import DigestSet


@pytest.mark.parametrize("memory", [1 << 20, 800])
def test_a_digest_set_equals_a_set_for_any_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int
) -> None:
    monkeypatch.setattr(sorted_runs, "RECENT", 16)
    draw = random.Random(0)
    actual, expected = DigestSet(tmp_path, memory), set[int]()
    for _ in range(5000):
        digest = draw.choice([draw.randrange(3000), draw.randrange(2**64), 0, 2**64 - 1])
        assert actual.add(digest) == (digest not in expected)
        expected.add(digest)
    assert len(actual) == len(expected)


GROW = """
import random, resource, sys
from electra.data.sorted_runs import DigestSet
import numpy
from pathlib import Path
number, folder = int(sys.argv[1]), sys.argv[2]
seen = DigestSet(Path(folder))
draw = random.Random(1)
for _ in range(200_000): seen.add(draw.getrandbits(64))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(number): assert seen.add(draw.getrandbits(64))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / number)
"""


@pytest.mark.slow
def test_memory_per_document_is_as_documented(tmp_path: Path) -> None:
    """8, and as many while two runs are joined; a Python set of 16-byte digests takes about 100."""
    ended = subprocess.run(
        [sys.executable, "-c", GROW, "600000", str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert float(ended.stdout) < 40
    assert not list(tmp_path.iterdir())
