"""Networks of a run that was stopped: from its newest whole checkpoint, or a chosen one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from electra.cli.main import main
from electra.config import write_toml
from electra.data.tokenizer import Tokenizer
from electra.errors import CheckpointError, Damaged, ModelError, RunFolderError
from electra.interop.huggingface import weights_of
from electra.interop.load import Loaded, load
from electra.model.pair import Discriminator, Generator, Pair
from electra.model.token_table import DisentangledTable
from electra.training import checkpoint
from electra.training.optimizer import Optimizer
from electra.training.recipe import Recipe

MakePair = Callable[..., Pair]
MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path, uncased: Tokenizer) -> MakeRun:
    """A run folder as training leaves it after a stop: run.toml, tokenizer, checkpoints of the given steps
    and pairs.
    """

    def make(pairs: dict[int, Pair], sharing: str = "embeddings") -> Path:
        run = tmp_path / "run"
        recipe = Recipe()
        for step, pair in pairs.items():
            checkpoint.write(
                run / "checkpoints", pair, Optimizer(pair, recipe.training), {"step": step}, keep=9
            )
        shapes = {name: asdict(network.encoder.config) for name, network in pair.named.items()}
        recipe = replace(recipe, model=replace(recipe.model, sharing=sharing))  # type: ignore[arg-type]
        (run / "run.toml").write_text(write_toml({**recipe.to_sections(), **shapes}))
        uncased.save(run / "store" / "tokenizer")
        return run

    return make


def same(network: Generator | Discriminator | None, loaded: Loaded) -> bool:
    assert network is not None
    mine, back = weights_of(network.encoder, network.head), weights_of(loaded.encoder, loaded.head)
    return mine.keys() == back.keys() and all(torch.equal(mine[name], back[name]) for name in mine)


@pytest.mark.parametrize("architecture", ["electra", "modern"])
@pytest.mark.parametrize("sharing", ["none", "token", "embeddings", "disentangled"])
def test_both_networks_of_a_checkpoint(
    sharing: str, architecture: str, make_run: MakeRun, make_pair: MakePair, uncased: Tokenizer
) -> None:
    pair = make_pair("mini", architecture, uncased.vocab_size, sharing=sharing)
    run = make_run({10: pair}, sharing)
    assert same(pair.main, load(run)) and same(pair.auxiliary, load(run, "generator"))
    assert load(run, "encoder").kind == "discriminator"
    assert not any(isinstance(module, DisentangledTable) for module in load(run).encoder.modules()), (
        "usable without the other network"
    )


def test_newest_whole_checkpoint_wins_and_the_damaged_one_is_named(
    make_run: MakeRun, make_pair: MakePair, uncased: Tokenizer
) -> None:
    old, new = (make_pair(vocab_size=uncased.vocab_size, seed=seed) for seed in (1, 2))
    run = make_run({9900: old, 10000: new})
    assert same(new.main, load(run))
    assert same(old.main, load(run, step=9900))
    weights = run / "checkpoints" / "step-00010000" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.warns(Damaged, match=r"step-00010000 is damaged \(model\.safetensors is damaged"):
        assert same(old.main, load(run))
    with pytest.raises(CheckpointError, match=r"step-00010000: damaged: model.safetensors"):
        load(run, step=10000)
    with pytest.raises(CheckpointError, match=r"no checkpoint of step 5. There are: 9900, 10000"):
        load(run, step=5)


def test_export_of_a_chosen_step(
    make_run: MakeRun, make_pair: MakePair, uncased: Tokenizer, tmp_path: Path
) -> None:
    old, new = (make_pair(vocab_size=uncased.vocab_size, seed=seed) for seed in (1, 2))
    run = make_run({50: old, 60: new})
    rows = [
        {"kind": "eval", "step": step, "tokens": step * 10, "metrics": {"auc": step / 100}}
        for step in (50, 60)
    ]
    (run / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for argv, pair, auc in ((["--step", "50"], old, "0.5"), ([], new, "0.6")):
        assert main(["export", str(run), "--out", str(tmp_path / "out"), *argv]) == 0
        assert same(pair.main, load(tmp_path / "out"))
        assert f"| auc | {auc} |" in (tmp_path / "out" / "README.md").read_text()


def test_run_of_one_network(make_run: MakeRun, make_pair: MakePair, uncased: Tokenizer) -> None:
    generator = make_pair(vocab_size=uncased.vocab_size, sharing="none").auxiliary
    assert generator is not None
    run = make_run({10: Pair(generator)})
    assert same(generator, load(run, "encoder"))
    with pytest.raises(ModelError, match="this run has no discriminator"):
        load(run)


def test_unfinished_business_is_one_line(make_run: MakeRun, make_pair: MakePair, uncased: Tokenizer) -> None:
    run = make_run({10: make_pair(vocab_size=uncased.vocab_size)})
    (run / "store" / "tokenizer").rename(run / "elsewhere")
    with pytest.raises(RunFolderError, match="no tokenizer"):
        load(run)
    (run / "elsewhere").rename(run / "tokenizer")
    (run / "run.toml").write_text("[model]\n")
    with pytest.raises(RunFolderError, match="does not describe the networks"):
        load(run)
    (run / "checkpoints").rename(run / "gone")
    with pytest.raises(CheckpointError, match="no checkpoint yet"):
        load(run)
