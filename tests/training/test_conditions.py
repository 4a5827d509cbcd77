"""A run records the conditions under which it was trained, and what changes when it is resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from electra.artifacts.run import RunFolder
from electra.foundation.config import merge
from electra.foundation.signals import StopRequest
from electra.testing import toy
from electra.training import loop
from electra.training.distributed import World
from electra.training.start import start


def train(folder: Path, **sections: Any) -> RunFolder:
    settings = {"steps": 12, "checkpoint_every": 3, "evaluate_every": 12}
    recipe = toy.recipe(**merge({"training": settings, "model": {"layers": 1}}, sections))
    with start(recipe, folder, toy.store(), World()) as run, StopRequest() as stop:
        assert loop.train(run, stop)
    return RunFolder(folder)


@pytest.mark.parametrize("changed", [{"threads": 2}, {"micro_batch": 2}, {"compile": "on"}])
@pytest.mark.slow
def test_other_conditions_are_said_and_recorded(
    changed: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "compile" in changed:
        monkeypatch.setattr("electra.training.compilation.compile_layers", _marked)
    settings = {"training": {"steps": 12, "checkpoint_every": 3, "keep": 9}, "model": {"layers": 1}}
    with start(toy.recipe(**settings), tmp_path, toy.store(), World()) as begun:
        assert not loop.train(begun, lambda: begun.step == 6)
    run = train(tmp_path, training={"keep": 9, **changed})
    assert "not bit-exact" in (tmp_path / "log.txt").read_text()
    [first, second] = run.record["environment"]["parts"]
    name, value = next(iter(changed.items()))
    key = "compiled" if name == "compile" else name
    assert (first["step"], second["step"]) == (0, 6) and first[key] != second[key]
    assert second[key] == (True if name == "compile" else value)


def _marked(run: Any) -> None:
    run.compiled = True


def test_a_resumed_run_keeps_its_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begun on one core and resumed on two, or the other way around."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    settings = {"steps": 4, "checkpoint_every": 2, "evaluate_every": 4, "threads": None}
    before = torch.get_num_threads()
    try:
        for cores in (1, 2):
            monkeypatch.setattr("electra.foundation.machine.cores", lambda cores=cores: cores)
            with start(toy.recipe(training=settings), tmp_path, toy.store(), World()) as run:
                loop.train(run, lambda run=run, cores=cores: run.step == 2 * cores)
                assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    assert "not bit-exact" not in (tmp_path / "log.txt").read_text()
