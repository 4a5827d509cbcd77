"""Measurements in experiment trackers: complete, once each, nothing private; training never depends on them.

TensorBoard's files are read back with its own library; Trackio and Weights & Biases are stood in for.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from driven import command, toy_store  # noqa: F401

from electra.artifacts.run import RunFolder
from electra.commands.framework.main import main
from electra.exchange.trackers import Tracker

TOML = '[training]\nseed = 3\n[data]\nfile = "/home/me/a.txt"\n[environment]\ncommand = "--corpus /home/me"\n'


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What stand-ins for trackio and wandb get."""
    calls: list[Any] = []

    def log(values: dict[str, float], step: int) -> None:
        calls.append((step, values))

    def init(**settings: Any) -> SimpleNamespace:
        calls.append(settings)
        return SimpleNamespace(log=log, finish=finish)

    def finish() -> None:
        calls.append("finished")

    for name in ("trackio", "wandb"):
        module = ModuleType(name)
        module.__spec__ = importlib.util.spec_from_loader(name, None, origin="here")
        vars(module).update(init=init, log=log, finish=finish, Settings=lambda **kept: kept)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    return calls


@pytest.mark.parametrize("name", ["trackio", "wandb"])
def test_a_resumed_run_sends_each_row_once_and_nothing_private(
    name: Any, library: list[Any], tmp_path: Path
) -> None:
    run = RunFolder(tmp_path / "mine")
    run.path.mkdir()
    (run.path / "run.toml").write_text(TOML)
    rows = [{"kind": "train", "step": step, "tokens": 8 * step, "losses": {"rtd": 0.5}} for step in (1, 2, 3)]
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:2]))
    rows.append({"kind": "eval", "step": 2, "metrics": {"auc": 0.75, "recall": None}})
    tracker = Tracker(name, run, run.ledger().rows)
    for row in [{"kind": "event", "step": 0}, *rows]:
        tracker.log(row)
    tracker.close()
    settings, *sent, last = library
    expected = [(3, {"train/losses/rtd": 0.5, "train/tokens": 24}), (2, {"heldout/auc": 0.75})]
    assert sent == expected and last == "finished"
    assert settings["config"] == {"training.seed": 3, "data.file": "a.txt"} and settings["name"] == "mine"
    assert name == "trackio" or (settings["mode"] == "offline" and settings["resume"] == "allow")
    Tracker(name, run)
    assert library[-1].get("id") == settings.get("id"), "the tracker's run goes on, too"


@pytest.mark.filterwarnings("ignore")  # theirs
def test_tensorboard_has_the_curves_of_the_ledger(toy_store: Path, tmp_path: Path) -> None:  # noqa: F811
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = tmp_path / "run"
    words = command(toy_store, run, **{"training.steps": "6", "training.evaluate-every": "3"})
    assert main([*words, "--track", "tensorboard"]) == 0
    read = EventAccumulator(str(run / "tensorboard"))
    read.Reload()
    assert "training.seed" in read.Tensors("recipe/text_summary")[0].tensor_proto.string_val[0].decode()
    for tag, kind, key in (("train/loss", "train", "loss"), ("heldout/auc", "eval", "auc")):
        curve = RunFolder(run).ledger().curve(kind, key)  # type: ignore[arg-type]
        found = read.Scalars(tag)
        assert [one.step for one in found] == curve.x and len(found) > 1
        assert [one.value for one in found] == pytest.approx(curve.y)


def test_an_absent_tracker_is_one_line_before_anything_is_written(
    toy_store: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    find_spec = importlib.util.find_spec
    absent = lambda name, *more: None if name == "wandb" else find_spec(name, *more)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", absent)
    assert main([*command(toy_store, tmp_path / "run"), "--track", "wandb"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: --track") and not (tmp_path / "run" / "run.toml").exists()


@pytest.mark.parametrize(
    "call", ["log", *(pytest.param(call, marks=pytest.mark.slow) for call in ("init", "finish"))]
)
def test_training_goes_on_without_a_tracker_that_fails(
    call: str,
    toy_store: Path,  # noqa: F811
    tmp_path: Path,
    library: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("the server is down")

    monkeypatch.setattr(sys.modules["trackio"], call, fail)
    run = tmp_path / "run"
    assert main([*command(toy_store, run, **{"training.steps": "3"}), "--track", "trackio"]) == 0
    assert "the tracker gets nothing more (the server is down)" in (run / "log.txt").read_text()
    assert (run / "discriminator").is_dir()
