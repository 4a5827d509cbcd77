from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from driven import toy_store  # noqa: F401
from toy_study import RECIPE, STUDY


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


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
