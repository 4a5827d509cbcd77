"""Ctrl-C where nothing is to be saved: one line, code 130, no traceback, nothing left."""

import signal
import subprocess
import sys

import pytest

from electra.commands.framework.main import main
from electra.foundation.errors import Interrupted
from electra.foundation.signals import interrupt_on_signal

INTERRUPTED_IMPORT = """
import builtins, sys
real = builtins.__import__
def stop(name, *rest, **named):
    if name == "argparse":
        raise KeyboardInterrupt
    return real(name, *rest, **named)
builtins.__import__ = stop
sys.argv = ["electra", "detect", "x"]
from electra.__main__ import main
sys.exit(main())
"""


def test_ctrl_c_during_imports_is_one_line() -> None:
    words = [sys.executable, "-c", INTERRUPTED_IMPORT]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, "interrupted\n")


def _in_a_class_body(name: str, words: list[str]) -> int:
    raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()


def _in_work_without_a_result(name: str, words: list[str]) -> int:
    with interrupt_on_signal("store"):
        signal.raise_signal(signal.SIGINT)
    return 0


def _saved(name: str, words: list[str]) -> int:
    raise Interrupted("runs/mine")


@pytest.mark.parametrize(
    ("run", "told"),
    [(_in_a_class_body, "interrupted\n"), (_in_work_without_a_result, "interrupted\n"), (_saved, "")],
)
def test_an_interrupt_is_one_line_unless_something_was_saved(
    run: object, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("electra.commands.framework.main.run_command", run)
    assert main(["prepare"]) == 130 and capsys.readouterr().err == told
