"""A training with a third network, a frozen teacher, which one file declares."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from electra.artifacts.run import RunFolder
from electra.data.store import TokenStore
from electra.exchange.card import Card
from electra.exchange.huggingface import export_network
from electra.foundation import durable, extensions
from electra.foundation.errors import RunFolderError
from electra.foundation.signals import StopRequest
from electra.model.pair import build_pair
from electra.testing import ObjectiveContract, small, toy
from electra.training.distributed import World
from electra.training.loop import train
from electra.training.recipe import Recipe
from electra.training.replay import replay
from electra.training.start import start

FILE = str(Path(__file__).parent / "taught.py")
STEPS = 6


@pytest.fixture(autouse=True)
def trusted() -> None:
    extensions.trust(FILE)


def make_teacher(folder: Path, seed: int, name: str = "teacher") -> tuple[Path, TokenStore]:
    """A masked language model's folder, and a store of its tokenizer's."""
    words = small.tokenizer(folder, *map(str, range(toy.VOCABULARY - 5 - len(small.PIECES))))
    assert words.vocab_size == toy.VOCABULARY
    config = toy.config(hidden_size=64, num_layers=1)
    network = build_pair(config, main_kind="generator", seed=seed, initialisation="fan_in").main
    export_network(folder / name, network, words, Card(name=name, kind="generator"))
    return folder / name, replace(toy.store(), tokenizer_digest=words.digest)


def recipe(teacher: Path, **training: Any) -> Recipe:
    return toy.recipe(
        objective={"name": FILE, "teacher": str(teacher)}, training={"steps": STEPS, **training}
    )


def test_a_frozen_teacher_is_neither_trained_nor_saved_nor_exported(tmp_path: Path) -> None:
    teacher, store = make_teacher(tmp_path, seed=5)
    kept = recipe(teacher, checkpoint_every=3, log_every=1)
    with start(kept, tmp_path / "run", store, World()) as run, StopRequest() as stop:
        before = {name: value.clone() for name, value in run.pair.frozen["teacher"].state_dict().items()}
        assert train(run, stop)
        after = run.pair.frozen["teacher"].state_dict()
        assert before and all(torch.equal(value, after[name]) for name, value in before.items())
        assert not run.pair.frozen["teacher"].training
        assert [row.name for row in run.networks.rows if row.exported] == ["generator"]
    folder = RunFolder(tmp_path / "run")
    rows = list(folder.ledger().rows_of_kind("train"))
    assert rows[-1]["losses"]["kl"] < rows[0]["losses"]["kl"]
    newest = folder.saved_checkpoints()[0]
    saved = {**load_file(newest.weights), **load_file(newest.optimizer)}
    assert not [name for name in saved if "teacher" in name]
    assert "teacher" not in folder.record and len(folder.record["identity"]["teacher_sha256"]) == 64
    assert [finding.problem for finding in replay(folder, store, 3)] == [""] * 4


def test_another_teacher_is_refused(tmp_path: Path) -> None:
    teacher, store = make_teacher(tmp_path, seed=5)
    with start(recipe(teacher), tmp_path / "run", store, World()):
        pass
    durable.remove_directory(teacher)
    make_teacher(tmp_path, seed=6)
    with (
        pytest.raises(RunFolderError, match="teacher_sha256"),
        start(recipe(teacher), tmp_path / "run", store, World()),
    ):
        pass


class TestTaught(ObjectiveContract):
    objective = FILE
