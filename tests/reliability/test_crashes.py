"""Killed before any of its file operations, what is being written is the old or the new, and goes on.

The operations are not listed by hand: a forked process counts each time Python opens a file for writing,
renames, removes or makes something, and each write and fsync of `durable`; then one process for
each of them dies there.
"""

import errno
import json
import os
import shutil
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from contracts import small

from electra.artifacts import checkpoints
from electra.artifacts.ledger import Ledger, Writer
from electra.artifacts.run_files import RunFolder
from electra.exchange.card import Card
from electra.exchange.huggingface import export_network
from electra.exchange.verify import verify
from electra.foundation import durable
from electra.foundation.errors import FullDisk
from electra.model.networks import Networks
from electra.model.pair import build_networks
from electra.testing import toy
from electra.training import checkpoint, loop
from electra.training.assemble import build_run
from electra.training.distributed import World
from electra.training.run import RunState

CHANGED = ("rename", "remove", "rmdir", "mkdir", "chmod", "link", "symlink", "truncate")
CHANGES = {f"os.{name}" for name in CHANGED}
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")


def forked(work: Callable[[], object], at: int) -> int:
    """Carry out `work` in a process that dies before its operation `at`. Its operations; -1 when it died."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, which the child does not use
        child = os.fork()
    if child == 0:
        _in_child(work, at, writing)
    os.close(writing)
    with os.fdopen(reading) as told:
        count = told.read()
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) == (count == ""), (status, count)
    return int(count or -1)


def _in_child(work: Callable[[], object], at: int, told: int) -> NoReturn:
    count = 0

    def tick(torn: Callable[[], object] = lambda: None) -> None:
        nonlocal count
        count += 1
        if count == at:
            torn()
            os.kill(os.getpid(), signal.SIGKILL)

    def heard(event: str, given: tuple[Any, ...]) -> None:
        written = event == "open" and isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR)
        if written or event in CHANGES:
            tick()

    write, fsync = durable.write, durable.fsync

    def writes(path: Path, content: durable.Content) -> None:
        half = content[: len(content) // 2] if isinstance(content, bytes) else b"torn"
        tick(lambda: os.write(os.open(path, os.O_CREAT | os.O_WRONLY), half))
        write(path, content)

    def syncs(path: Path) -> None:
        tick()
        fsync(path)

    try:
        durable.write, durable.fsync = writes, syncs
        sys.addaudithook(heard)
        work()
        os.write(told, str(count).encode())
        os._exit(0)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)


def operations(work: Callable[[], object], anew: Callable[[], object], every: int = 1) -> range:
    """The numbers of its operations, or of every third of them, say."""
    anew()
    total = forked(work, at=-1)
    assert total > 3
    return range(1, total + 1, every)


some_and_all = pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.reliability)])


def kept_copy(folder: Path) -> Callable[[], object]:
    """What puts the folder back to how it is now."""
    kept = folder.with_name(f"{folder.name}-kept")
    shutil.copytree(folder, kept)

    def anew() -> None:
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)

    return anew


@pytest.fixture(scope="module")
def trained() -> RunState:
    run = build_run(toy.recipe(model={"layers": 1, "hidden_size": 64}), Path("nowhere"), toy.store(), World())
    loop.update(run)
    return run


@pytest.mark.parametrize("replaced", ["", "exchanged", "renamed"])
def test_a_kill_while_writing_a_directory_leaves_the_old_or_the_new(
    tmp_path: Path, replaced: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New, exchanged with the old one, and where a file system cannot exchange names."""
    if replaced == "renamed":
        monkeypatch.setattr(durable, "exchange", lambda one, other: False)
    folder = tmp_path / "all" / "model"
    folder.parent.mkdir()
    new: dict[str, durable.Content] = {
        "a.bin": b"x" * 1000,
        "sub/b.txt": lambda path: path.write_bytes(b"new"),
    }

    def commit() -> None:
        durable.commit_directory(folder, new)

    if replaced:
        durable.commit_directory(folder, {"old.txt": b"old"})
    anew = kept_copy(folder.parent)
    for at in operations(commit, anew):
        anew()
        assert forked(commit, at) == -1
        durable.recover(folder)  # as whoever opens it does
        assert folder.exists() or not replaced
        assert not folder.exists() or durable.verify_directory(folder) is None
        commit()
        assert durable.verify_directory(folder) is None
        assert [path.name for path in folder.parent.iterdir()] == ["model"]


