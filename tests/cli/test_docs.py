"""The reference is what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from electra import objectives
from electra.commands.cli.main import main, verbs

DOCS = Path(__file__).parents[2] / "docs"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_cli", DOCS / "make_cli.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_up_to_date() -> None:
    made = generator().page()
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == made, "run: python docs/make_cli.py"
    for name in (*verbs(), *objectives.names()):
        assert f"`{name}`" in made


@pytest.mark.parametrize("verb", verbs())
def test_help_names_every_option_of_the_reference(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = importlib.import_module(verbs()[verb])
    with pytest.raises(SystemExit) as ended:
        main([verb, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for line in generator().verb(verb, module).splitlines():
        if line.startswith("| `--"):
            assert line.split("`")[1] in shown
