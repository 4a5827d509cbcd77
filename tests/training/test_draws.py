"""No number is drawn twice, and a run that stops and goes on ends with the bits of one that does not, for
every objective.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from electra.artifacts.ledger import Ledger
from electra.foundation import seeds
from electra.foundation.config import merge
from electra.model.sizes import SIZES, Size
from electra.testing import toy
from electra.training import heldout as evaluation
from electra.training import loop
from electra.training.assemble import build_run, start
from electra.training.distributed import World
from electra.training.recipe import Recipe

NAMES = toy.names()


@pytest.fixture(autouse=True)
def small_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SIZES, "toy", Size(num_layers=2, hidden_size=32, embedding_size=32, generator_width=0.5))


def recipe(**sections: Any) -> Recipe:
    return toy.recipe(**merge({"model": {"size": "toy"}}, sections))


def train(folder: Path, stop_at: int | None = None, **sections: Any) -> None:
    with start(recipe(**sections), folder, toy.store(), World()) as run:
        assert loop.train(run, lambda: stop_at is not None and run.step >= stop_at) == (stop_at is None)


@pytest.mark.parametrize("name", NAMES)
def test_every_draw_of_a_run_has_a_key_of_its_own(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mask, sample, random token and dropout: in each update, micro-batch and row another one."""
    drawn: Counter[tuple[int, str, int, int]] = Counter()
    keys = seeds.keys

    def noting(seed: int, stream: str, step: int, indices: Any) -> seeds.UInt64:
        drawn.update((seed, stream, step, int(index)) for index in np.atleast_1d(indices))
        return keys(seed, stream, step, indices)

    monkeypatch.setattr(seeds, "keys", noting)
    train(tmp_path, objective={"name": name}, training={"micro_batch": 3, "evaluate_every": 100, "seed": 7})
    repeated = {draw for draw, times in drawn.items() if times > 1 and draw[0] == 7 and draw[1] != "order"}
    assert not repeated, "the order of an epoch is one key, looked up often; everything else is drawn once"
    streams = Counter(stream for seed, stream, _, _ in drawn if seed == 7)
    assert streams["mask"] == streams["sample"] == 6 * 8, "one key a row"
    assert streams["dropout"] == 6 * 3, "one key a micro-batch"


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ["electra", "modern"])
@pytest.mark.parametrize("name", NAMES)
def test_a_stopped_run_resumes_with_the_same_bits(name: str, encoder: str, tmp_path: Path) -> None:
    sections = {"objective": {"name": name}, "model": {"encoder": encoder}, "training": {"evaluate_every": 3}}
    train(tmp_path / "whole", **sections)
    train(tmp_path / "parts", stop_at=3, **sections)
    train(tmp_path / "parts", stop_at=5, **sections)
    train(tmp_path / "parts", **sections)
    whole, parts = (_rows(tmp_path / run) for run in ("whole", "parts"))
    assert parts == whole
    for file in ("model.safetensors", "optimizer.safetensors"):
        one, other = (tmp_path / run / "checkpoints" / "step-00000006" / file for run in ("whole", "parts"))
        assert one.read_bytes() == other.read_bytes(), file


def _rows(run: Path) -> list[dict[str, Any]]:
    """The record, but for its times and events."""
    rows = [row for row in Ledger.read(run / "metrics.jsonl").rows if row["kind"] != "event"]
    return [
        {key: value for key, value in row.items() if key not in ("seconds", "tokens_per_s", "rank_seconds")}
        for row in rows
    ]


@pytest.mark.parametrize("name", NAMES)
def test_heldout_numbers_do_not_depend_on_the_batch_size(name: str, tmp_path: Path) -> None:
    """All rows are scored, the last ones too when they fill no batch."""

    def evaluated(num_rows: int, size: int) -> Any:
        sections = {"training": {"micro_batch": size}, "evaluation": {"rows": num_rows}}
        made = recipe(objective={"name": name}, **sections)
        return evaluation.evaluate(build_run(made, tmp_path, toy.store(), World()), lambda: False)

    whole, pieces, fewer = evaluated(7, 7), evaluated(7, 3), evaluated(6, 3)
    defined = {metric for metric, value in whole.items() if value is not None}
    assert {metric: pieces[metric] for metric in defined} == pytest.approx(
        {metric: whole[metric] for metric in defined}, rel=1e-5
    )
    assert any(fewer[metric] != pytest.approx(whole[metric], rel=1e-3) for metric in defined)
