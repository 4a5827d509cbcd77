"""Curves in experiment trackers, read back with their own libraries: complete, once each.

TensorBoard is part of the development setup; the others are tested if they are installed.
"""

from __future__ import annotations

import importlib.util
import json
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import electra
from electra.artifacts.ledger import Writer
from electra.commands.framework.main import main
from electra.exchange.trackers import following

TOML = (
    '[training]\nsteps = 9\nseed = 3\n[data]\nunit = "file"\n[environment]\ncommand = "--corpus /home/me"\n'
)
Values = dict[tuple[str, int], float]


def train(step: int) -> dict[str, Any]:
    place = {"step": step, "tokens": 10 * step, "flops": 1e6, "seconds": 0.5 * step}
    return {"kind": "train", **place, "loss": 9.0 - step, "losses": {"rtd": 1 / step}}


def held_out(step: int) -> dict[str, Any]:
    return {"kind": "eval", "step": step, "tokens": 10 * step, "metrics": {"auc": step / 10, "recall": None}}


def ended() -> dict[str, Any]:
    return {"kind": "event", "step": 9, "event": "finished", "message": ""}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "run.toml").write_text(TOML, encoding="utf-8")
    (folder / "metrics.jsonl").touch()
    add(folder, [held_out(0), train(1), train(2), train(3), held_out(3)])
    return folder


