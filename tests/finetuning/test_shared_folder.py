"""Several processes fine-tune in one folder: each seed and each trial is done once, whoever lives."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import driven
import pytest

from electra.artifacts.finetuning import FinetuningFolder
from electra.commands.framework.main import main
from electra.finetuning.runner import finetune as runner
from electra.finetuning.runner import search as search_module
from electra.finetuning.runner.finetune import finetune, help_finetune, remaining_work
from electra.finetuning.settings import Settings
from electra.foundation.errors import RunFolderError
from electra.foundation.leases import Lease, Leases
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
        if not file.is_file() or file.name in {
            "log.txt",
            "manifest.json",
            "digests.json",
            ".lock",
            "finetune.json",
        }:
            continue
        if file.suffix == ".json":
            found[name] = without_times(json.loads(file.read_text()))
        elif file.suffix not in {".html", ".svg", ".md"}:
            found[name] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


def held(out: Path, name: str) -> Lease:
    lease = Leases(FinetuningFolder(out).leases).take(name)
    assert lease is not None
    return lease


@pytest.fixture(scope="module")
def alone(data: Path, modern_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("alone") / "out"
    finetune(str(modern_folder), settings(out, data))
    assert remaining_work(settings(out, data)) == []
    return contents(out)


def test_seeds_that_another_process_trains_are_left_to_it(
    data: Path, modern_folder: Path, alone: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    made: list[int] = []
    train = runner.train_seed
    monkeypatch.setattr(runner, "train_seed", lambda *given: made.append(given[1]) or train(*given))
    lease = held(out, "seed 1")
    help_finetune(str(modern_folder), settings(out, data), quiet, lambda: False)
    assert made == [0, 2] and not FinetuningFolder(out).results.exists()
    [line] = remaining_work(settings(out, data))
    assert line.startswith("seed 1 ") and str(os.getpid()) in line
    lease.release()
    finetune(str(modern_folder), settings(out, data))
    assert made == [0, 2, 1]
    assert contents(out) == alone and not FinetuningFolder(out).leases.exists()


def test_trials_that_follow_are_trained_while_another_process_trains_the_next(
    data: Path, modern_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = {"search": "4", "learning_rate": None, "seeds": 1}
    one, two = tmp_path / "one", tmp_path / "two"
    finetune(str(modern_folder), settings(one, data, **wanted))
    trials = FinetuningFolder(one).read_search()["trainings"]
    made: list[dict[str, float]] = []
    train = search_module.train_and_score
    monkeypatch.setattr(
        search_module, "train_and_score", lambda *given: made.append(given[1]) or train(*given)
    )
    first = search_module.trial_name(trials[0]["values"])
    lease = held(two, f"trial {first}")
    help_finetune(str(modern_folder), settings(two, data, **wanted), quiet, lambda: False)
    # While the first trial is out, only its neighbours are certain not to be wasted.
    assert [values["learning_rate"] for values in made] == [2e-3, 5e-4]
    assert remaining_work(settings(two, data, **wanted))[1] == "search"
    with pytest.raises(RunFolderError):
        finetune(str(modern_folder), settings(two, data, **wanted | {"search": "9"}))
    lease.release()
    finetune(str(modern_folder), settings(two, data, **wanted))
    assert contents(two) == contents(one)
    assert len(made) == len({*map(str, made)}), "no trial was trained twice"


def test_other_settings_are_refused_while_others_are_at_work(
    data: Path, modern_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    lease = held(out, "seed 0")
    help_finetune(str(modern_folder), settings(out, data, seeds=2), quiet, lambda: False)
    with pytest.raises(RunFolderError, match="weight_decay"):
        finetune(str(modern_folder), settings(out, data, weight_decay=0.1))
    lease.release()


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
    assert main([*words, str(out), "--missing"]) == 0
