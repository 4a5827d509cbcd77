"""Standard output of any encoding, full, broken or closed."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from electra.commands.framework.main import main

SAID = "héllo 学校 😀"


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


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "latin-1", "utf-16", "utf-8"])
def test_characters_that_an_encoding_lacks_are_escaped(
    command: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str], encoding: str
) -> None:
    out = tmp_path / "out"
    assert command(out, "detect", "tiny-en", SAID, "--scorer", "discriminator", encoding=encoding) == 0
    line = out.read_bytes().decode(encoding).splitlines()[0]
    assert json.loads(f'"{line}"') == SAID, "an escape is that of JSON"
    assert line.startswith("h" + SAID[1].encode(encoding, "replace").decode(encoding).replace("?", "\\u00e9"))
    assert ("PYTHONIOENCODING" in capsys.readouterr().err) == (encoding not in ("utf-8", "utf-16"))
    assert command(out, "embed", "tiny-en", SAID, encoding=encoding) == 0
    told = out.read_bytes() if encoding != "utf-16" else out.read_bytes().decode(encoding)
    assert json.loads(told)["text"] == SAID, "JSON is UTF-8, whatever else this is"


def test_bytes_of_an_argument_are_its_text(command: Callable[..., int], tmp_path: Path) -> None:
    """As Python gives them where the locale is C."""
    given = SAID.encode().decode("ascii", "surrogateescape")
    out = tmp_path / "out"
    assert command(out, "embed", "tiny-en", given, encoding="ascii") == 0
    assert json.loads(out.read_bytes())["text"] == SAID


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "arguments",
    [["embed", "tiny-en", "a film"], ["detect", "tiny-en", "a film"], ["--version"], ["verify", "tiny-en"]],
)
def test_a_full_standard_output_is_named(
    command: Callable[..., int], capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert command("/dev/full", *arguments) == 74
    error = capsys.readouterr().err
    assert error.startswith("error: standard output: ") and error.count("\n") == 1
    assert str(Path.cwd()) not in error
