"""Resuming after a kill gives the same bits; folders of other fine-tunings are refused."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from contracts import toy_task
from safetensors.torch import load_file

from electra.exchange.weights import digest
from electra.finetuning.train.all_seeds import finetune
from electra.foundation import durable
from electra.foundation.errors import RunFolderError


def start(model: Path, data: Path, out: Path) -> subprocess.Popen[str]:
    options = (
        f"--data {data} --out {out} --task sst2 --seeds 2 --epochs 4 --batch-size 16 --learning-rate 2e-3"
        " --checkpoint-every 5 --precision fp32 --device cpu"
    )
    words = [sys.executable, "-m", "electra", "finetune", str(model), *options.split()]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def stop_at(process: subprocess.Popen[str], wanted: str, number: signal.Signals) -> str:
    """Send a signal when a line says so; the output up to the end."""
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if wanted in line:
            process.send_signal(number)
            break
    rest, _ = process.communicate(timeout=240)
    return seen + rest


@pytest.mark.slow
def test_a_killed_and_resumed_run_is_bit_identical(electra_folder: Path, sst2_folder: Path, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    process = start(electra_folder, sst2_folder, broken)
    stop_at(process, "seed 0  epoch 0.53  step 10/76", signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL and not (broken / "seeds" / "seed-0").exists()
    assert list((broken / "checkpoints" / "seed-0").glob("step-*"))

    process = start(electra_folder, sst2_folder, broken)
    output = stop_at(process, "seed 0  dev: ", signal.SIGTERM)
    assert "resuming from step" in output and process.returncode == 143
    assert (broken / "seeds" / "seed-0").exists() and not (broken / "all_results.json").exists()

    options: dict[str, Any] = {"layer_decay": None, "checkpoint_every": 1000}
    settings = toy_task.settings(whole, sst2_folder, seeds=2, epochs=4.0, **options)
    finetune(str(electra_folder), settings)
    lines: list[str] = []
    finetune(str(electra_folder), replace(settings, out=broken), lines.append)
    assert not any("seed 0  epoch" in line for line in lines)
    for seed in ("seed-0", "seed-1"):
        for name in ("dev.tsv", "test.tsv", "model.safetensors"):
            digests = {durable.sha256(out / "seeds" / seed / name) for out in (whole, broken)}
            assert len(digests) == 1, (seed, name)
        records = [out / "seeds" / seed / "results.json" for out in (whole, broken)]
        # Stops and checkpoints do not change what the loss is averaged over.
        losses = [json.loads(record.read_text())["losses"] for record in records]
        assert losses[0] == losses[1]
    # Digests of the weights: the order of a safetensors file's own notes is not fixed.
    saved = [digest(load_file(out / "model" / "model.safetensors")) for out in (whole, broken)]
    assert saved[0] == saved[1] and not list((broken / "checkpoints").glob("seed-*"))


def test_seeds_can_be_added_and_a_damaged_seed_is_trained_again(electra_folder: Path, tmp_path: Path) -> None:
    data, lines = toy_task.write_classification(tmp_path / "data", train=60, dev=10), list[str]()
    settings = toy_task.settings(tmp_path / "out", data, epochs=0.5)
    first = finetune(str(electra_folder), settings)
    table = tmp_path / "out/seeds/seed-0/dev.tsv"
    before = table.read_bytes()
    table.write_bytes(before[:-1])
    second = finetune(str(electra_folder), replace(settings, seeds=2), lines.append)
    assert any("dev.tsv has" in line and "training seed 0 again" in line for line in lines)
    assert table.read_bytes() == before
    assert second["eval_accuracy_by_seed"][0] == first["eval_accuracy"] and second["seeds"] == [0, 1]
    assert finetune(str(electra_folder), settings) == second, "what is finished stays in the summary"


def test_damaged_baselines_are_refused(
    classified: Path, electra_folder: Path, sst2_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(classified, out := tmp_path / "out")
    settings = toy_task.settings(out, sst2_folder, seeds=2, epochs=4, keep_epoch="best", baselines=True)
    (out / "floors.json").write_text("{")
    with pytest.raises(RunFolderError, match=r"floors\.json"):
        finetune(str(electra_folder), settings)


def test_another_fine_tuning_is_refused_naming_what_differs(
    classified: Path, electra_folder: Path, sst2_folder: Path, tmp_path: Path
) -> None:
    other = toy_task.write_classification(tmp_path / "other", dev=30, test=20)
    settings = toy_task.settings(classified, other, learning_rate=0.1, seeds=2, keep_epoch="best")
    with pytest.raises(RunFolderError) as caught:
        finetune(str(electra_folder), settings)
    assert all(fact in str(caught.value) for fact in ("learning_rate", "0.002", "0.1", "data.dev"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(RunFolderError, match=r"thesis\.tex"):
        finetune(str(electra_folder), toy_task.settings(tmp_path / "full", sst2_folder))
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.tex"]


def test_a_locked_folder_is_refused(electra_folder: Path, sst2_folder: Path, tmp_path: Path) -> None:
    settings = toy_task.settings(tmp_path / "out", sst2_folder)
    with durable.lock(tmp_path / "out"), pytest.raises(RunFolderError, match=str(os.getpid())):
        finetune(str(electra_folder), settings)
