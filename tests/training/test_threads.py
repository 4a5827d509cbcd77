"""How many threads a training takes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from electra.foundation import machine
from electra.training import threads
from electra.training.threads import set_threads


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.get_num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(machine, "cores", lambda: 2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("rates", "chosen"), [((7000.0, 1500.0), 1), ((5000.0, 9000.0), 2)])
def test_the_faster_number_of_threads_is_chosen_and_reported(
    rates: tuple[float, float], chosen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "measure", lambda most: rates)
    message = set_threads(None, None, "--training.threads")
    assert torch.get_num_threads() == chosen
    assert f"{chosen} CPU thread" in message and "--training.threads" in message


def test_threads_are_not_measured_if_they_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "measure", lambda most: 1 / 0)
    assert set_threads(2, 1, "--threads") == "" and torch.get_num_threads() == 2
    assert set_threads(None, 1, "--threads") == "" and torch.get_num_threads() == 1, "it began with one"
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    torch.set_num_threads(2)  # as torch does when it is imported
    assert set_threads(None, 1, "--threads") == "" and torch.get_num_threads() == 2
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(machine, "cores", lambda: 1)
    assert set_threads(None, None, "--threads") == "" and torch.get_num_threads() == 1
