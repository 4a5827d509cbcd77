"""Two stages: what each trains, and what happens between them."""

from pathlib import Path
from typing import Any

import pytest
import torch

from electra.foundation.errors import ConfigError
from electra.model import flops
from electra.testing import toy
from electra.training import loop
from electra.training.assemble import build_run
from electra.training.distributed import World
from electra.training.run import RunState
from electra.training.schedule import part

ONE_SIZE = {"sharing": "none", "generator_width": 1.0}
SWITCH, STEPS = 4, 8


def recipe(objective: dict[str, Any] | None = None, **training: Any) -> Any:
    options = {"name": "two_stage", **(objective or {})}
    return toy.recipe(model=ONE_SIZE, objective=options, training={"steps": STEPS, "checkpoint_every": 100, **training})


def built(tmp_path: Path, objective: dict[str, Any] | None = None, **training: Any) -> RunState:
    return build_run(recipe(objective, **training), tmp_path / "run", toy.store(), World())


def copies(run: RunState, network: str) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in getattr(run.pair, network).named_parameters()}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(tensor, b[name]) for name, tensor in a.items())


def test_each_stage_trains_one_network_and_decay_does_not_touch_the_other(tmp_path: Path) -> None:
    run = built(tmp_path, weight_decay=0.5)
    fresh = copies(run, "discriminator")
    for _ in range(SWITCH):
        before = copies(run, "generator")
        loop.update(run)
        assert same(copies(run, "discriminator"), fresh) and not same(copies(run, "generator"), before)
    frozen = copies(run, "generator")
    for _ in range(SWITCH, STEPS):
        before = copies(run, "discriminator")
        loop.update(run)
        assert same(copies(run, "generator"), frozen) and not same(copies(run, "discriminator"), before)


@pytest.mark.parametrize("initialise", [True, False])
def test_stage_two_begins_with_the_generators_weights_or_fresh_ones(tmp_path: Path, initialise: bool) -> None:
    run = built(tmp_path, {"initialise": initialise}, learning_rate=1e-2, steps=STEPS)
    fresh = copies(run, "discriminator")
    for _ in range(SWITCH):
        loop.update(run)
    generator, discriminator = run.pair.auxiliary, run.pair.main
    assert generator is not None and discriminator is not None
    run.objective.begin_update(run.pair, SWITCH, SWITCH / STEPS, run.new_stage)
    encoder = {f"encoder.{name}": p for name, p in generator.encoder.named_parameters()}
    now = copies(run, "discriminator")
    assert same(encoder, now) == initialise
    assert same(fresh, now) == (not initialise)
    heads = [name for name in now if name.startswith("head.")]
    assert all(torch.equal(now[name], fresh[name]) for name in heads), "the head is fresh either way"
    loop.update(run)
    run.objective.begin_update(run.pair, SWITCH + 1, (SWITCH + 1) / STEPS, run.new_stage)
    assert not same(encoder, copies(run, "discriminator")), "copied once only"


@pytest.mark.parametrize("bias_correction", [True, False])
def test_the_discriminators_first_update_has_its_own_bias_correction(tmp_path: Path, bias_correction: bool) -> None:
    """With correction, Adam's first step has the size of the rate; without, (1 - beta1) / sqrt(1 - beta2)
    times that.
    """
    run = built(tmp_path, bias_correction=bias_correction, weight_decay=0.0, warmup=0.0, epsilon=1e-12, clip=1e9)
    for _ in range(SWITCH):
        loop.update(run)
    before = {name: p for name, p in copies(run, "discriminator").items() if name.startswith("head.")}
    loop.update(run)
    size = 1.0 if bias_correction else 0.1 / 0.001**0.5
    for name, now in copies(run, "discriminator").items():
        if name.startswith("head."):
            steps = (now - before[name]).abs()
            assert torch.allclose(steps[steps > 0], torch.tensor(1e-3 * size), rtol=1e-2), name
    moments = run.optimizer.tensors()
    steps_of = [float(moments[f"{name}.head.dense.weight:step"]) for name in ("discriminator", "generator")]
    assert steps_of == [1, SWITCH]


@pytest.mark.parametrize(
    ("share", "total"),
    [(0.55, 100), (0.3, 10), (0.1, 30), (0.7, 10), (1 / 3, 9), (0.5, 3), (0.5, 1), (0.0, 4), (1.0, 4)],
)
def test_loss_counts_and_schedule_agree_on_the_stage(share: float, total: int) -> None:
    objective = toy.objective("two_stage", generator_share=share)
    for step in range(total):
        counts = objective.corrupt(toy.batches().batch(step, 1), 1, step / total).counts
        in_second = counts["rtd"] > 0
        _, first, end = part(step, total, objective.stages)
        assert first <= step < end
        assert in_second == (end == total and (first > 0 or share == 0))


def test_flops_are_averaged_over_the_stages() -> None:
    objective = toy.objective("two_stage", generator_share=0.25)
    shapes = toy.shapes_for(objective)
    generator = flops.sequence_flops(shapes.auxiliary, None, 16, masked_fraction=0.15)
    discriminator = flops.sequence_flops(None, shapes.main, 16)
    expected = 0.25 * generator + 0.75 * (0.5 * generator + discriminator)
    assert objective.sequence_flops(shapes, 16) == pytest.approx(expected)
    joint = toy.objective("rtd").sequence_flops(shapes, 16)
    assert objective.sequence_flops(shapes, 16) < joint


def test_settings_that_two_stages_cannot_use_are_refused(tmp_path: Path) -> None:
    for setting, value in (("sharing", "embeddings"), ("generator_width", 0.25)):
        wrong = toy.recipe(objective={"name": "two_stage"}, model={setting: value})
        with pytest.raises(ConfigError) as refused:
            build_run(wrong, tmp_path, toy.store(), World())
        assert refused.value.key == f"model.{setting}"
    assert "`model.generator_width=1.0`" in refused.value.fix
    free = toy.recipe(objective={"name": "two_stage", "initialise": False}, model={"generator_width": 0.25})
    build_run(free, tmp_path, toy.store(), World())
    with pytest.raises(ConfigError) as refused:
        toy.objective("two_stage", generator="uniform")
    assert refused.value.key == "objective.generator"
