"""Who is told what: nobody, a function, a notebook, a pipe; standard output of any encoding, or full."""

from __future__ import annotations

import io
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from electra.commands.framework.display import Terminal, display_for
from electra.commands.framework.main import as_flag, main
from electra.foundation.errors import ConfigError

SAID = "héllo 学校 😀"


def test_progress_goes_to_a_function_to_a_notebook_or_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    with display_for(lambda line, share: told.append((line, share))) as display:
        display.say("a line")
        display.progress("half", 0.5)
    assert told == [("a line", None), ("half", 0.5)]
    assert not isinstance(display_for(None), Terminal)
    with pytest.raises(ConfigError, match="loud"):
        display_for("loud")  # type: ignore[arg-type]
    notebook = types.ModuleType("IPython")
    notebook.get_ipython = lambda: types.SimpleNamespace(kernel=1)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    assert isinstance(display_for(None), Terminal) and not isinstance(display_for("quiet"), Terminal)


def test_without_a_terminal_each_stage_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever takes long is named, even if its only call comes a moment after another line."""
    with Terminal() as display:
        display.progress("loading torch")
        for done in range(3):
            display.progress(f"reading: {done} million characters")
        display.progress("training the vocabulary: 2 million characters")
        for step in range(3):
            display.progress(f"step {step}/9  1:0{step} left", step / 9)
    stages = [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert stages == ["loading torch", "reading", "training the vocabulary"]


def test_an_error_is_spelled_by_whoever_renders_it() -> None:
    error = ConfigError("too high", key="training.learning_rate", fix="Use `training.learning_rate=1e-3`")
    assert str(error) == "training.learning_rate: too high. Use `training.learning_rate=1e-3`"
    shown = "--training.learning-rate: too high. Use --training.learning-rate 1e-3"
    assert error.line(as_flag) == shown


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run a command as a process does, with standard output in a file."""

    def run(out: str | Path, *arguments: str, encoding: str = "utf-8") -> int:
        with open(out, "wb", buffering=0) as raw:
            monkeypatch.setattr(sys, "argv", ["electra", *arguments])
            stream = io.TextIOWrapper(io.BufferedWriter(raw), encoding, "strict")
            monkeypatch.setattr(sys, "stdout", stream)
            code = main()
            monkeypatch.undo()
            return code

    return run


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
def test_characters_that_an_encoding_lacks_are_escaped(
    command: Callable[..., int], tmp_path: Path, encoding: str
) -> None:
    out = tmp_path / "out"
    assert command(out, "detect", "tiny-en", SAID, "--scorer", "discriminator", encoding=encoding) == 0
    expected = SAID.encode(encoding, "backslashreplace").decode(encoding)
    assert out.read_bytes().decode(encoding).splitlines()[0] == expected
    assert command(out, "embed", "tiny-en", SAID, encoding=encoding) == 0
    assert json.loads(out.read_bytes())["text"] == SAID, "JSON is read as UTF-8"


def test_bytes_of_an_argument_are_its_text(command: Callable[..., int], tmp_path: Path) -> None:
    """As Python gives them where the locale is C."""
    given = SAID.encode().decode("ascii", "surrogateescape")
    out = tmp_path / "out"
    assert command(out, "embed", "tiny-en", given, encoding="ascii") == 0
    assert json.loads(out.read_bytes())["text"] == SAID


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["embed", "tiny-en", "a film"], ["--version"], ["verify", "tiny-en"]])
def test_a_full_standard_output_is_named(
    command: Callable[..., int], capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert command("/dev/full", *arguments) == 74
    error = capsys.readouterr().err
    assert error.startswith("error: standard output: ") and error.count("\n") == 1
    assert str(Path.cwd()) not in error
