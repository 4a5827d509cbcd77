"""Compiled layers."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from electra.foundation.machine import DEVICES
from electra.foundation.signals import StopRequest
from electra.model.pair import Pair
from electra.testing import toy
from electra.training import compilation
from electra.training.assemble import build_run, start
from electra.training.distributed import World
from electra.training.loop import train, update
from electra.training.run import RunState

needs_compiler = pytest.mark.skipif(not DEVICES["cpu"].has_compiler(), reason="needs a C++ compiler")


def recipe(**training: object) -> object:
    """One network, so that one layer's form is compiled (two for the modern encoder, whose first layer has no
    norm).
    """
    return toy.recipe(model={"dropout": 0.0, "attention_dropout": 0.0}, objective={"name": "mlm"}, training=training)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "compiled"))


def gradients(run: RunState) -> dict[str, torch.Tensor]:
    [batch] = run.micro_batches(0)
    part = run.objective.corrupt(batch, 1, 0.0)
    losses, found = toy.loss_and_gradients(run.objective, run.pair.train(), [part])
    return {"loss": torch.tensor(losses["mlm"]), **found}


@pytest.mark.slow
@needs_compiler
def test_loss_and_gradients_are_those_of_plain_layers() -> None:
    run = build_run(recipe(), Path("nowhere"), toy.store(), World())  # type: ignore[arg-type]
    plain = gradients(run)
    names = list(run.pair.state_dict())
    assert compilation.compile_layers(run) is None and run.compiled
    assert list(run.pair.state_dict()) == names
    compiled = gradients(run)
    assert plain.keys() == compiled.keys()
    for name, value in plain.items():
        assert torch.allclose(value, compiled[name], rtol=1e-5, atol=1e-5 * float(value.abs().max())), name


@pytest.mark.reliability
@needs_compiler
def test_every_form_is_compiled_before_the_first_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of masked slots change, rows without a second document come along: no step may wait for the
    compiler.
    """
    run = build_run(recipe(micro_batch=3), Path("nowhere"), toy.store(), World())  # type: ignore[arg-type]
    assert compilation.compile_layers(run) is None
    with torch.compiler.set_stance("fail_on_recompile"):
        for _ in range(4):
            update(run)
    assert {run.micro_batches(step)[0].packed for step in range(4)} == {True}


@pytest.mark.slow
@needs_compiler
def test_an_interrupted_compiled_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    def run_to(folder: Path, steps: int) -> Pair:
        with (
            StopRequest() as stop,
            start(recipe(compile="on", checkpoint_every=3), folder, toy.store(), World()) as run,
        ):  # type: ignore[arg-type]
            assert run.compiled
            if steps < run.total_steps:
                while run.step < steps:
                    update(run)
                stop.received = 15  # type: ignore[assignment]
            assert train(run, stop) == (steps == run.total_steps)
            return run.pair

    whole = run_to(tmp_path / "whole", 6)
    run_to(tmp_path / "cut", 3)
    torch._dynamo.reset()  # what a new process would find: nothing compiled but what is on disk
    continued = run_to(tmp_path / "cut", 6)
    for (name, a), b in zip(whole.named_parameters(), continued.parameters(), strict=True):
        assert torch.equal(a, b), name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "said"), [(None, "no compiler here"), (float("nan"), "other gradients"), (2.0, "other")]
)
def test_a_compiler_that_fails_or_is_wrong_becomes_one_line_and_training_continues(
    value: float | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rehearse(run: RunState) -> list[torch.Tensor]:
        if run.compiled and value is None:
            raise RuntimeError("no compiler here\nand a long story")
        return [torch.tensor([1.0, value if run.compiled else 1.0])]  # type: ignore[list-item]

    monkeypatch.setattr(compilation, "_rehearse", rehearse)
    with StopRequest() as stop, start(recipe(compile="on"), tmp_path, toy.store(), World()) as run:  # type: ignore[arg-type]
        assert not run.compiled and train(run, stop)
    log = (tmp_path / "log.txt").read_text()
    assert said in log and "long story" not in log


@pytest.mark.parametrize(
    ("training", "expected"), [({"budget": "5m"}, False), ({"budget": "30m"}, True), ({"steps": 10}, False)]
)
def test_auto_compiles_only_long_runs(
    training: dict[str, object], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DEVICES, "cpu", replace(DEVICES["cpu"], has_compiler=lambda: True))
    run = build_run(recipe(**training), Path("nowhere"), toy.store(), World())  # type: ignore[arg-type]
    assert compilation.should_compile(run) == expected
    long = build_run(recipe(steps=1 << 40), Path("nowhere"), toy.store(), World())  # type: ignore[arg-type]
    assert compilation.should_compile(long)
    dropping = build_run(toy.recipe(training={"steps": 1 << 40}), Path("nowhere"), toy.store(), World())
    assert not compilation.should_compile(dropping), "dropout makes compiled layers slower on a CPU"
    monkeypatch.setitem(DEVICES, "cpu", replace(DEVICES["cpu"], has_compiler=lambda: False))
    assert not compilation.should_compile(long)
