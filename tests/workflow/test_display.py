"""Who is told what: nobody, a function, or a notebook's cell."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from electra.commands.framework.display import Callback, Display, Notebook, Terminal, display_for
from electra.commands.framework.main import as_flag
from electra.foundation.errors import ConfigError, from_json


class Cell:
    """Stands in for IPython's handle of a displayed object."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def update(self, html: str) -> None:
        self.shown.append(html)


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    made = Cell()
    module = types.ModuleType("IPython.display")
    module.HTML, module.display = str, lambda value, display_id: made  # type: ignore[attr-defined]
    around = types.ModuleType("IPython")
    around.get_ipython = lambda: types.SimpleNamespace(kernel=1)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", around)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return made


def test_a_notebook_shows_the_last_lines_and_a_bar(cell: Cell) -> None:
    display = display_for(None)
    assert isinstance(display, Notebook)
    with display:
        display.say("a < b")
        display.progress("half", 0.5)
        display.say("more")
    assert "a &lt; b" in cell.shown[0] and '<progress value="0.5' in cell.shown[-2]
    assert "half" not in cell.shown[-1] and "more" in cell.shown[-1]
    assert type(display_for("quiet")) is Display


def test_a_script_shows_no_progress_by_default() -> None:
    assert type(display_for(None)) is Display
    told: list[Any] = []
    with display_for(lambda line, share: told.append((line, share))) as display:
        assert isinstance(display, Callback)
        display.say("a line")
        display.progress("half", 0.5)
    assert told == [("a line", None), ("half", 0.5)]
    with pytest.raises(ConfigError, match="loud"):
        display_for("loud")  # type: ignore[arg-type]


def test_an_error_is_spelled_by_whoever_renders_it() -> None:
    error = ConfigError("too high", key="training.learning_rate", fix="Use `training.learning_rate=1e-3`")
    assert str(error) == "training.learning_rate: too high. Use `training.learning_rate=1e-3`"
    shown = "--training.learning-rate: too high. Use --training.learning-rate 1e-3"
    assert error.line(as_flag) == shown
    again = from_json(error.to_json())
    assert type(again) is ConfigError and again.line(as_flag) == shown


def test_without_a_terminal_each_stage_is_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whatever takes long is named, even if its only call comes a moment after another line."""
    with Terminal(lines=True) as display:
        display.progress("loading torch")
        for done in range(3):
            display.progress(f"reading: {done} million characters")
        display.progress("training the vocabulary: 2 million characters")
        for step in range(3):
            display.progress(f"step {step}/9  1:0{step} left", step / 9)
    assert capsys.readouterr().out.splitlines() == [
        "loading torch",
        "reading: 0 million characters",
        "training the vocabulary: 2 million characters",
    ]