def add(run: Path, rows: list[dict[str, Any]]) -> None:
    with open(run / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def expected(steps: int, evals: tuple[int, ...]) -> Values:
    rows = {("train/loss", step): 9.0 - step for step in range(1, steps + 1)}
    rows |= {("train/losses/rtd", step): 1 / step for step in range(1, steps + 1)}
    return rows | {("heldout/auc", step): step / 10 for step in evals}


def in_tensorboard(out: Path) -> Iterator[tuple[str, int, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(out / "mine"))
    read.Reload()
    assert "training.seed | `3`" in read.Tensors("recipe")[0].tensor_proto.string_val[0].decode()
    for tag in read.Tags()["scalars"]:
        yield from ((tag, one.step, one.value) for one in read.Scalars(tag))


def in_mlflow(out: Path) -> Iterator[tuple[str, int, float]]:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{out.absolute()}/mlflow.db")
    [actual] = client.search_runs([client.get_experiment_by_name("electra").experiment_id])
    assert actual.data.params["training.seed"] == "3" and actual.info.run_name == "mine"
    for key in actual.data.metrics:
        yield from ((key, one.step, one.value) for one in client.get_metric_history(actual.info.run_id, key))


def in_trackio(out: Path) -> Iterator[tuple[str, int, float]]:
    from trackio.sqlite_storage import SQLiteStorage

    for row in SQLiteStorage.get_logs("electra", "mine"):
        yield from ((key, row["step"], value) for key, value in row.items() if "/" in key)


def in_wandb(out: Path) -> Iterator[tuple[str, int, float]]:
    from wandb.proto.wandb_internal_pb2 import Record

    for path in sorted(out.glob("wandb/offline-run-*/*.wandb")):
        content, at, whole = path.read_bytes(), 7, b""
        while at + 7 <= len(content):  # LevelDB's log: (checksum, length, kind of piece), in blocks of 32 KiB
            length, kind = struct.unpack("<HB", content[at + 4 : at + 7])
            at, whole = at + 7 + length, whole + content[at + 7 : at + 7 + length]
            at += -at % 32768 if -at % 32768 < 7 else 0
            if kind in (1, 4):  # a whole one, or the last of several
                record, whole = Record.FromString(whole), b""
                items = {
                    one.nested_key[0] if one.nested_key else one.key: one.value_json
                    for one in record.history.item
                }
                step = int(items.get("_step", 0))
                yield from ((key, step, json.loads(value)) for key, value in items.items() if "/" in key)


def found(tracker: str, out: Path) -> Values:
    values: Values = {}
    for key, step, value in globals()[f"in_{tracker}"](out):
        if key.endswith(("/tokens", "/flops")):
            continue
        assert (key, step) not in values, "sent twice"
        values[key, step] = value
    return values


@pytest.mark.parametrize("tracker", ["tensorboard", "mlflow", "trackio", "wandb"])
@pytest.mark.filterwarnings("ignore")  # theirs
def test_curves_arrive_once(tracker: str, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec(tracker) is None:  # not imported here: one of them reads its folder then
        pytest.skip(f"needs {tracker}")
    monkeypatch.setattr(following, "POLL_SECONDS", 0.05)
    for name in ("WANDB_MODE", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    out = tmp_path / "out"
    assert electra.log(run, to=tracker, out=out) == 5  # type: ignore[arg-type]
    assert electra.log(run, to=tracker, out=out) == 0  # type: ignore[arg-type]
    add(run, [train(4)])
    Writer(run / "metrics.jsonl", 2).close()  # resumed from a checkpoint before what was sent
    following_it = threading.Thread(
        target=electra.log, args=(run, tracker), kwargs={"out": out, "follow": True}
    )
    following_it.start()
    add(run, [train(3), held_out(3), train(4), train(5)])
    following_it.join(timeout=0.5)
    assert following_it.is_alive(), "the run goes on"
    add(run, [train(6), held_out(6), ended()])
    following_it.join(timeout=20)
    assert not following_it.is_alive()
    until = time.monotonic() + 10  # a process of wandb's own writes
    while len(found(tracker, out)) < 15 and time.monotonic() < until:
        time.sleep(0.2)
    assert found(tracker, out) == pytest.approx(expected(6, (0, 3, 6)))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["mine", "--to", "nowhere"], "--to"),
        (["gone", "--to", "tensorboard"], "no such folder"),
        ([".", "--to", "tensorboard"], "not a run"),
        (
            ["mine", "--to", "wandb"],
            "wandb is not installed. Install it, in a clone of electra: pip install '.[wandb]'",
        ),
        (["other", "--to", "tensorboard", "--name", "mine"], "another run named mine"),
    ],
)
def test_wrong_input_is_one_line(
    run: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    pytest.importorskip("tensorboard")
    monkeypatch.chdir(run.parent)
    if "wandb" in words:
        absent = lambda name, *more: None if name == "wandb" else find_spec(name, *more)  # noqa: E731
        find_spec = importlib.util.find_spec
        monkeypatch.setattr(importlib.util, "find_spec", absent)
    if "other" in words:
        electra.log("mine", to="tensorboard")
        Path("other").mkdir()
        Path("other", "run.toml").write_text(TOML, encoding="utf-8")
        add(Path("other"), [train(2)])
    assert main(["log", *words]) == 2
    error = capfd.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not Path("wandb").exists()


def test_each_seed_of_a_fine_tuning_is_a_run(tmp_path: Path) -> None:
    """Losses, dev after each epoch, and every split's scores at the end, read back by TensorBoard itself."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder, out = tmp_path / "sst", tmp_path / "out"
    for seed in (0, 3):
        results = {
            "steps": 20,
            "seconds": 40.0,
            "losses": [[10, 0.5 + seed], [20, 0.25]],
            "epochs": [{"epoch": 1, "accuracy": 0.5}, {"epoch": 2, "accuracy": 0.75}],
            "eval": {"loss": 1.5, "accuracy": 0.75, "f1": None, "reasons": {"f1": "one class"}},
            "others": {"test": {"loss": 2.5, "accuracy": 0.625, "reasons": {}}},
        }
        (folder / "seeds" / f"seed-{seed}").mkdir(parents=True)
        (folder / "seeds" / f"seed-{seed}" / "results.json").write_text(json.dumps(results))
        (folder / "seeds" / f"seed-{seed}" / "manifest.json").write_text("{}")
    (folder / "finetune.json").write_text(json.dumps({"settings": {"task": "sst2", "epochs": 2}}))
    assert electra.log(folder, to="tensorboard", out=out) == 2 * 6
    assert electra.log(folder, to="tensorboard", out=out) == 0
    for seed in (0, 3):
        read = EventAccumulator(str(out / f"sst-seed-{seed}"))
        read.Reload()
        actual = {tag: [(one.step, one.value) for one in read.Scalars(tag)] for tag in read.Tags()["scalars"]}
        assert actual == {
            "train/loss": [(10, 0.5 + seed), (20, 0.25)],
            "dev/accuracy": [(10, 0.5), (19, 0.75), (20, 0.75)],
            "dev/loss": [(20, 1.5)],
            "test/accuracy": [(20, 0.625)],
            "test/loss": [(20, 2.5)],
        }
