"""Pieces of work: finished once, locked while they are made, named when they fail, resumed after any end."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from electra.foundation.errors import ConfigError, ElectraError, Interrupted
from electra.foundation.work import Piece, run_pieces, unfinished

SCRIPT = Path(__file__).with_name("work_script.py")


def piece(root: Path, name: str, work: Callable[..., object] | None = None) -> Piece:
    folder = root / name

    def finish(*, say: Any, stop: Any) -> None:
        folder.mkdir(parents=True)
        say(name)
        (folder / "record").touch()

    return Piece(name, folder, "record", work or finish)


def start(*words: object, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, SCRIPT, *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, start_new_session=True, **pipes, **options)


def wait_for(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def numbers(root: Path, name: str) -> set[str]:
    return {path.name for path in (root / name).glob("*")}


def test_in_order_once_and_failures_by_name(tmp_path: Path) -> None:
    def refuse(*, say: Any, stop: Any) -> None:
        raise ConfigError("no")

    pieces = [piece(tmp_path, "a"), piece(tmp_path, "b", refuse), piece(tmp_path, "c")]
    lines: list[str] = []
    ended: list[tuple[str, ElectraError | None]] = []
    failures = run_pieces(
        pieces, say=lines.append, ended=lambda piece, error: ended.append((piece.name, error))
    )
    assert list(failures) == ["b"] and isinstance(failures["b"], ConfigError)
    assert lines == ["a", "c"] and ended == [("a", None), ("b", failures["b"]), ("c", None)]
    assert unfinished(pieces) == ["b"]
    assert list(run_pieces(pieces, say=lines.append)) == ["b"] and lines == ["a", "c"]


def test_a_piece_that_writes_no_record_is_a_bug(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        run_pieces([piece(tmp_path, "a", lambda say, stop: None)])


def test_a_stop_between_pieces_and_inside_one(tmp_path: Path) -> None:
    stopping: list[bool] = []

    def stop_here(*, say: Any, stop: Any) -> None:
        stopping.append(True)
        if stop():
            raise Interrupted(tmp_path)

    pieces = [piece(tmp_path, "a"), piece(tmp_path, "b", stop_here), piece(tmp_path, "c")]
    with pytest.raises(Interrupted):
        run_pieces(pieces, stop=lambda: bool(stopping))
    assert unfinished(pieces) == ["b", "c"]


def test_what_another_process_does_is_waited_for(tmp_path: Path) -> None:
    other = start(tmp_path, 1, "p0=slow")
    wait_for(lambda: "0" in numbers(tmp_path, "p0"))
    pieces = [piece(tmp_path, name) for name in ("p0", "p1", "p2", "p3")]
    assert unfinished(pieces) == ["p0 (in progress)", "p1", "p2", "p3"]
    threading.Timer(1.5, other.kill).start()  # a killed process's piece is free at once
    done = []
    pieces[0] = piece(tmp_path, "p0", lambda say, stop: (tmp_path / "p0" / "record").touch())
    assert not run_pieces(pieces, ended=lambda piece, error: done.append(piece.name))
    assert done == ["p1", "p2", "p3", "p0"]
    other.communicate()
    assert not list(tmp_path.glob(".*"))


def test_workers_of_a_script_without_a_main_guard_and_on_stdin(tmp_path: Path) -> None:
    words = ("a=refused", "b=killed", "c=bug")
    output, errors = start(tmp_path, 2, *words).communicate()
    failures = ast.literal_eval(output.partition("failures:")[2].strip())
    assert failures == {"a": "ConfigError", "b": "RunFailed", "c": "RunFailed"}
    # p0 may end with a record while its neighbour is killed, and its lines be lost
    assert (tmp_path / "p0" / "record").exists() and "ZeroDivisionError" in errors
    script = SCRIPT.read_text(encoding="utf-8")
    command = [sys.executable, "-", str(tmp_path / "stdin"), "2"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=True)
    assert "p0: well, with" in done.stdout and "failures: {}" in done.stdout and not done.stderr


@pytest.mark.parametrize(
    ("number", "to_group"),
    [(signal.SIGTERM, False), pytest.param(signal.SIGINT, True, marks=pytest.mark.slow)],
)
def test_signals_stop_all_workers_and_the_rerun_resumes(
    tmp_path: Path, number: signal.Signals, to_group: bool
) -> None:
    words = (tmp_path, 2, "a=slow", "b=slow")
    process = start(*words)
    wait_for(lambda: {"0"} <= numbers(tmp_path, "a") & numbers(tmp_path, "b"))
    (os.killpg if to_group else os.kill)(process.pid, number)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted" in output and errors.count("\n") == 1
    begun = len(numbers(tmp_path, "a"))
    assert begun < 10 and not numbers(tmp_path, "p0") and not list(tmp_path.glob(".*"))


def test_workers_of_a_killed_process_end(tmp_path: Path) -> None:
    process = start(tmp_path, 2, "a=slow", "b=slow")
    wait_for(lambda: {"0"} <= numbers(tmp_path, "a") & numbers(tmp_path, "b"))
    process.kill()
    process.communicate(timeout=60)  # until its pipes are closed, which the workers hold open too
    assert len(numbers(tmp_path, "a")) < 10
