"""A discriminator that starts from a masked language model."""

from pathlib import Path

import pytest
import torch
from driven import toy_store, write_corpus  # noqa: F401
from safetensors.torch import load_file

import electra

SMALL = {
    "training.length": 16,
    "training.batch_size": 8,
    "training.precision": "fp32",
    "training.threads": 1,
    "training.learning_rate": 0.0,
    "evaluation.rows": 8,
}


@pytest.fixture(scope="module")
def language_model(toy_store: Path, tmp_path_factory: pytest.TempPathFactory) -> electra.Run:  # noqa: F811
    out = tmp_path_factory.mktemp("mlm") / "run"
    overrides = SMALL | {"objective.name": "mlm", "training.learning_rate": 1e-3}
    return electra.pretrain(toy_store, out=out, budget="3steps", overrides=overrides, recipe="tiny")


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["rtd", "rtd_mlm"])
def test_the_encoder_carries_over(
    objective: str,
    toy_store: Path,  # noqa: F811
    language_model: electra.Run,
    tmp_path: Path,
) -> None:
    run = electra.pretrain(
        toy_store,
        out=tmp_path / "run",
        budget="1steps",
        overrides=SMALL | {"objective.name": objective},
        init_discriminator=language_model,
        recipe="tiny",
    )
    before = load_file(language_model.path / "generator" / "model.safetensors")
    after = load_file(run.path / "discriminator" / "model.safetensors")
    layers = [name for name in before if ".layer." in name]
    assert layers and all(torch.equal(before[name], after[name]) for name in layers)
    if objective == "rtd_mlm":  # and its output layer
        assert run.scores["mlm_loss"] == pytest.approx(language_model.scores["mlm_loss"], abs=1e-6)


@pytest.mark.slow
def test_a_network_trained_for_rtd_and_mlm_continues_with_both_heads(
    toy_store: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    both = SMALL | {"objective.name": "rtd_mlm"}
    first = electra.pretrain(
        toy_store,
        out=tmp_path / "a",
        budget="3steps",
        overrides=both | {"training.learning_rate": 1e-3},
        recipe="tiny",
    )
    detector = electra.load(first).detector()
    assert 0 < detector.marking().threshold < 1 and detector.language_model is not None
    on = electra.pretrain(toy_store, out=tmp_path / "b", budget="1steps", overrides=both, init=first, recipe="tiny")
    for score in ("mlm_loss", "discriminator_loss", "generator_loss"):
        assert on.scores[score] == pytest.approx(first.scores[score], abs=1e-6), score
