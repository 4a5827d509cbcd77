from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from driven import toy_store  # noqa: F401

STUDY = """
title = "Toy"
question = "Does it work?"
baseline = "mlm"
[arms.mlm]
objective.name = "mlm"
[arms.rtd]
title = "detection"
paper = 85.0
objective.name = "rtd"
"""
RECIPE = """
[model]
size = "tiny"
dropout = 0.1
[training]
length = 16
batch_size = 8
learning_rate = 1e-3
precision = "fp32"
log_every = 1
checkpoint_every = 4
[evaluation]
rows = 8
"""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def study_file(tmp_path: Path) -> Callable[[str], Path]:
    """Write a study file; without an argument, the toy one."""

    def write(text: str = STUDY) -> Path:
        path = tmp_path / "toy.toml"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def recipe_file(tmp_path: Path) -> str:
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    return str(path)
