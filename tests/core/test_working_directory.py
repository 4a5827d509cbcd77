"""No process that we start imports files of the working directory that are named like modules.

A script without a main guard is not run again by any of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from electra.commands.framework.main import main
from electra.foundation import jobs
from electra.foundation.claims import Job
from electra.training.launch import launch

NAMES = ("torch", "random", "tokenizers", "sitecustomize", "usercustomize", "numpy", "json", "electra", "ast")


@pytest.fixture
def traps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, full of traps; what is caught is written into the folder `caught` beside it."""
    folder, caught = tmp_path / "work", tmp_path / "caught"
    folder.mkdir()
    caught.mkdir()
    for name in NAMES:
        text = f"open({str(caught / name)!r}, 'w').close()\nraise SystemExit('a trap: {name}')\n"
        (folder / f"{name}.py").write_text(text)
    monkeypatch.chdir(folder)
    return folder


def caught(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder.parent / "caught").iterdir())


def _one() -> None:
    todo = Job("", _tell)
    [job] = jobs.run_parallel([todo], 1, threads=1, say=lambda line: None, stop=lambda: False)
    assert job.error is None and job.result == "random"


def _each() -> None:
    assert list(jobs.map_in_order(_lengths, (), ["a", "bb", "ccc"], 2)) == [1, 2, 3]


def _launched() -> None:
    assert launch(["electra", "--version"], 2, lambda line: None).code == 0


def _tell(say: object, stop: object) -> str:
    import random

    return random.__name__


def _lengths() -> Callable[[str], int]:
    import random

    assert random.random() < 1
    return len


@pytest.mark.parametrize("start", [_one, _each, _launched])
def test_no_process_imports_from_the_working_directory(
    start: Callable[[], None], traps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Child processes ignore folders in PYTHONPATH from which this process does not import."""
    here = str(Path(__file__).parent)
    monkeypatch.syspath_prepend(here)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", ".", here, ""]))
    start()
    assert caught(traps) == []


def test_python_m_electra_does_not_import_from_the_working_directory(traps: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "electra", "show", "--help"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": ""},
        cwd=_without(traps, "electra"),
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert caught(traps) == []


def _without(folder: Path, name: str) -> Path:
    (folder / f"{name}.py").unlink()
    return folder


def test_child_processes_see_pythonpath(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"lib{os.pathsep}")
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    assert jobs.environment()["PYTHONPATH"] == str(tmp_path / "lib")


SCRIPT = """
print("once")
import electra.data.deduplication, electra.data.parallel, electra
electra.data.deduplication._CHUNK = 2000
store = electra.prepare({corpus!r}, out={out!r}, vocab_size=80, workers=2)
print("made", store.num_tokens > 0)
"""
_IN_A_THREAD = """
import threading
thread = threading.Thread(target=exec, args=(open("script.py").read(), {}))
thread.start()
thread.join()
"""
WAYS: dict[str, Callable[[Path], list[str]]] = {
    "a file": lambda path: [sys.executable, str(path)],
    "stdin": lambda path: [sys.executable, "-"],
    "-c": lambda path: [sys.executable, "-c", path.read_text()],
    "a thread": lambda path: [sys.executable, "-c", _IN_A_THREAD],
}


@pytest.mark.parametrize(
    "way", ["a file", *(pytest.param(way, marks=pytest.mark.slow) for way in list(WAYS)[1:])]
)
def test_a_script_without_a_main_guard_may_encode_in_processes(way: str, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    rows = [json.dumps({"text": f"the {number} chefs of town {number % 7} cook"}) for number in range(600)]
    corpus.write_text("\n".join(rows))
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(corpus=str(corpus), out=str(tmp_path / "store")))
    with script.open() as given:
        ended = subprocess.run(
            WAYS[way](script), stdin=given, capture_output=True, text=True, cwd=tmp_path, check=False
        )
    assert (ended.returncode, ended.stdout) == (0, "once\nmade True\n"), ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "pretrain --corpus TEXT --vocab-size 80 --out OUT --batch-size 2 --budget 2steps --processes 2",
    ],
)
def test_no_command_imports_from_the_working_directory(words: str, traps: Path) -> None:
    text, out = traps.parent / "text.txt", traps.parent / "out"
    text.write_text("".join(f"the {number} chefs of town {number % 7} cook\n\n" for number in range(99)))
    given = [{"TEXT": str(text), "OUT": str(out)}.get(word, word) for word in words.split()]
    assert main(given) == 0
    assert caught(traps) == []
