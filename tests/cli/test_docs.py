"""The reference is what the code says, and an option that two commands have means the same in both."""

import importlib.util
import shlex
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import pytest

from electra.commands.framework.command import options_of
from electra.commands.framework.main import COMMANDS, class_of, main
from electra.commands.framework.parser import parse
from electra.foundation.extensions import OBJECTIVES

DOCS = Path(__file__).parents[2] / "docs"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_cli", DOCS / "site" / "make_cli.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_up_to_date() -> None:
    made = generator().page()
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == made, "run: python docs/site/make_cli.py"
    for name in (*COMMANDS, *OBJECTIVES.names()):
        assert f"`{name}`" in made


def test_the_stub_says_where_each_name_is_from() -> None:
    make_cli = generator()
    assert make_cli.STUB.read_text(encoding="utf-8") == make_cli.stub(), "run: python docs/site/make_cli.py"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_opens_with_examples_and_names_every_option_of_the_reference(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--help"]) == 0
    shown, command = capsys.readouterr().out, class_of(name)
    assert len(command.EXAMPLES) >= 2 and all(f"  {example}\n" in shown for example in command.EXAMPLES)
    assert shown.index(command.EXAMPLES[0]) < shown.index("options:")
    section = generator().command_section(name, command)
    for cell, *_ in generator().command_rows(command):
        option = cell.split("`")[1]
        assert f"`{option}`" in section and (option in shown or not option.startswith("--"))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_parses(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for example in class_of(name).EXAMPLES:
        words = shlex.split(example.rpartition("| ")[2])
        assert words[:2] == ["electra", name]
        parse(class_of(name), words[2:])


def test_an_option_name_takes_the_same_in_every_command() -> None:
    kinds: dict[str, set[str]] = defaultdict(set)
    for option in (option for name in COMMANDS for option in options_of(class_of(name))):
        if not option.positional:
            value = "" if option.is_switch else option.metavar.replace("PATH", "TEXT")
            kinds[option.name.rpartition(".")[2]].add("a choice" if value.startswith("{") else value)
    assert {name for name, found in kinds.items() if len(found) > 1} == {"init"}
