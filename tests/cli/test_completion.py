"""Completion as bash does it, with the script that is printed; the other shells' scripts where they are."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from electra.commands.framework.main import commands, main

ASK = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _electra; echo "${COMPREPLY[@]}"'


def script(shell: str, capsys: pytest.CaptureFixture[str], folder: Path) -> Path:
    assert main(["--print-completion", shell]) == 0
    path = folder / f"electra.{shell}"
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    return path


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_options_and_values(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = script("bash", capsys, tmp_path)

    def completed(*words: str) -> list[str]:
        ended = subprocess.run(
            ["bash", "-c", ASK, "-", str(path), "electra", *words], capture_output=True, text=True, check=True
        )
        return ended.stdout.split()

    assert set(commands()) <= set(completed(""))
    assert sorted(completed("pre")) == ["predict", "prepare", "pretrain"]
    assert completed("pretrain", "--training.lear") == ["--training.learning-rate"]
    assert completed("detect", "--device", "") == ["auto", "cpu", "cuda", "mps"]
    assert "budget-tiny" in completed("pretrain", "--recipe", "bud")
    assert completed("detect", "runs/") == [], "files are the shell's own"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_read_their_script(
    shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = script(shell, capsys, tmp_path)
    assert all(verb in path.read_text(encoding="utf-8") for verb in commands())
    if shutil.which(shell):
        subprocess.run([shell, "-n", str(path)], check=True)


def test_an_unknown_shell_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--print-completion", "tcsh"]) == 2
    error = capsys.readouterr().err
    assert "unknown shell 'tcsh'" in error and error.count("\n") == 1
