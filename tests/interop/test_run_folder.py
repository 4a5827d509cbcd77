"""The networks of a stopped run, from its newest intact checkpoint or a chosen one."""

import tomllib
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from electra.artifacts.checkpoints import at_step
from electra.commands.framework.main import main
from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange.huggingface import exported_weights
from electra.exchange.load import load
from electra.foundation.config import write_toml
from electra.foundation.errors import CheckpointError, DamagedModel, RunFolderError
from electra.model.pair import Pair
from electra.model.token_table import DisentangledTable
from electra.training import checkpoint
from electra.training.optimizer import Optimizer
from electra.training.recipe import Recipe

MakeRun = Callable[..., tuple[Path, list[Pair]]]


@pytest.fixture
def make_run(tmp_path: Path, uncased: Tokenizer, make_pair: Callable[..., Pair]) -> MakeRun:
    """A run folder as training leaves it after a stop: run.toml, tokenizer, and checkpoints of these steps.

    Also returns the pairs of the checkpoints, which have random weights.
    """

    def make(*steps: int, sharing: str = "embeddings", broken: bool = False, **changes: Any) -> tuple[Path, list[Pair]]:
        run, recipe, pairs = tmp_path / "run", Recipe(), list[Pair]()
        for seed, step in enumerate(steps, 1):
            pair = make_pair(vocab_size=uncased.vocab_size, seed=seed, sharing=sharing, **changes)
            if broken and step == steps[-1]:
                with torch.no_grad():
                    next(pair.parameters())[0] = torch.nan
            state = {"step": step}
            checkpoint.write(run / "checkpoints", pair, Optimizer(pair, recipe.training), state, keep=9)
            pairs.append(pair)
        shapes = {name: asdict(network.encoder.config) for name, network in pair.named.items()}
        recipe = replace(recipe, model=replace(recipe.model, sharing=sharing))  # type: ignore[arg-type]
        (run / "run.toml").write_text(write_toml({**recipe.to_sections(), **shapes}))
        uncased.save(run / "store" / "tokenizer")
        return run, pairs

    return make


def weights(network: Any) -> dict[str, torch.Tensor]:
    return exported_weights(network.encoder, network.head)


def same(one: Any, other: Any) -> bool:
    mine, back = weights(one), weights(other)
    return mine.keys() == back.keys() and all(torch.equal(mine[name], back[name]) for name in mine)


@pytest.mark.parametrize(
    ("sharing", "architecture"),
    [("none", "modern"), ("token", "electra"), ("embeddings", "modern"), ("disentangled", "electra")],
)
def test_both_networks_of_a_checkpoint(sharing: str, architecture: str, make_run: MakeRun) -> None:
    run, [pair] = make_run(10, size="mini", architecture=architecture, sharing=sharing)
    assert same(pair.main, load(run)) and same(pair.auxiliary, load(run, "generator"))
    assert load(run, "encoder").kind == "discriminator"
    tables = [module for module in load(run).encoder.modules() if isinstance(module, DisentangledTable)]
    assert not tables, "usable without the other network"


def test_newest_whole_checkpoint_wins_and_the_damaged_one_is_named(make_run: MakeRun) -> None:
    run, [old, new] = make_run(9900, 10000)
    assert same(new.main, load(run))
    assert same(old.main, load(run, step=9900))
    damage(run, 10000)
    with pytest.warns(DamagedModel, match=r"step-00010000.*model\.safetensors"):
        assert same(old.main, load(run))
    with pytest.raises(CheckpointError, match=r"step-00010000.*model\.safetensors"):
        load(run, step=10000)
    with pytest.raises(CheckpointError, match="9900, 10000"):
        load(run, step=5)


def damage(run: Path, step: int) -> None:
    weights = at_step(run / "checkpoints", step).weights
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)


def test_weights_that_are_not_numbers_are_not_exported(make_run: MakeRun, tmp_path: Path) -> None:
    run, _ = make_run(50, 60, broken=True)
    for argv in (["--step", "60"], []):
        assert main(["export", str(run), "--out", str(tmp_path / "out"), *argv]) == 2
        assert not (tmp_path / "out").exists()


def test_a_run_folder_without_a_part_is_an_error(make_run: MakeRun) -> None:
    run, _ = make_run(10)
    (run / "store" / "tokenizer").rename(run / "elsewhere")
    with pytest.raises(RunFolderError):
        load(run)
    (run / "elsewhere").rename(run / "tokenizer")
    (run / "run.toml").write_text("[model]\n")
    with pytest.raises(RunFolderError):
        load(run)
    (run / "checkpoints").rename(run / "gone")
    with pytest.raises(CheckpointError):
        load(run)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("num_layers", 1, r"layers\.1\."),
        ("num_layers", -1, "num_hidden_layers"),
        ("num_heads", 0, "num_attention_heads"),
        ("vocab_size", 10**13, "vocab_size"),
        ("architecture", "x", "sizes"),
        ("norm_eps", float("nan"), "out of range"),
        ("dropout", 7.0, "out of range"),
        ("sharing", "zz", "'zz' is not one of"),
    ],
)
def test_a_record_of_another_network_fails(key: str, value: object, told: str, make_run: MakeRun) -> None:
    run, _ = make_run(1, size="mini", architecture="modern")
    record = tomllib.loads((run / "run.toml").read_text())
    record["model" if key == "sharing" else "discriminator"][key] = value
    (run / "run.toml").write_text(write_toml(record))
    with pytest.raises((RunFolderError, CheckpointError), match=told):
        load(run)
