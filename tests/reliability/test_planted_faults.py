"""The list of `make test-mutations` fits the source: each fault can be planted, and its tests exist."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_every_fault_can_be_planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tests")
    mutations = importlib.import_module("mutations")
    faults = mutations.faults()
    assert len({fault.name for fault in faults}) == len(faults) >= 15
    shutil.copytree(
        ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.safetensors")
    )
    for fault in faults:
        sound = fault.plant(tmp_path)
        planted = tmp_path / "src" / "electra" / fault.file
        assert planted.read_text(encoding="utf-8") != sound
        compile(planted.read_text(encoding="utf-8"), fault.file, "exec")
        planted.write_text(sound, encoding="utf-8")
        for test in fault.tests:
            file, _, name = test.partition("::")
            if file.startswith("tests/"):
                text = (ROOT / file).read_text(encoding="utf-8")
                assert not name or f"def {name.partition('[')[0]}(" in text, test
    with pytest.raises(AssertionError, match="holds"):
        mutations.Fault("none", "foundation/seeds.py", "no such text", "", []).plant(tmp_path)