@some_and_all
def test_a_kill_while_saving_leaves_a_whole_checkpoint(trained: RunState, tmp_path: Path, every: int) -> None:
    """With `keep=1` there is a whole checkpoint at every moment."""

    def write(step: int) -> None:
        checkpoint.write(tmp_path, trained.pair, trained.optimizer, {"step": step}, keep=1)

    write(1)
    anew = kept_copy(tmp_path)
    for at in operations(lambda: write(2), anew, every):
        anew()
        assert forked(lambda: write(2), at) == -1
        newest, damaged = checkpoints.newest_checkpoint(tmp_path)
        assert newest is not None and newest.step in (1, 2) and not damaged
        durable.remove_leftovers(tmp_path)
        write(2)
        assert [path.name for path in tmp_path.iterdir()] == ["step-00000002"]


def test_a_checkpoint_too_large_for_the_disk_leaves_the_previous_one(
    trained: RunState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("write", "fsync", "rename"):
        shutil.rmtree(tmp_path)
        checkpoint.write(tmp_path, trained.pair, trained.optimizer, {"step": 1}, keep=1)

        def full(*given: Any) -> NoReturn:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(durable, name, full)
            with pytest.raises(FullDisk):
                checkpoint.write(tmp_path, trained.pair, trained.optimizer, {"step": 2}, keep=1)
        newest, damaged = checkpoints.newest_checkpoint(tmp_path)
        assert newest is not None and newest.step == 1 and not damaged


@some_and_all
def test_a_kill_while_exporting_leaves_the_old_or_the_new_model(tmp_path: Path, every: int) -> None:
    words = small.tokenizer(tmp_path)
    config = toy.config(vocab_size=words.vocab_size, max_positions=24, num_layers=1)
    old, new = (build_networks(Networks.pair(config), seed=seed).main for seed in (1, 2))
    folder = tmp_path / "out" / "model"

    def export(network: Any = new) -> None:
        export_network(folder, network, words, Card("model", "discriminator"))

    folder.parent.mkdir()
    export(old)
    anew = kept_copy(folder.parent)
    for at in operations(export, anew, every):
        anew()
        assert forked(export, at) == -1
        durable.recover(folder)  # as whoever opens it does
        assert not [finding for finding in verify(folder) if finding.problem]
        export()
        assert [path.name for path in folder.parent.iterdir()] == ["model"]
        assert not [finding for finding in verify(folder) if finding.problem]


def test_a_kill_while_resuming_a_ledger_loses_no_row(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    rows = [{"kind": "train", "step": step, "loss": float(step)} for step in range(1, 7)]

    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    anew = kept_copy(tmp_path)

    def resume() -> None:
        writer = Writer(path, 3)
        writer.add(rows[3])
        writer.close()

    for at in operations(resume, anew):
        anew()
        assert forked(resume, at) == -1
        found, beside = Ledger.read(path), Ledger.read(path.with_suffix(".cut.jsonl"))
        assert found.rows[:3] == rows[:3] and not found.notes
        assert {row["step"] for row in [*found.rows, *beside.rows]} == set(range(1, 7)), "no row is lost"
        resume()
        assert Ledger.read(path).rows == rows[:4]


def test_a_kill_while_writing_a_record_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")

    run.path.mkdir()
    run.metrics.write_text('{"kind": "train", "step": 1}\n')
    run.write_record({"model": {"size": "tiny"}})
    anew = kept_copy(run.path)

    def changed() -> None:
        run.write_record({"model": {"size": "mini"}})

    for at in operations(changed, anew):
        anew()
        assert forked(changed, at) == -1
        assert run.record["model"]["size"] in ("tiny", "mini")
        assert not [finding for finding in verify(run.path) if finding.problem]
        changed()
        durable.remove_leftovers(run.path)
        assert sorted(path.name for path in run.path.iterdir()) == ["metrics.jsonl", "run.toml"]
