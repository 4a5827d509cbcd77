"""Pieces of work: finished once, locked while they are made, named when they fail, resumed after any end."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from electra.foundation.errors import ConfigError, ElectraError, Interrupted
from electra.foundation.work import Piece, run_pieces


def piece(root: Path, name: str, work: Callable[..., object] | None = None) -> Piece:
    folder = root / name

    def finish(*, say: Any, stop: Any) -> None:
        folder.mkdir(parents=True)
        say("done")
        (folder / "record").touch()

    return Piece(name, folder, "record", work or finish)


def unfinished(pieces: list[Piece]) -> list[str]:
    return [each.name for each in pieces if not each.is_finished()]


def test_in_order_once_and_failures_by_name(tmp_path: Path) -> None:
    def refuse(*, say: Any, stop: Any) -> None:
        raise ConfigError("no")

    pieces = [piece(tmp_path, "a"), piece(tmp_path, "b", refuse), piece(tmp_path, "c")]
    lines: list[str] = []
    ended: list[tuple[str, ElectraError | None]] = []
    failures = run_pieces(pieces, say=lines.append, ended=lambda piece, error: ended.append((piece.name, error)))
    assert list(failures) == ["b"] and isinstance(failures["b"], ConfigError)
    assert lines == ["a: done", "c: done"] and ended == [("a", None), ("b", failures["b"]), ("c", None)]
    assert unfinished(pieces) == ["b"]
    assert list(run_pieces(pieces, say=lines.append)) == ["b"] and lines == ["a: done", "c: done"]


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
    between = [piece(tmp_path, name) for name in ("x", "y")]
    with pytest.raises(Interrupted):
        run_pieces(between, stop=between[0].is_finished)
    assert unfinished(between) == ["y"]


OTHER = """
import time
from pathlib import Path
from electra.foundation.work import Piece, run_pieces

def work(*, say, stop):
    folder.mkdir()
    time.sleep(60)

folder = Path("p0").absolute()
run_pieces([Piece("p0", folder, "record", work)])
"""


def test_what_another_process_does_is_waited_for(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", OTHER], cwd=tmp_path)
    pieces = [piece(tmp_path, name) for name in ("p0", "p1", "p2", "p3")]
    while not pieces[0].folder.exists():
        assert other.poll() is None
        time.sleep(0.05)
    threading.Timer(1.5, other.kill).start()  # a killed process's piece is free at once
    done = []
    pieces[0] = piece(tmp_path, "p0", lambda say, stop: (tmp_path / "p0" / "record").touch())
    assert not run_pieces(pieces, ended=lambda piece, error: done.append(piece.name))
    assert done == ["p1", "p2", "p3", "p0"]
    other.wait()
    assert not list(tmp_path.glob(".*"))
