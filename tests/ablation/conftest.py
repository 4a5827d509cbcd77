from collections.abc import Callable
from pathlib import Path

import pytest
from driven import toy_store  # noqa: F401
from toy_study import RECIPE, STUDY


@pytest.fixture(scope="session")
def recipe_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("recipe") / "recipe.toml"
    path.write_text(RECIPE)
    return str(path)


@pytest.fixture
def study_file(tmp_path: Path) -> Callable[[str], Path]:
    """Write a study file; without an argument, the toy one."""

    def write(text: str = STUDY) -> Path:
        path = tmp_path / "toy.toml"
        path.write_text(text)
        return path

    return write
