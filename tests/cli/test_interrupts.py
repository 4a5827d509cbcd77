"""Ctrl-C where nothing is to be saved: one line, code 130, no traceback, nothing left."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from electra.commands.framework.main import main
from electra.foundation.errors import Interrupted
from electra.foundation.signals import interrupt_on_signal

IMPORTS_STOP = """
import builtins
real = builtins.__import__
def stop(name, *rest):
    if name == "argparse":
        raise KeyboardInterrupt
    return real(name, *rest)
builtins.__import__ = stop
"""
START = (
    "import sys; sys.argv = ['electra', *sys.argv[1:]]; from electra.__main__ import main; sys.exit(main())"
)


def test_ctrl_c_during_imports_is_one_line() -> None:
    """The interrupt comes from an import, wherever it is."""
    code = IMPORTS_STOP + START
    ended = subprocess.run(
        [sys.executable, "-c", code, "plan", "x"], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (130, "interrupted\n")


def test_ctrl_c_in_a_class_body_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(verb: str, arguments: list[str]) -> int:
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    monkeypatch.setattr("electra.commands.framework.main.run_command", run)
    assert main(["plan", "x"]) == 130 and capsys.readouterr().err == "interrupted\n"


def test_an_interrupt_of_work_without_a_result_says_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(verb: str, arguments: list[str]) -> int:
        with interrupt_on_signal("store"):
            signal.raise_signal(signal.SIGINT)
        return 0

    monkeypatch.setattr("electra.commands.framework.main.run_command", run)
    assert main(["prepare"]) == 130 and capsys.readouterr().err == "interrupted\n"
    monkeypatch.setattr("electra.commands.framework.main.run_command", _saved)
    assert main(["pretrain"]) == 130 and capsys.readouterr().err == ""


def _saved(verb: str, arguments: list[str]) -> int:
    raise Interrupted("runs/mine")
