"""The drawing of the imports is of today's code: no circle, nothing upwards from the core."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_imports", ROOT / "docs" / "make_imports.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_drawing_is_of_the_code(script: ModuleType) -> None:
    picture = script.PICTURE.read_text(encoding="utf-8")
    drawn = set(re.findall(r"<title>(\w+) imports (\w+)</title>", picture))
    written = {
        (room.name, other)
        for room in script.SOURCE.iterdir()
        if room.is_dir()
        for file in room.rglob("*.py")
        for other in re.findall(r"^ *from electra\.(\w+)", file.read_text(encoding="utf-8"), re.M)
    }
    assert drawn == {(room, other) for room, other in written if room != other}, "python docs/make_imports.py"
    assert picture == script.draw(), "python docs/make_imports.py"


def test_no_arrow_points_up(script: ModuleType) -> None:
    height = script.levels(script.imports(), script.core())
    ends = re.findall(r"<title>(\w+) imports (\w+)</title>", script.PICTURE.read_text(encoding="utf-8"))
    assert len(ends) > 40 and all(height[room] > height[other] for room, other in ends)
    above = {room for room in height if room not in script.core()}
    assert {"laboratory", "pages", "serving", "commands"} <= above
    assert not [room for room, other in ends if other in above and room not in above]
