"""Objectives, tasks and probes are loaded from a file that is trusted."""

import hashlib
from pathlib import Path

import pytest

from electra import objectives
from electra.finetuning.tasks import load_task
from electra.foundation import extensions
from electra.foundation.errors import ConfigError
from electra.foundation.extensions import OBJECTIVES, PROBES, TASKS
from electra.laboratory import analysis

OURS = {
    OBJECTIVES: "from electra.objectives.mlm import Config, Objective\n",
    TASKS: "from electra.finetuning.tasks.tagging import TASK\n",
    PROBES: "from electra.laboratory.analysis import module_of\n"
    "Config, Probe = module_of('calibration').Config, module_of('calibration').Probe\n",
}
KINDS = pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.name)


@KINDS
def test_a_trusted_file_is_loaded_and_identified(kind: extensions.Kind, tmp_path: Path) -> None:
    path = tmp_path / "my-own.py"
    path.write_text(OURS[kind])
    with pytest.raises(ConfigError):
        kind.load(str(path))
    extensions.trust(path)
    module = kind.load(str(path))
    assert kind.load("my-own") is kind.load("elsewhere/my_own.py") is module  # as a folder may call it
    assert kind.load(str(path)) is module and kind.canonical_name(str(path)) == "my-own"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert kind.identity(str(path)) == {f"{kind.name}_file": "my-own.py", f"{kind.name}_sha256": digest}
    path.write_text(f"{OURS[kind]}CHANGED = True\n")  # at once, and of any length: no compiled file is trusted
    assert kind.load(str(path)).CHANGED and kind.identity(str(path))[f"{kind.name}_sha256"] != digest
    assert sorted(tmp_path.iterdir()) == [path]


@KINDS
def test_a_file_with_a_built_in_name_is_refused(kind: extensions.Kind, tmp_path: Path) -> None:
    path = tmp_path / f"{kind.names()[0].upper()}.py"
    path.write_text(OURS[kind])
    extensions.trust(path)
    with pytest.raises(ConfigError, match="electra"):
        kind.load(str(path))


WRONG = {
    "": "`Objective`",
    "def f(:\n": r"mine\.py:1: ",
    "import json\n1 / 0\n": r"mine\.py:2: .*ZeroDivisionError: division by zero",
    "import sys\nsys.exit(0)": r"mine\.py:2: .*SystemExit",
    "\0": r"mine\.py.*null bytes",
    "class Config: pass\nObjective = 3\n": "`Config`",
    "from electra.objectives.mlm import Config\nclass Objective: pass\n": "Objective",
}


@pytest.mark.parametrize("content", WRONG)
def test_an_unusable_file_is_a_one_line_error(content: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("class Config: ...\n" * (content == "") + content)
    extensions.trust(path)
    with pytest.raises(ConfigError, match=WRONG[content]) as raised:
        objectives.module_of(str(path))
    assert "\n" not in str(raised.value) and str(path) in str(raised.value)


def test_a_missing_file_and_an_unknown_name_are_refused(tmp_path: Path) -> None:
    extensions.trust(*(tmp_path / name for name in ("away.py", "three.py", "odd.py")), f"{tmp_path}/")
    with pytest.raises(ConfigError, match=r"away\.py"):
        objectives.module_of(str(tmp_path / "away.py"))
    with pytest.raises(ConfigError):
        objectives.module_of(f"{tmp_path}/")
    with pytest.raises(ConfigError, match="rtd"):
        objectives.module_of("rdt")
    (tmp_path / "three.py").write_text("TASK = 3\n")
    with pytest.raises(ConfigError):
        load_task(str(tmp_path / "three.py"))
    (tmp_path / "odd.py").write_text("from electra.objectives.mlm import Config\nProbe = 3\n")
    with pytest.raises(ConfigError):
        analysis.module_of(str(tmp_path / "odd.py"))


def test_a_path_in_a_toml_file_is_relative_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").touch()
    toml = tmp_path / "recipe.toml"
    assert extensions.resolve_beside("mine.py", toml) == str(tmp_path / "mine.py")
    assert extensions.resolve_beside("elsewhere/mine.py", toml) == "elsewhere/mine.py"
    assert extensions.resolve_beside("rtd", toml) == "rtd"
