"""What all tests share: one thread per process, no network, and the way to real data where it is at hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from electra.testing import offline

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read by torch when it is first imported
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # what is no folder may be a name on the hub
offline.block_network()


@pytest.fixture(autouse=True)
def no_network() -> Iterator[None]:
    """A test that reaches for another machine fails, even where a library swallows the error."""
    offline.attempts.clear()
    yield
    assert not offline.attempts


@pytest.fixture
def shared_data() -> Callable[[str], Path]:
    """shared_data("corpora/x.jsonl.zst"): a real file from $ELECTRA_TEST_DATA, or from ../shared/data; skips
    when it is absent.
    """
    beside = Path(__file__).parents[2] / "shared" / "data"
    root = Path(os.environ.get("ELECTRA_TEST_DATA") or beside)

    def find(name: str) -> Path:
        if not (root / name).exists():
            pytest.skip(f"needs {name} (set ELECTRA_TEST_DATA to the folder that holds it)")
        return root / name

    return find
