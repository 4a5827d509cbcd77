"""Nothing that a folder or a TOML file of others says is run: users name code themselves, each time."""

import hashlib
import json
import shutil
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from electra.commands.framework.main import main

FIXTURES = Path(__file__).parents[1] / "fixtures"
RUN, TUNED = "old-run-rtd", "old-finetuning"
EVIL = """
from pathlib import Path
Path(__file__).with_name("RAN").touch()
from electra.objectives.rtd import Config, Objective
from electra.finetuning.tasks.classification import TASK
"""
RESUME = ["--recipe", "tiny", "--training.steps", "6", "--model.layers", "1", "--training.threads", "1"]
COMMANDS = {
    RUN: [
        ["verify", RUN, "--replay", "2"], ["extend", RUN, "--budget", "9steps"],
        ["pretrain", "--out", RUN, "--store", f"{RUN}/store", *RESUME],
        ["verify", RUN],
        ["pretrain", "--recipe", f"{RUN}/run.toml", "--store", f"{RUN}/store", "--out", "new", "--dry-run"],
        ["pretrain", "--init", RUN, "--store", f"{RUN}/store", "--out", "new", "--dry-run"],
        ["report", RUN], ["show", RUN], ["detect", RUN, "a film"], ["embed", RUN, "a film"],
        ["export", RUN, "exported"], ["export", RUN, "graph", "--format", "onnx"],
        ["finetune", RUN, "--task", "classification", "--data", "old-reviews", "--out", "t"],
        ["analyze", RUN, "--probe", "calibration", "--out", "analysis"],
    ],
    TUNED: [
        ["predict", TUNED, "old-reviews/dev.csv"], ["predict", f"{TUNED}/model", "old-reviews/dev.csv"],
        ["export", TUNED, "graph", "--format", "onnx"], ["report", TUNED], ["verify", TUNED],
        ["embed", f"{TUNED}/model", "a film"],
        ["finetune", RUN, "--task", "classification", "--data", "old-reviews", "--out", TUNED, "--seeds", "2",
         "--batch-size", "16", "--epochs", "2", "--max-length", "24"],
    ],
}  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (RUN, TUNED, "old-reviews"):
        shutil.copytree(FIXTURES / name, tmp_path / name)
    shutil.copy(FIXTURES / "old-corpus.txt", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def records(folder: Path) -> Iterator[Path]:
    """Every JSON and TOML file of a folder but tokenizers and manifests."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".json", ".toml") and path.name not in ("manifest.json", "tokenizer.json"):
            yield path


def rewrite(path: Path, change: Callable[[Any], Any]) -> None:
    """Change a record as an attacker would, with the manifests around it made to fit."""
    read, write = (tomllib.loads, tomli_w.dumps) if path.suffix == ".toml" else (json.loads, json.dumps)
    path.write_text(write(change(read(path.read_text()))))
    for folder in path.parents:
        manifest = folder / "manifest.json"
        if manifest.exists():
            listing = json.loads(manifest.read_text())
            for name, entry in listing["files"].items():
                content = (folder / name).read_bytes()
                entry |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            manifest.write_text(json.dumps(listing))


def with_strings(value: Any, evil: str) -> Any:
    """The value with each string in it replaced."""
    if isinstance(value, dict):
        return {key: with_strings(inner, evil) for key, inner in value.items()}
    if isinstance(value, list):
        return [with_strings(inner, evil) for inner in value]
    return evil if isinstance(value, str) else value


def run_all(folder: str, evil: Path) -> None:
    for words in COMMANDS[folder]:
        with suppress(Exception):  # records of nonsense may fail in any way: what counts is what ran
            main(words)
        assert not evil.with_name("RAN").exists(), words


@pytest.mark.slow
@pytest.mark.parametrize("folder", COMMANDS)
def test_a_folder_whose_records_name_a_file_runs_nothing(place: Path, folder: str) -> None:
    evil = place / folder / "evil.py"
    evil.write_text(EVIL)
    for path in records(place / folder):
        rewrite(path, lambda record: with_strings(record, str(evil)))
    run_all(folder, evil)


ARMS = '[arms.a]\nobjective.name = "evil.py"\n[arms.b]\nobjective.name = "rtd"\n'
TOML = {  # what is typed, {} being the file -> what the file says
    f"pretrain --recipe {{}} --store {RUN}/store --out new --dry-run": '[objective]\nname = "evil.py"\n',
    f"ablate {{}} --store {RUN}/store --out study --dry-run": f'baseline = "a"\n{ARMS}',
    f"evaluate {RUN} --suite {{}} --data old-reviews --out made": (
        'title = "x"\n[[task]]\nname = "a"\ntask = "./evil.py"\n'
    ),
}


@pytest.mark.parametrize("typed", TOML)
def test_a_toml_file_that_names_code_runs_nothing(place: Path, capsys: pytest.CaptureFixture[str], typed: str) -> None:
    (place / "evil.py").write_text(EVIL)
    (place / "x.toml").write_text(TOML[typed])
    assert main(typed.format("x.toml").split()) == 2
    assert not (place / "RAN").exists() and "is not run" in capsys.readouterr().err


def test_code_that_the_user_names_runs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same commands, with the file named by an option or in Python."""
    (place / "mine.py").write_text(EVIL)
    rewrite(place / TUNED / "finetune.json", lambda record: record | {"task": "/away/mine.py"})
    predict = ["predict", TUNED, "old-reviews/dev.csv", "--out", "p.tsv"]
    assert main(predict) == 2 and "--task FILE" in capsys.readouterr().err
    assert main([*predict, "--task", "mine.py"]) == 0 and (place / "RAN").exists()
    assert main([*predict, "--task=rtd"]) == 2  # not a file
