"""The faults that `make test-mutations` plants: each must still find its place in the code."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FAULTS = tomllib.loads((ROOT / "tests" / "mutations.toml").read_text(encoding="utf-8"))["fault"]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault["name"])
def test_a_planted_fault_finds_its_place(fault: dict[str, str]) -> None:
    code = (ROOT / "src" / "electra" / fault["file"]).read_text(encoding="utf-8")
    assert code.count(fault["old"]) == 1
