"""Numbers that no machine can hold: one line before memory is taken."""

import dataclasses
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from electra.commands.framework.main import main
from electra.foundation.config import merge
from electra.foundation.errors import ElectraError
from electra.testing import toy
from electra.training.assemble import build_run
from electra.training.distributed import World
from electra.training.recipe import EvaluationSection, ModelSection, TrainingSection

SECTIONS = {"model": ModelSection, "training": TrainingSection, "evaluation": EvaluationSection}
NUMBERS = [
    (section, field.name)
    for section, kind in SECTIONS.items()
    for field in dataclasses.fields(kind)
    if {"int", "float"} & set(str(field.type).split(" | "))
]


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Address space for 2 GiB more than there is: what would take hundreds fails at once."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (2 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("value", [10**5000, 2**63 - 1], ids=["5000 digits", "63 bits"])
@pytest.mark.parametrize(("section", "name"), NUMBERS)
def test_an_absurd_number_is_refused_in_one_line(
    section: str, name: str, value: Any, tmp_path: Path, little_memory: None
) -> None:
    sections: dict[str, Any] = merge({"model": {"layers": 1, "hidden_size": 32}}, {section: {name: value}})
    try:
        run = build_run(toy.recipe(**sections), tmp_path, toy.store(), World())
        run.micro_batches(0)
    except ElectraError as error:
        assert name in str(error)
        assert len(str(error)) < 400


def test_an_integer_of_a_million_digits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text(f"[training]\nsteps = 1{'0' * 10**6}\n")
    assert main(["pretrain", "--recipe", str(recipe), "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err.strip()
    assert len(said.splitlines()) == 1 and len(said) < 400 and "mine.toml" in said


@pytest.mark.parametrize(
    "sections",
    [
        {"model": {"layers": 1000, "hidden_size": 1 << 16}},  # 12 x 1000 x 2^32 weights
        {"training": {"batch_size": 1 << 40}},
        {"training": {"batch_size": 1 << 40, "micro_batch": 1}},
    ],
)
def test_a_model_or_batch_beyond_memory_is_refused(
    sections: dict[str, Any], tmp_path: Path, little_memory: None
) -> None:
    with pytest.raises(ElectraError, match=r"\d GiB"):
        build_run(toy.recipe(**sections), tmp_path, toy.store(), World())
