"""What messages say about errors of other libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

from electra.commands.framework.main import as_flag, main, options_known_to
from electra.foundation.errors import ConfigError, reason_of


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("bad value\nwith a hint"), "bad value"),
        (ValueError("\n  bad value"), "bad value"),
        (ValueError(), "ValueError"),
        (OSError(" \n"), "OSError"),
    ],
)
def test_a_reason_is_one_line_and_never_empty(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason


@pytest.mark.parametrize(
    ("fix", "kept"),
    [
        ("Save the file as UTF-8, or set `encoding`", "Save the file as UTF-8"),
        ("Set `encoding`, or save the file as UTF-8", "Save the file as UTF-8"),
        ("Set `encoding`", "Set --encoding"),  # the only advice
        ("It has a; choose `text_column` and `label_column`", "It has a; choose --text-column"),
        ("Lower `jobs` or `length`, or lower `seeds`, `threshold` or `jobs`", "Lower --threshold"),
        ("Set `label_column`. Use `backend=onnx`, or wait.", "Use --backend onnx, or wait."),
        ("Lower `training.steps`, or set `threshold`", "Lower --training.steps, or set --threshold"),
        ("Name `model` or `texts`", "Name --model or --texts"),
        ("", ""),
    ],
)
def test_options_that_a_command_lacks_are_not_advised(fix: str, kept: str) -> None:
    line = ConfigError("wrong", fix=fix).line(as_flag, options_known_to(["detect", "tiny-en", "x"]))
    assert line == (f"wrong. {kept}" if kept else "wrong")
    assert options_known_to([]) is None and options_known_to(["no-command"]) is None


def test_detect_advises_no_options_of_other_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "texts.txt").write_bytes("sch\xf6n\n".encode("latin-1"))
    (tmp_path / "table.csv").write_text("a,b\nx,y\n")
    for name, end in (("texts.txt", "Save the file as UTF-8"), ("table.csv", "columns with --text-column")):
        assert main(["detect", "tiny-en", str(tmp_path / name)]) == 2
        assert capsys.readouterr().err.endswith(f"{end}\n")
