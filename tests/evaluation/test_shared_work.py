"""One evaluation by several processes that share its folder: each piece is done once, by whoever lives."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from driven import machine
from test_evaluate import SUITE, arguments, read, without_times

from electra.artifacts.evaluation import EvaluationFolder
from electra.commands.framework.main import main
from electra.foundation.leases import Leases

pytestmark = pytest.mark.slow

SBATCH = """#!{python}
# Stands for sbatch --wait: runs the script once for each task of the array.
import subprocess, sys
words = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
assert "--wait" in sys.argv and words["--partition"] == "cpu"
print("4711;cluster", flush=True)
script, last = sys.stdin.read(), int(words["--array"].partition("-")[2])
logs = [words["--output"].replace("%A", "4711").replace("%a", str(n)) for n in range(last + 1)]
tasks = [subprocess.Popen(["sh", "-c", script], stdout=open(log, "w"), stderr=-2) for log in logs]
sys.exit(max(task.wait() for task in tasks))
"""


@pytest.fixture(scope="module")
def words(model: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    suite = tmp_path_factory.mktemp("suite") / "toys.toml"
    suite.write_text(SUITE)
    return arguments(model, data, suite, Path("OUT"), "--seeds", "2", "--untrained-baseline")


@pytest.fixture(scope="module")
def alone(words: Sequence[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("alone") / "out"
    assert main(into(words, out)) == 0
    return without_times(read(out))


def into(words: Sequence[str], out: Path, *more: str) -> list[str]:
    return [str(out) if word == "OUT" else word for word in words] + list(more)


def begun(line: str) -> bool:
    return " seed 0 " in line


def test_of_two_machines_one_is_killed_and_the_other_does_the_rest(
    words: list[str], alone: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    # Started at once: on a busy machine, one could do all the work while the other starts.
    first, second = (machine(into(words, out), tmp_path / name) for name in ("first", "second"))
    assert first.stdout is not None and second.stdout is not None
    next(line for line in first.stdout if begun(line))
    theirs = next(line for line in second.stdout if begun(line))
    first.send_signal(signal.SIGKILL)
    mine = first.communicate()[0]
    rest, _ = second.communicate(timeout=240)
    assert second.returncode == 0, rest
    assert without_times(read(out)) == alone
    assert theirs.partition(":")[0] not in mine or "already done" in rest
    assert not EvaluationFolder(out).leases.exists()


def test_what_is_left_is_told_with_who_is_doing_it(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    lease = Leases(EvaluationFolder(out).task("toy", "again").leases).take("seed 1")
    assert lease is not None
    assert main(into(words, out, "--missing")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 12, "two seeds of three tasks of two models"
    [held] = [line for line in lines if str(os.getpid()) in line]
    assert held.startswith("again, toy, seed 1 ")
    assert not (out / "evaluation.json").exists()
    lease.release()
    shutil.rmtree(out)
    assert main(into(words, out)) == 0
    capsys.readouterr()
    assert main(into(words, out, "--missing")) == 0 and capsys.readouterr().out == ""


def test_a_stopped_command_leaves_its_pieces_to_others(words: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = machine(into(words, out), tmp_path / "home")
    assert process.stdout is not None
    next(line for line in process.stdout if begun(line))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == 143
    began = time.monotonic()
    assert main(into(words, out)) == 0
    assert time.monotonic() - began < 60  # nothing is waited for


def test_slurm_runs_copies_and_the_result_is_that_of_one_process(
    words: list[str], alone: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, out = tmp_path / "bin", tmp_path / "out"
    programs.mkdir()
    (programs / "sbatch").write_text(SBATCH.format(python=sys.executable))
    (programs / "sbatch").chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    options = ["--engine", "slurm", "--copies", "3", "--engine-options=--partition=cpu"]
    assert main(into(words, out, *options)) == 0
    assert without_times(read(out)) == alone
    logs = [log.read_text() for log in (out / ".engine").glob("4711_*.log")]
    assert len(logs) == 3 and sum(begun(line) for log in logs for line in log.splitlines()) >= 6


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--engine", "slurm"], 2),  # no sbatch here
        (["--engine", "nothing"], 2),
        (["--engine", "slurm", "--copies", "0"], 2),
    ],
)
def test_an_engine_that_cannot_be_used_is_refused_before_anything_is_written(
    options: list[str], code: int, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    out = tmp_path / "out"
    assert main(into(words, out, *options)) == code
    assert not out.exists()


def test_other_settings_on_the_same_folder_are_refused_while_it_is_at_work(
    words: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = machine(into(words, out), tmp_path / "home")
    assert process.stdout is not None
    next(line for line in process.stdout if begun(line))
    other = subprocess.run(
        [sys.executable, "-m", "electra", *into(words, out, "--finetune.weight-decay", "0.1")],
        capture_output=True,
        text=True,
        check=False,
    )
    process.terminate()
    process.communicate(timeout=120)
    assert other.returncode == 2 and "weight_decay" in other.stderr and str(out) in other.stderr
