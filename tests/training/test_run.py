"""A run in this process: what it records, refuses, survives and says."""

import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import metrics as oracle

from electra.artifacts import checkpoints
from electra.artifacts.ledger import Ledger
from electra.artifacts.run_files import RunFolder
from electra.foundation.config import merge, read_toml
from electra.foundation.errors import CheckpointError, ConfigError, FullDisk, RunFailed, RunFolderError
from electra.foundation.signals import StopRequest
from electra.testing import toy
from electra.training import checkpoint, loop
from electra.training import heldout as evaluation
from electra.training.assemble import build_run, start
from electra.training.distributed import World
from electra.training.record import _plain
from electra.training.run import RunState
from electra.training.starts import Starts


def train(folder: Path, **sections: Any) -> list[dict[str, Any]]:
    with start(toy.recipe(**sections), folder, toy.store(), World()) as run, StopRequest() as stop:
        assert loop.train(run, stop)
    return Ledger.read(folder / "metrics.jsonl").rows


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of 6 steps with two checkpoints."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    train(folder, training={"evaluate_every": 3, "checkpoint_every": 3})
    return folder


def losses(rows: list[dict[str, Any]]) -> list[dict[str, float]]:
    return [row["losses"] for row in rows if row["kind"] == "train"]


def test_the_ledger_and_the_record_are_complete(finished: Path) -> None:
    rows = Ledger.read(finished / "metrics.jsonl").rows
    assert [row["step"] for row in rows if row["kind"] == "train"] == [1, 2, 3, 4, 5, 6]
    assert [row["step"] for row in rows if row["kind"] == "eval"] == [0, 3, 6]
    first = next(row for row in rows if row["kind"] == "train")
    assert first["tokens"] == 8 * 16 and first["flops"] > 0 and first["counts"]["rtd"] <= 8 * 16
    assert first["loss"] == pytest.approx(first["losses"]["mlm"] + 50 * first["losses"]["rtd"], rel=1e-6)
    record = read_toml(finished / "run.toml")
    assert (
        record["training"]["steps"] == 6
        and record["identity"]["data"] == "toy"
        and record["discriminator"]["hidden_size"] == 128
    )


def test_the_record_says_what_was_built(tmp_path: Path) -> None:
    """Not the recipe's size and vocabulary, which a model to start from overrides; the run still resumes."""
    shape = replace(build_run(toy.recipe(), tmp_path, toy.store(), World()).pair.main.encoder.config)
    other = replace(shape, num_layers=3)
    for config, size in ((other, ("tiny", 3, 128)), (replace(shape, num_layers=4), ("tiny", None, None))):
        out = tmp_path / str(config.num_layers)
        starts = Starts({"discriminator": "there"}, {"discriminator": config})
        with start(toy.recipe(training={"steps": 1}), out, toy.store(), World(), starts=starts) as run:
            pass
        record = RunFolder(out).record
        model = record["model"]
        assert (model["size"], model.get("layers"), model.get("hidden_size")) == size
        assert record["tokenizer"]["vocab_size"] == shape.vocab_size == toy.VOCABULARY
        assert f"{config.num_layers} layers of 128, vocabulary 60" in run.describe()
        old = {**record, "model": {**model, "size": "mini", "layers": None}}
        RunFolder(out).write_record(_plain(old))  # as an older version wrote it
        with start(toy.recipe(training={"steps": 1}), out, toy.store(), World(), starts=starts):
            pass


def test_micro_batches_change_nothing(tmp_path: Path) -> None:
    still: dict[str, Any] = {"model": {"dropout": 0.0, "attention_dropout": 0.0}}
    still["training"] = {"checkpoint_every": 6, "evaluate_every": 6}
    whole = losses(train(tmp_path / "whole", **still))
    pieces = losses(train(tmp_path / "pieces", **merge(still, {"training": {"micro_batch": 3}})))
    for a, b in zip(whole, pieces, strict=True):
        assert b == pytest.approx(a, rel=1e-4)


@pytest.mark.slow
def test_another_run_is_refused_naming_each_difference(tmp_path: Path) -> None:
    train(tmp_path / "run")
    with pytest.raises(RunFolderError) as caught:
        train(tmp_path / "run", training={"learning_rate": 2e-3}, objective={"name": "rtd", "temperature": 2.0})
    output = str(caught.value)
    assert (
        "training.learning_rate was 0.001, now 0.002" in output
        and "objective.temperature was 1.0, now 2.0" in output
        and "another `out`" in output
    )
    train(tmp_path / "run", training={"log_every": 5, "checkpoint_every": 2, "evaluate_every": 2})  # harmless


@pytest.mark.parametrize(("name", "key"), [("digest", "data"), ("tokenizer_digest", "tokenizer")])
def test_other_data_or_tokenizer_is_refused(finished: Path, name: str, key: str) -> None:
    other = toy.store()
    if name == "digest":
        other.description["digest"] = "other"
    else:
        object.__setattr__(other, "tokenizer_digest", "other")
    with (
        pytest.raises(RunFolderError, match=f"identity.{key} was toy, now other"),
        start(toy.recipe(), finished, other, World()),
    ):
        pass


