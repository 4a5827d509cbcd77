"""Every test that tests/RELIABILITY.md names exists, each item has its row, "long" is what is marked so."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "tests" / "RELIABILITY.md").read_text(encoding="utf-8")


def functions(path: Path) -> dict[str, bool]:
    """The tests of a file, and whether each is marked as one of reliability."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.name: any("mark.reliability" in ast.unparse(mark) for mark in node.decorator_list)
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }


def test_named_tests_exist_and_long_ones_are_marked() -> None:
    named = re.findall(r"(long: )?`(tests/[\w/]+\.py)::(\w+)`", PAGE)
    assert len(named) > 40
    wrong = [
        f"{file}::{name}"
        for long, file, name in named
        if functions(ROOT / file).get(name) is not (bool(long))
    ]
    assert not wrong


def test_every_item_has_a_row() -> None:
    assert {int(number) for number in re.findall(r"^\| R(\d+) \|", PAGE, flags=re.M)} == set(range(1, 47))
