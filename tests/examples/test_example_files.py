"""The examples pass the tests that ours pass, and run."""

from __future__ import annotations

from pathlib import Path

import pytest

import electra.testing
from electra.cli.main import main
from electra.config import read_toml
from electra.testing import driven

EXAMPLES = Path(__file__).parents[2] / "examples"


class TestTheObjective(electra.testing.ObjectiveContract):
    objective = EXAMPLES / "shuffled_tokens.py"


def test_the_objective_trains_from_the_command_line(
    toy_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stopped after 3 steps and resumed from another folder; refused by name once the file has changed."""
    own = tmp_path / "mine.py"
    own.write_text((EXAMPLES / "shuffled_tokens.py").read_text())
    monkeypatch.chdir(tmp_path)
    words = driven.command(toy_store, tmp_path / "run", **{"training.steps": "3", "training.device": "cpu"})
    assert main([*words, "--objective.name", "mine.py"]) == 0, capsys.readouterr()
    record = read_toml(tmp_path / "run" / "run.toml")
    assert record["objective"] == {"name": "mine", "mask_fraction": 0.15}
    assert record["identity"]["objective_file"] == "mine.py"
    (tmp_path / "elsewhere").mkdir()
    own = own.rename(tmp_path / "elsewhere" / "mine.py")
    assert main([*words, "--objective.name", str(own)]) == 0, capsys.readouterr()
    own.write_text(own.read_text().replace("15", "16"))
    assert main([*words, "--objective.name", str(own), "--objective.mask-fraction", "0.15"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "identity.objective_sha256 was" in told and "mine.py has changed since the run began" in told
    own.unlink()  # what was trained needs it no more
    assert main(["detect", str(tmp_path / "run"), "the cat sees the sea", "--device", "cpu"]) == 0
    assert main(["verify", str(tmp_path / "run")]) == 0
    assert main(["report", str(tmp_path / "run")]) == 0


def test_help_lists_the_options_of_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["pretrain", "--objective.name", str(EXAMPLES / "shuffled_tokens.py"), "--help"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0 and "--objective.reach" in shown and "may move" in shown
