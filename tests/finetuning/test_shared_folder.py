"""Several processes fine-tune in one folder: each seed is trained once, whoever lives."""

from __future__ import annotations

import hashlib
import json
import signal
import threading
from pathlib import Path
from typing import Any

import driven
import pytest

from electra.artifacts.finetuning import FinetuningFolder
from electra.commands.framework.main import main
from electra.finetuning.runner import finetune as runner
from electra.finetuning.runner.finetune import finetune
from electra.finetuning.settings import Settings
from electra.foundation import work
from electra.foundation.errors import RunFolderError
from electra.foundation.progress import quiet
from electra.testing import toy_task

TIMES = ("seconds", "steps_per_second")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_task.write_classification(tmp_path_factory.mktemp("data") / "sst2", train=60, dev=10)


def settings(out: Path, data: Path, **changes: Any) -> Settings:
    return toy_task.settings(out, data, **({"epochs": 1.0, "seeds": 3} | changes))


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(inner) for key, inner in value.items() if key not in TIMES}
    return [without_times(inner) for inner in value] if isinstance(value, list) else value


def contents(out: Path) -> dict[str, Any]:
    """Every result: JSON without times, other files by their bytes."""
    found: dict[str, Any] = {}
    for file in sorted(out.rglob("*")):
        name = str(file.relative_to(out))
        if (
            not file.is_file()
            or file.name[0] == "."
            or file.name
            in {
                "log.txt",
                "manifest.json",
                "finetune.json",
            }
        ):
            continue
        if file.suffix == ".json":
            found[name] = without_times(json.loads(file.read_text()))
        elif file.suffix not in {".html", ".svg", ".md"}:
            found[name] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


@pytest.fixture(scope="module")
def alone(data: Path, modern_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("alone") / "out"
    finetune(str(modern_folder), settings(out, data))
    return contents(out)


def test_seeds_that_another_process_trains_are_left_to_it(
    data: Path, modern_folder: Path, alone: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = FinetuningFolder(tmp_path / "out")
    made: list[int] = []
    train = runner.train_seed
    monkeypatch.setattr(runner, "train_seed", lambda *given: made.append(given[1]) or train(*given))
    monkeypatch.setattr(work, "WAIT_SECONDS", 0.05)
    other = work.Piece("seed 1", out.seed(1).path, "results.json", lambda **_: None)
    finetune(str(modern_folder), settings(out.path, data, seeds=1))
    arguments = str(modern_folder), settings(out.path, data), quiet, lambda: False
    waiting = threading.Thread(target=finetune, args=arguments)
    with work._lock(other):
        waiting.start()
        while made != [0, 2]:
            assert waiting.is_alive()
        waiting.join(1)
        assert waiting.is_alive() and out.read_results()["seeds"] == [0]
        with pytest.raises(RunFolderError) as caught:
            finetune(str(modern_folder), settings(out.path, data, weight_decay=0.1))
        assert "weight_decay" in str(caught.value)
    waiting.join(60)
    assert made == [0, 2, 1]
    assert contents(out.path) == alone


@pytest.mark.slow
def test_of_two_machines_one_is_killed_and_the_other_does_the_rest(
    modern_folder: Path, data: Path, tmp_path: Path
) -> None:
    words = ["finetune", str(modern_folder), "--task", "sst2", "--data", str(data), "--seeds", "3"]
    words += ["--epochs", "12", "--batch-size", "4", "--device", "cpu", "--precision", "fp32"]
    words += ["--checkpoint-every", "30", "--untrained-baseline", "--out"]
    assert main([*words, str(tmp_path / "alone")]) == 0
    out = tmp_path / "out"
    first = driven.machine([*words, str(out)], tmp_path / "first")
    assert first.stdout is not None
    next(line for line in first.stdout if line.startswith("seed 0 "))
    second = driven.machine([*words, str(out)], tmp_path / "second")
    assert second.stdout is not None
    theirs = next(line for line in second.stdout if "seed " in line and "loss" in line)
    first.send_signal(signal.SIGKILL)
    mine = first.communicate()[0]
    rest, _ = second.communicate(timeout=240)
    assert second.returncode == 0, rest
    assert theirs.partition("  ")[0] not in mine
    assert contents(out) == contents(tmp_path / "alone")
