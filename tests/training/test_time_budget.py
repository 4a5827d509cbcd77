"""A clock that is set back changes nothing but the times in log.txt: durations are of one that cannot be."""

from __future__ import annotations

import ast
import itertools
import time
from pathlib import Path

import pytest
from driven import fingerprint

import electra
from electra.artifacts.run import RunFolder
from electra.artifacts.session import log_line
from electra.foundation import durable
from electra.foundation.signals import StopRequest
from electra.testing import toy
from electra.training import loop
from electra.training.distributed import World
from electra.training.start import start

WALL = {f"time.{name}" for name in ("time", "time_ns", "localtime", "gmtime", "ctime", "strftime", "asctime")}
WALL |= {"datetime.now", "datetime.datetime.now", "datetime.utcnow", "date.today", "time.clock_gettime"}
FILES = {"st_mtime", "st_mtime_ns", "st_ctime", "st_atime", "getmtime"}
READERS = {
    ("artifacts/session.py", "time.strftime"),  # log.txt
    ("foundation/extensions.py", "f.stat().st_mtime_ns"),  # has a package been installed since?
    # how long a run has been silent, and when it began
    ("exchange/trackers/following.py", "(run / folder.RECORD).stat().st_mtime"),
    ("exchange/trackers/following.py", "(folder.path / folder.RECORD).stat().st_mtime"),
}


def test_only_three_readers_know_the_time_of_day() -> None:
    source = Path(electra.__file__).parent
    asked = set()
    for path in source.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if not any(word in text for word in ("time", "date", *FILES)):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and (node.attr in FILES or ast.unparse(node) in WALL):
                asked.add((str(path.relative_to(source)), ast.unparse(node)))
            if isinstance(node, ast.ImportFrom) and node.module in ("time", "datetime"):
                names = {alias.name for alias in node.names}
                assert names <= {"timedelta", "monotonic", "perf_counter", "sleep"}, (path, names)
    assert asked == READERS


@pytest.fixture
def backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the wall clock is a day before the last one."""
    days = itertools.count()
    real = time.time()
    monkeypatch.setattr(time, "time", lambda: real - 86_400 * next(days))
    shown = time.strftime
    monkeypatch.setattr(time, "strftime", lambda form: shown(form, time.gmtime(time.time())))


def train(folder: Path, stop_at: int | None = None) -> None:
    recipe = toy.recipe(training={"steps": 8, "evaluate_every": 99, "checkpoint_every": 4})
    with start(recipe, folder, toy.store(), World()) as run, StopRequest():
        assert loop.train(run, lambda: run.step == stop_at) == (stop_at is None)


@pytest.mark.slow
def test_a_run_is_not_affected_by_a_clock_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    train(tmp_path / "steady")
    request.getfixturevalue("backwards")
    train(tmp_path / "back", stop_at=3)
    train(tmp_path / "back")
    assert fingerprint(tmp_path / "back")["ledger"] == fingerprint(tmp_path / "steady")["ledger"]
    rows = RunFolder(tmp_path / "back").ledger().rows_of_kind("train")
    seconds = [row["seconds"] for row in rows]
    assert len(rows) > 4 and seconds == sorted(seconds) and all(row["tokens_per_s"] > 0 for row in rows)
    dates = [line[:10] for line in (tmp_path / "back" / "log.txt").read_text().splitlines()]
    assert dates == sorted(dates, reverse=True) and len(set(dates)) > 1, "it did go back"


@pytest.mark.usefixtures("backwards")
def test_locks_and_logs_work_with_a_clock_set_back(tmp_path: Path) -> None:
    for _ in range(2):
        with durable.lock(tmp_path):
            log_line(tmp_path / "log.txt", "a line")
    assert (tmp_path / "log.txt").read_text().count("a line") == 2
