"""No process that we start imports files of the working directory that are named like modules.

A script without a main guard is not run again by any of them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from electra.data.corpus.parallel import encode_in_order
from electra.data.corpus.tokenizer import Tokenizer
from electra.data.text_settings import TokenizerConfig

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


def test_no_process_imports_from_the_working_directory(traps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Child processes ignore folders in PYTHONPATH from which this process does not import."""
    here = str(Path(__file__).parent)
    monkeypatch.syspath_prepend(here)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", ".", here, ""]))
    tokenizer = Tokenizer.train(["the chef cooked the meal"], TokenizerConfig(vocab_size=80))
    assert len(list(encode_in_order([["the chef"]] * 4, tokenizer, 2))) == 4
    assert caught(traps) == []


def test_python_m_electra_does_not_import_from_the_working_directory(traps: Path) -> None:
    (traps / "electra.py").unlink()
    command, environment = (
        [sys.executable, "-m", "electra", "show", "--help"],
        os.environ | {"PYTHONPATH": ""},
    )
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert ended.returncode == 0, ended.stderr
    assert caught(traps) == []


SCRIPT = """
print("once")
import electra.data.corpus.documents, electra.data.corpus.parallel, electra
electra.data.corpus.documents._CHUNK = 2000
store = electra.prepare({corpus!r}, out={out!r}, vocab_size=80, workers=2)
print("made", store.tokens.train.num_tokens > 0)
"""


def test_a_script_without_a_main_guard_may_encode_in_processes(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    rows = [json.dumps({"text": f"the {number} chefs of town {number % 7} cook"}) for number in range(600)]
    corpus.write_text("\n".join(rows))
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(corpus=str(corpus), out=str(tmp_path / "store")))
    command = [sys.executable, str(script)]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (ended.returncode, ended.stdout) == (0, "once\nmade True\n"), ended.stderr
