"""The networks of a stopped run, from its newest intact checkpoint or a chosen one."""

from __future__ import annotations

import json
import os
import re
import shutil
import tomllib
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from electra.artifacts.checkpoints import Checkpoint, at_step
from electra.commands.framework.main import main
from electra.commands.results.model import load as load_model
from electra.data.tokenizer import Tokenizer
from electra.exchange.huggingface import exported_weights
from electra.exchange.load import Loaded, load
from electra.exchange.run_folder import mean_weights
from electra.foundation.config import write_toml
from electra.foundation.errors import (
    CheckpointError,
    ConfigError,
    DamagedModel,
    RunFolderError,
)
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

    def make(
        *steps: int, sharing: str = "embeddings", broken: bool = False, **changes: Any
    ) -> tuple[Path, list[Pair]]:
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


@pytest.mark.parametrize("architecture", ["electra", "modern"])
@pytest.mark.parametrize("sharing", ["none", "token", "embeddings", "disentangled"])
def test_both_networks_of_a_checkpoint(sharing: str, architecture: str, make_run: MakeRun) -> None:
    run, [pair] = make_run(10, size="mini", architecture=architecture, sharing=sharing)
    assert same(pair.main, load(run)) and same(pair.auxiliary, load(run, "generator"))
    assert load(run, "encoder").kind == "discriminator"
    assert not any(isinstance(module, DisentangledTable) for module in load(run).encoder.modules()), (
        "usable without the other network"
    )


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


def test_export_of_a_chosen_step(make_run: MakeRun, tmp_path: Path) -> None:
    run, [old, new] = make_run(50, 60)
    rows = [
        {"kind": "eval", "step": step, "tokens": step * 10, "metrics": {"auc": step / 100}}
        for step in (50, 60)
    ]
    (run / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for argv, pair, auc in ((["--step", "50"], old, "0.5"), ([], new, "0.6")):
        assert main(["export", str(run), "--out", str(tmp_path / "out"), *argv]) == 0
        assert same(pair.main, load(tmp_path / "out"))
        assert f"| auc | {auc} |" in (tmp_path / "out" / "README.md").read_text()


def damage(run: Path, step: int) -> None:
    weights = at_step(run / "checkpoints", step).weights
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)


@pytest.mark.parametrize("sharing", ["embeddings", "disentangled"])
def test_average_of_the_last_checkpoints(sharing: str, make_run: MakeRun) -> None:
    run, pairs = make_run(10, 20, 30, 40, sharing=sharing)
    ones = {seed: weights(load(run, step=10 * seed)) for seed in (1, 2, 3, 4)}

    def is_mean(loaded: Loaded, *of: int) -> bool:
        output = weights(loaded)
        means = {name: torch.stack([ones[seed][name] for seed in of]).mean(0) for name in output}
        return all(torch.allclose(output[name], mean, atol=1e-6) for name, mean in means.items())

    assert is_mean(load(run, average=2), 3, 4) and is_mean(load(run, average=4), 1, 2, 3, 4)
    assert is_mean(load(run, step=30, average=2), 2, 3)
    assert load(run, step=30, average=2).averaged == (20, 30)
    one = load(run, average=1)
    assert same(pairs[-1].main, one) and not one.averaged and not one.notes
    damage(run, 30)
    with pytest.warns(DamagedModel, match="step-00000030"):
        assert is_mean(load(run, average=3), 1, 2, 4)
    with pytest.raises(CheckpointError, match="step-00000030"):
        load(run, step=30, average=2)
    with pytest.raises(CheckpointError):
        load(run, step=35, average=2)


def test_a_mean_is_summed_in_float64_over_equal_shapes(tmp_path: Path) -> None:
    def written(step: int, weight: torch.Tensor) -> Checkpoint:
        output = at_step(tmp_path, step)
        output.path.mkdir()
        save_file({"w": weight}, output.weights)
        return output

    # in float32 the ones would be lost beside 2**25
    values = [2.0**25, 1.0, 1.0, 1.0, -(2.0**25)]
    mean = mean_weights([written(step, torch.tensor([value])) for step, value in enumerate(values)])
    assert mean["w"].dtype == torch.float32 and mean["w"].item() == pytest.approx(3 / 5)
    pair = [written(8, torch.zeros(2)), written(9, torch.zeros(1))]  # which would be broadcast
    with pytest.raises(CheckpointError, match=r"step-00000009.*step 8"):
        mean_weights(pair)
    with pytest.raises(CheckpointError, match="step-00000010"):
        mean_weights([pair[0], at_step(tmp_path, 10)])


