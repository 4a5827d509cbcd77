"""Who is told what: nobody, a function, a notebook, a pipe; standard output of any encoding, or full."""

import io
import json
import os
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from electra import foundation
from electra.commands.framework.main import as_flag, main
from electra.foundation.display import Display, Terminal, display_for
from electra.foundation.errors import ConfigError
from electra.foundation.progress import advance, doing, expect

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


def watch(display: Terminal, *, seconds: float = 0.1) -> None:
    """Work that takes long, and some that does not."""
    with display:
        doing("loading torch")
        time.sleep(seconds)
        for done in range(3):
            doing(f"reading: {done} million characters")
            time.sleep(seconds)
        doing("a moment")
        doing("training the vocabulary: 2 million characters")
        time.sleep(seconds)
        display.say("done")
        for step in range(3):
            doing(f"step {step}/9  1:0{step} left", step / 9)
            time.sleep(seconds)
        doing("")
        time.sleep(seconds)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foundation.display, "TICK", 0.01)
    monkeypatch.setattr(foundation.display, "SILENCE", 0.03)
    monkeypatch.setattr(foundation.display, "EVERY", 1e9)


class Clock:
    """A display outside a terminal, whose time is told by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.out = 100.0, io.StringIO()
        monkeypatch.setattr(foundation.display, "TICK", 1e9)  # nobody looks but the test
        monkeypatch.setattr(foundation.display, "SILENCE", 1.5)
        monkeypatch.setattr(foundation.display, "time", types.SimpleNamespace(monotonic=lambda: self.now))
        self.display = Terminal(self.out)

    def wait(self, seconds: float) -> list[str]:
        """Lets time pass, as the display sees it four times a second; returns the new lines."""
        before = len(self.out.getvalue())
        for _ in range(int(seconds * 4)):
            self.now += 0.25
            self.display.look()
        return self.out.getvalue()[before:].splitlines()


def test_without_a_terminal_a_line_every_half_minute_says_how_long_it_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock(monkeypatch)
    with clock.display as display:
        assert clock.wait(10) == [], "nothing is said of the start"
        doing("loading torch")
        assert clock.wait(1) == ["loading torch"]
        doing("reading: 1 million characters")
        assert clock.wait(29) == []
        doing("reading: 2 million characters")
        assert clock.wait(2) == ["reading: 2 million characters (0m29s so far)"]
        doing("predicting: 300 examples")
        expect(300)
        said = []
        for _ in range(8):
            advance(30)
            said += clock.wait(9)
        assert said == [
            "predicting: 300 examples (40% done, 0m38s left)",  # 27 s for two fifths
            "predicting: 300 examples (70% done, 0m18s left)",
        ]
        display.say("seed 0  dev: accuracy 0.9")
        doing("step 3/9  loss 0.5", 3 / 9)
        assert clock.wait(29) == [], "a line that stays is a sign of life"
        doing("step 6/9  loss 0.4", 6 / 9)
        [line] = clock.wait(5)
        assert line == "step 6/9  loss 0.4 (67% done, 0m27s left)"
        doing("step 7/9  1h20m left", 7 / 9)
        assert clock.wait(31) == ["step 7/9  1h20m left"]
        doing("")
        assert clock.wait(90) == []
    assert capsys.readouterr().out == "seed 0  dev: accuracy 0.9\n"


@pytest.mark.usefixtures("impatient")
def test_a_terminal_shows_a_bar_below_what_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich.progress")  # imported before the clock runs
    main_end, side = os.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with open(side, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        watch(Terminal(terminal), seconds=0.3)
        assert sys.stdout is terminal
        terminal.flush()
        shown = os.read(main_end, 1 << 20).decode()
    os.close(main_end)
    for activity in ("loading torch", "reading: 2 million", "training the vocabulary: 2", "step 2/9"):
        assert activity in shown
    after_bar = shown.index("done") - shown.rindex("\x1b[2K", 0, shown.index("done"))
    assert after_bar < 20, "the bar is erased first"


@pytest.mark.usefixtures("impatient")
def test_work_is_shown_by_the_innermost_display_and_by_none_after_it() -> None:
    outer, inner = list[str](), list[str]()
    doing("nobody looks")
    with Display(lambda line, share: outer.append(line)):
        with Display(lambda line, share: inner.append(line)):
            doing("baseline 2 of 3")
        doing("saving")
    doing("nobody looks")
    assert (inner, outer) == (["baseline 2 of 3"], ["saving"])


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