def test_a_folder_with_other_files_is_refused_and_unchanged(tmp_path: Path) -> None:
    (tmp_path / "thesis.doc").write_text("years of work")
    with pytest.raises(RunFolderError, match=r"\(thesis\.doc"):
        train(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.doc"]


def test_a_gradient_that_is_not_finite_changes_nothing(tmp_path: Path) -> None:
    run = build_run(toy.recipe(), tmp_path / "run", toy.store(), World())
    loop.update(run)
    with torch.no_grad():
        run.pair.main.head.prediction.bias.fill_(math.nan)  # type: ignore[union-attr]
    before = {name: p.detach().clone() for name, p in run.pair.named_parameters()}
    moments = {name: value.clone() for name, value in run.optimizer.tensors().items()}
    with pytest.raises(RunFailed, match="not finite at step 1"):
        loop.update(run)
    assert run.step == 1
    assert all(
        torch.equal(before[name], p) or name.endswith("prediction.bias") for name, p in run.pair.named_parameters()
    )
    assert all(torch.equal(moments[name], value) for name, value in run.optimizer.tensors().items())


def test_a_loss_that_is_not_finite_at_evaluation_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"not finite at step 1"):
        train(tmp_path / "run", training={"learning_rate": 1e30, "warmup": 0.0, "evaluate_every": 1})


def test_masks_that_rise_from_nothing_are_accepted(tmp_path: Path) -> None:
    objective = {"name": "rtd", "mask_fraction": 0.0, "final_mask_fraction": 0.3}
    build_run(toy.recipe(objective=objective), tmp_path / "rising", toy.store(), World())


def test_a_damaged_record_is_refused(tmp_path: Path, finished: Path) -> None:
    shutil.copytree(finished, tmp_path / "run")
    file = tmp_path / "run" / "run.toml"
    content = file.read_text()
    for damaged in ("", content.partition("[environment]")[0]):
        file.write_text(damaged)
        with pytest.raises(RunFolderError) as refused:
            train(tmp_path / "run")
        assert refused.value.where == str(file)


@pytest.mark.slow
def test_the_collapse_alarm_is_raised_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "has_collapsed", lambda metrics: True)
    long = {
        "training": {"steps": 102, "batch_size": 1, "evaluate_every": 50, "log_every": 50},
        "evaluation": {"rows": 2},
    }
    rows = train(tmp_path / "warn", **long)
    assert [row["step"] for row in rows if row.get("event") == "collapse"] == [100]


@pytest.mark.slow
def test_detection_metrics_equal_scikit_learn() -> None:
    random = np.random.default_rng(0)
    replaced = random.random(500) < 0.2
    logits = random.normal(size=500) + 2 * replaced - 1
    metrics = evaluation.detection_metrics(logits, replaced)
    output, p = logits > 0, 1 / (1 + np.exp(-logits))
    oracles = {
        "precision": oracle.precision_score(replaced, output),
        "recall": oracle.recall_score(replaced, output),
        "f1": oracle.f1_score(replaced, output),
        "auc": oracle.roc_auc_score(replaced, logits),
        "average_precision": oracle.average_precision_score(replaced, logits),
        "discriminator_loss": oracle.log_loss(replaced, p),
        "gain": oracle.log_loss(replaced, np.full(500, replaced.mean())) - oracle.log_loss(replaced, p),
    }
    assert {name: metrics[name] for name in oracles} == pytest.approx(oracles)
    best = max(oracle.f1_score(replaced, p >= threshold) for threshold in np.unique(p))  # of every threshold
    assert oracle.f1_score(replaced, p >= metrics["best_f1_threshold"]) == pytest.approx(best)
    assert best > metrics["f1"]


def test_undefined_metrics_are_none() -> None:
    metrics = evaluation.detection_metrics(np.full(10, -1.0), np.zeros(10, dtype=bool))
    assert {metrics[name] for name in ("auc", "precision", "recall", "average_precision")} == {None}
    json.dumps(metrics)


def test_retention_keeps_the_newest_checkpoints_and_no_stale_one_pushes_them_out(tmp_path: Path) -> None:
    run = build_run(toy.recipe(), tmp_path, toy.store(), World())
    for step, keep, left in (
        (500, 1, [500]),
        (10, 1, [500, 10]),
        (20, 1, [500, 20]),
        (9900, 2, [9900, 500]),
        (10000, 2, [10000, 9900]),
        (10100, 0, [10100]),
    ):
        checkpoint.write(tmp_path, run.pair, run.optimizer, {"step": step}, keep=keep)
        assert [found.step for found in checkpoints.list_checkpoints(tmp_path)] == left


