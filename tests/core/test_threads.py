"""How many threads every command takes."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from electra.commands.detect import detect
from electra.commands.embed import embed
from electra.foundation import machine, threads
from electra.foundation.errors import ConfigError
from electra.foundation.threads import _Load, applied, free_cores, given, set_threads, workers


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.get_num_threads()
    for name in threads.VARIABLES:
        monkeypatch.setenv(name, "")  # so that what a test sets is removed again
        monkeypatch.delenv(name)
    monkeypatch.setattr(machine, "cores", lambda: 2)
    monkeypatch.setattr(threads, "_ours", {})
    monkeypatch.setattr(threads, "_users", {})
    yield
    torch.set_num_threads(before)


def test_a_training_has_the_threads_that_are_set_recorded_or_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "free_cores", lambda: 3)
    for requested, recorded, expected in ((2, 1, 2), (None, 1, 1), (None, None, 3)):
        set_threads(requested, recorded)
        assert torch.get_num_threads() == workers() == expected
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    for recorded in (1, None):
        set_threads(None, recorded)
        assert torch.get_num_threads() == 2
    set_threads(4)
    assert torch.get_num_threads() == 4 and given() == 2


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


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux alone counts ticks")
@pytest.mark.parametrize(("by_session", "own", "counted"), [("0", 0, 3), ("1", 0, 10), ("0", 5, 10), ("", 0, 3)])
def test_niced_programs_make_room_within_a_session(
    by_session: str, own: int, counted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {"STAT": "cpu0 100 700 200 0 0 0 0 0 0 0\n", "AUTOGROUP": by_session}.items():
        monkeypatch.setattr(threads, name, tmp_path / name)
        if text:
            (tmp_path / name).write_text(text)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})
    monkeypatch.setattr(os, "getpriority", lambda which, who: own)
    monkeypatch.setattr(os, "sysconf", lambda name: 100)
    assert threads._load().cores == counted


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_a_command_shares_no_operation_of_torch_but_all_its_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    np.ones((2, 2)) @ np.ones((2, 2))
    torch.set_num_threads(2)
    monkeypatch.setattr(threads, "free_cores", lambda: 1)
    for requested, by_user, blas, apart in (
        (None, None, 1, 2),  # another program computes: it has a core of two, and the batches go on
        (None, "2", 2, 2),
        (2, None, 2, 2),
        (1, "2", 1, 1),
    ):
        if by_user:
            monkeypatch.setenv("OMP_NUM_THREADS", by_user)
        else:
            monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        with applied(requested):
            assert torch.get_num_threads() == 1 and os.environ["OMP_NUM_THREADS"] == "1"
            assert blas_threads() == {blas} and workers() == apart
            with applied(None):
                assert workers() == apart
            set_threads(requested, 1)  # a training in the command
            assert workers() == torch.get_num_threads() == (requested or int(by_user or 1))
        assert torch.get_num_threads() == 2 and os.environ.get("OMP_NUM_THREADS") == by_user


@pytest.mark.parametrize("count", [0, -1, 1_000_000])
def test_impossible_numbers_are_refused(count: int) -> None:
    with pytest.raises(ConfigError, match="threads"):
        embed("tiny-en", "a film", threads=count)
    with pytest.raises(ConfigError, match="threads"):
        detect("tiny-en", "a film", threads=count)
