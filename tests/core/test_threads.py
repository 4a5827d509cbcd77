"""How many threads every command takes."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from electra.commands.detect import detect
from electra.commands.embed import embed
from electra.foundation import machine, threads
from electra.foundation.errors import ConfigError
from electra.foundation.threads import _Load, applied, follow, free_cores, set_threads


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.get_num_threads()
    for name in threads.VARIABLES:
        monkeypatch.setenv(name, "")  # so that what a test sets is removed again
        monkeypatch.delenv(name)
    monkeypatch.setattr(machine, "cores", lambda: 2)
    monkeypatch.setattr(threads, "_ours", {})
    yield
    torch.set_num_threads(before)


def test_a_training_has_the_threads_that_are_set_recorded_or_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "free_cores", lambda: 3)
    for requested, recorded, expected in ((2, 1, 2), (None, 1, 1), (None, None, 3)):
        set_threads(requested, recorded)
        assert torch.get_num_threads() == expected
    monkeypatch.setattr(threads, "_ours", {})
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    torch.set_num_threads(2)  # as torch does when it is imported
    set_threads(None, 1)
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(
    ("cores", "seconds", "own", "total", "free"),
    [
        (1, 1.0, 0.9, 9.0, 1),
        (2, 1.0, 0.9, 1.0, 2),  # idle but for this process
        (2, 0.5, 0.1, 0.7, 1),  # one program computes
        (2, 1.0, 0.0, 0.2, 2),  # a browser
        (2, 1.0, 0.0, 0.5, 1),
        (2, 1.0, 1.0, 3.5, 1),  # more programs than cores
        (8, 2.0, 0.0, 4.0, 6),
        (2, 0.1, 0.12, 0.1, 2),  # ticks of 10 ms
    ],
)
def test_cores_that_other_programs_use_are_left_to_them(  # noqa: PLR0917
    cores: int, seconds: float, own: float, total: float, free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "cores", lambda: cores)
    monkeypatch.setattr(threads, "_last", _Load(100.0, 5.0, 50.0, None))
    monkeypatch.setattr(threads, "_load", lambda: _Load(100 + seconds, 5 + own, 50 + total, None))
    assert free_cores() == free


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_a_command_computes_with_the_free_cores_and_follows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    np.ones((2, 2)) @ np.ones((2, 2))
    torch.set_num_threads(2)
    monkeypatch.setattr(threads, "free_cores", lambda: 1)
    monkeypatch.setattr(threads, "_last", threads._load())
    with applied(None):
        assert torch.get_num_threads() == 1 and blas_threads() == {1}
        assert os.environ["OMP_NUM_THREADS"] == "1", "for libraries that are loaded later"
        monkeypatch.setattr(threads, "free_cores", lambda: 2)
        follow()
        assert torch.get_num_threads() == 1, "a moment ago"
        monkeypatch.setattr(threads, "FOLLOW_SECONDS", 0.0)
        follow()
        assert torch.get_num_threads() == 2 and blas_threads() == {2}
        set_threads(None, 1)  # a training that resumes with one
        follow()
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2 and "OMP_NUM_THREADS" not in os.environ
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with applied(None):
        assert torch.get_num_threads() == 2, "torch has read it"
    with applied(1):
        assert torch.get_num_threads() == 1 and os.environ["OMP_NUM_THREADS"] == "1"
    assert os.environ["OMP_NUM_THREADS"] == "3"


@pytest.mark.parametrize("count", [0, -1, 1_000_000])
def test_impossible_numbers_are_refused(count: int) -> None:
    with pytest.raises(ConfigError, match="threads"):
        embed("tiny-en", "a film", threads=count)
    with pytest.raises(ConfigError, match="threads"):
        detect("tiny-en", "a film", threads=count)