def test_another_model_s_checkpoint_is_refused(tmp_path: Path) -> None:
    run: RunState = build_run(toy.recipe(), tmp_path, toy.store(), World())
    path = checkpoint.write(tmp_path, run.pair, run.optimizer, {"step": 1}, keep=1)
    wide = build_run(toy.recipe(model={"generator_width": 0.5}), tmp_path, toy.store(), World())
    with pytest.raises(CheckpointError, match=r"projection\.weight"):
        checkpoint.read_weights(path, wide.pair)
    baseline = build_run(toy.recipe(objective={"name": "mlm"}), tmp_path, toy.store(), World())
    with pytest.raises(CheckpointError, match="discriminator"):
        checkpoint.read_weights(path, baseline.pair)


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"training": {"seed": 2}}, r"training\.seed was 2, now 1"),
        ({"training": {"learning_rate": 2e-3}}, r"training\.learning_rate was 0\.002, now 0\.001"),
        ({"objective": {"name": "rtd", "mask_fraction": 0.3}}, r"objective\.mask_fraction was 0\.3"),
    ],
)
@pytest.mark.slow
def test_the_checkpoint_of_another_run_is_refused(tmp_path: Path, other: dict[str, Any], named: str) -> None:
    half = {"checkpoint_every": 3}
    train(tmp_path / "mine", training=half)
    train(tmp_path / "other", **merge({"training": half}, other))
    saved, foreign = (RunFolder(tmp_path / name).checkpoints for name in ("mine", "other"))
    shutil.rmtree(saved)
    shutil.copytree(foreign / "step-00000003", saved / "step-00000003")
    with pytest.raises(RunFolderError, match=f"step-00000003: .*{named}"):
        train(tmp_path / "mine", training=half)


@pytest.mark.parametrize(
    ("sections", "processes", "key"),
    [
        ({"training": {"length": 600}}, 1, "training.length"),
        ({"model": {"sharing": "all"}}, 1, "model.sharing"),
        ({}, 3, "training.batch_size"),
        ({"training": {"steps": None}}, 1, "training.steps"),
        ({"objective": {"name": "rtd", "mask_fraction": 0.0}}, 1, "objective.mask_fraction"),
    ],
)
def test_what_does_not_fit_is_refused_before_step_one(
    sections: dict[str, Any], processes: int, key: str, tmp_path: Path
) -> None:
    world = World(0, processes)
    with (
        pytest.raises(ConfigError) as refused,
        start(toy.recipe(**sections), tmp_path / "run", toy.store(), world),
    ):
        pass
    assert refused.value.key == key and not list(tmp_path.iterdir())


@pytest.mark.parametrize("encoder", ["electra", "modern"])
@pytest.mark.parametrize("sharing", ["none", "token", "embeddings", "all", "disentangled"])
def test_sharing_ties_the_selected_weights(encoder: str, sharing: str) -> None:
    model = {"encoder": encoder, "sharing": sharing, "generator_width": 1.0 if sharing == "all" else 0.5}
    pair = build_run(toy.recipe(model=model), Path("nowhere"), toy.store(), World()).pair
    assert pair.auxiliary is not None
    own = {id(p) for p in pair.auxiliary.encoder.parameters()}
    theirs = dict(pair.main.encoder.named_parameters())
    embeddings = {name for name in theirs if name.startswith("embeddings.")}
    words = "embeddings.words.weight" if encoder == "electra" else "tokens.weight"
    expected = {"none": set(), "disentangled": set(), "all": set(theirs), "token": {words}}
    common = {name for name, parameter in theirs.items() if id(parameter) in own}
    assert common == expected.get(sharing, embeddings or {words})
    assert len(embeddings) == (5 if encoder == "electra" else 0)


def test_a_disk_too_small_is_refused_before_the_first_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = 10 << 20
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=free))
    with pytest.raises(FullDisk, match=r"\d+ MiB .*10 MiB") as caught:
        train(tmp_path / "run")
    assert caught.value.exit_code == 74 and not RunFolder(tmp_path / "run").metrics.exists()
    free = 10 << 30
    rows = train(tmp_path / "run", training={"checkpoint_every": 6})
    assert re.search(r"up to \d+ MiB on disk", next(r["message"] for r in rows if r.get("event") == "started"))


def test_leftovers_of_a_killed_process_are_removed_on_resuming(tmp_path: Path, finished: Path) -> None:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    left = [
        RunFolder(tmp_path).checkpoints / ".trash-step-00000001-99999999",
        RunFolder(tmp_path).checkpoints / ".tmp-step-00000009-99999999",
        tmp_path / ".tmp-discriminator-99999999",
    ]
    for folder in left:
        folder.mkdir()
    train(tmp_path, training={"checkpoint_every": 3})
    assert not [folder for folder in left if folder.exists()]
    assert [saved.step for saved in RunFolder(tmp_path).saved_checkpoints()] == [6, 3]