def test_a_copied_checkpoint_is_not_averaged_twice(make_run: MakeRun) -> None:
    run, _ = make_run(50, 60)
    shutil.copytree(run / "checkpoints" / "step-00000060", run / "checkpoints" / "step-000000060")
    assert load(run, average=2).averaged == (50, 60)
    for wrong in (0, 2.5, "2", [2]):
        with pytest.raises(ConfigError):
            load(run, average=wrong)  # type: ignore[arg-type]


def test_weights_that_are_not_numbers_are_not_exported(make_run: MakeRun, tmp_path: Path) -> None:
    run, _ = make_run(50, 60, broken=True)
    for argv in (["--average", "2"], ["--step", "60"], []):
        assert main(["export", str(run), "--out", str(tmp_path / "out"), *argv]) == 2
        assert not (tmp_path / "out").exists()


def test_export_of_an_average(make_run: MakeRun, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run, _ = make_run(50, 60, 70)
    row = {"kind": "eval", "step": 60, "tokens": 600, "metrics": {"auc": 0.6, "best_f1_threshold": 0.3}}
    (run / "metrics.jsonl").write_text(json.dumps(row))
    out = tmp_path / "out"
    assert main(["export", str(run), "--out", str(out), "--average", "2", "--step", "60"]) == 0
    assert "note: the mean of the checkpoints of steps 50, 60\n" in capfd.readouterr().err
    output = load(out)
    assert same(output, load(run, step=60, average=2))
    card = (out / "README.md").read_text()
    averaged = re.search(r"\b2 checkpoints\D*\b50\b\D*\b60\.", " ".join(card.split()))
    assert averaged and "| steps | 60 |" in card
    assert "auc" not in card and output.threshold == 0.5, "measured on single checkpoints"
    before = (out / "model.safetensors").read_bytes()
    for options, message in (
        (["--average", "4"], "3. Lower --average"),
        (["--average", "4"], "--training.keep 4"),
        (["--average", "2", "--step", "50"], "1 up to step 50"),
        (["--average", "0"], "--average: "),
    ):
        assert main(["export", str(run), "--out", str(out), *options]) == 2
        error = capfd.readouterr().err
        assert message in error and error.count("\n") == 1
        assert (out / "model.safetensors").read_bytes() == before


def test_an_average_in_python(make_run: MakeRun) -> None:
    run, _ = make_run(1, 2)
    for kind, name in (("discriminator", "discriminator"), ("generator", "language_model")):
        load_model(run).export(run / name, network=kind)  # finished networks, which an average leaves aside
    model = load_model(run, average=2)
    assert model.encoder.averaged == model.language_model.averaged == (1, 2)
    assert repr(model).startswith(f"<Model {str(run)!r}, average of 2: ")
    with pytest.raises(ConfigError):
        os.fspath(model)


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
        ("num_layers", -1, "sizes"),
        ("num_heads", 0, "sizes"),
        ("vocab_size", 10**13, "sizes"),
        ("architecture", "x", "sizes"),
        ("norm_eps", float("nan"), "out of range"),
        ("dropout", 7.0, "out of range"),
        ("sharing", "zz", "'zz' is not one of"),
    ],
)
def test_a_record_of_another_network_is_refused(
    key: str, value: object, told: str, make_run: MakeRun
) -> None:
    run, _ = make_run(1, size="mini", architecture="modern")
    record = tomllib.loads((run / "run.toml").read_text())
    record["model" if key == "sharing" else "discriminator"][key] = value
    (run / "run.toml").write_text(write_toml(record))
    with pytest.raises((RunFolderError, CheckpointError), match=told):
        load(run)
