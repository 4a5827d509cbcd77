"""Logged updates that are done once more give what was recorded, or what was changed since is told."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from driven import command, complete
from safetensors.torch import load_file, save

from electra.artifacts.run_files import RunFolder
from electra.commands.framework.main import main
from electra.data.corpus.store import TokenStore
from electra.foundation import durable
from electra.foundation.config import merge
from electra.foundation.errors import CheckpointError, ConfigError
from electra.foundation.signals import StopRequest
from electra.testing import toy
from electra.training import loop
from electra.training.assemble import start
from electra.training.distributed import World
from electra.training.replay import replay
from electra.training.starts import Starts


def train(folder: Path, starts: Starts | None = None, **sections: Any) -> RunFolder:
    settings = {"steps": 12, "checkpoint_every": 3, "evaluate_every": 12}
    recipe = toy.recipe(**merge({"training": settings, "model": {"layers": 1}}, sections))
    with start(recipe, folder, toy.store(), World(), starts=starts) as run, StopRequest() as stop:
        assert loop.train(run, stop)
    return RunFolder(folder)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("finished")).path


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> RunFolder:
    return RunFolder(shutil.copytree(finished, tmp_path / "copy"))


def problems(run: RunFolder, steps: int = 3, store: TokenStore | None = None) -> dict[str, str]:
    return {f.path.name: f.problem for f in replay(run, store or toy.store(), steps) if f.problem}


def edit(run: RunFolder, step: int, change: Callable[[dict[str, Any]], None]) -> None:
    rows = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    change(next(row for row in rows if row["kind"] == "train" and row["step"] == step))
    run.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_replaying_an_unchanged_run_finds_nothing_and_writes_nothing(run: RunFolder) -> None:
    def contents() -> dict[Path, tuple[int, bytes]]:
        files = sorted(path for path in run.path.rglob("*") if path.is_file())
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    before = contents()
    assert [(finding.path.name, finding.problem) for finding in replay(run, toy.store(), 3)] == [
        ("step-00000009", ""),
        ("metrics.jsonl", ""),
        ("metrics.jsonl", ""),
        ("step-00000012", ""),
    ]
    assert "weights are not compared" in replay(run, toy.store(), 1)[-1].what
    assert contents() == before


def test_changed_lines_tokens_and_weights_are_found(run: RunFolder) -> None:
    kept = run.metrics.read_bytes()
    edit(run, 11, lambda row: row.update(batch_digest="0123456789abcdef"))
    assert problems(run)["metrics.jsonl"].startswith("step 11: batch_digest 0123456789abcdef in the ledger, ")
    run.metrics.write_bytes(kept)
    edit(run, 12, lambda row: row["losses"].update(rtd=row["losses"]["rtd"] * (1 + 1e-12)))
    assert problems(run)["metrics.jsonl"].startswith("step 12: losses {")
    run.metrics.write_bytes(kept)

    store = toy.store()
    rows = toy.batches().batch(10, 8).input_ids  # of the update that finished step 11
    piece = max((row[1 : row.tolist().index(toy.SPECIALS.sep)] for row in rows), key=len)
    tokens = store.train.tokens.copy()
    [place] = [i for i in range(len(tokens)) if tokens[i : i + len(piece)].tolist() == piece.tolist()]
    tokens[place] ^= 1
    other = replace(store, train=replace(store.train, tokens=tokens))
    assert set(problems(run, store=other)) == {"metrics.jsonl", "step-00000012"}

    saved = run.saved_checkpoints()[0]
    weights = load_file(saved.weights)
    name = max(weights)
    weights[name] = weights[name] + 1e-6
    files = {path.name: path.read_bytes() for path in (saved.state, saved.optimizer)}
    durable.commit_directory(saved.path, {**files, saved.weights.name: save(weights)})
    assert name in problems(run)["step-00000012"]


def test_too_few_checkpoints_or_updates_are_refused(run: RunFolder) -> None:
    with pytest.raises(CheckpointError, match="9, 12"):
        replay(run, toy.store(), 4)
    shutil.rmtree(run.saved_checkpoints()[1].path)
    with pytest.raises(CheckpointError, match=r"training\.keep"):
        replay(run, toy.store(), 3)
    with pytest.raises(ConfigError):
        replay(run, toy.store(), 0)


@pytest.mark.slow
def test_a_warm_started_run_is_replayed_without_its_sources(tmp_path: Path) -> None:
    with start(toy.recipe(), tmp_path / "shape", toy.store(), World()) as shape:
        config = replace(shape.pair.main.encoder.config, num_layers=3)
    starts = Starts({"discriminator": "there"}, {"discriminator": config})
    assert not problems(train(tmp_path / "second", starts))


@pytest.mark.slow
def test_the_command_replays_a_run(
    toy_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    complete(command(toy_store, out))
    assert main(["verify", str(out), "--replay", "4"]) == 0
    edit(RunFolder(out), 22, lambda row: row.update(loss=1.0))
    capsys.readouterr()
    assert main(["verify", str(out), "--replay", "4"]) == 1
    said = [line.split()[0] for line in capsys.readouterr().out.splitlines() if "metrics.jsonl" in line]
    assert [word for word in said if word in ("ok", "DIFFERS")][-2:] == ["ok", "DIFFERS"]
    assert main(["verify", str(out), "--replay", "4", "--store", str(out)]) == 2
    assert "not a token store" in capsys.readouterr().err


@pytest.mark.parametrize("changed", [{"threads": 2}, {"micro_batch": 2}, {"compile": "on"}])
@pytest.mark.slow
def test_a_replay_ends_where_the_run_was_resumed_under_other_conditions(
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
    for steps in (3, 9):  # from steps 9 and 3
        assert problems(run, steps) == {}
    assert replay(run, toy.store(), 9)[0].what == "replayed to step 6"
    edit(run, 5, lambda row: row.update(loss=1.0))
    assert problems(run, 9) != {}, "what was promised is still compared"


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
