"""Training on an Apple GPU, as far as it can be tested without one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from apple import Apple, to_apple
from torch import nn

from electra.foundation.errors import ConfigError
from electra.foundation.machine import DEVICES, Device
from electra.foundation.signals import StopRequest
from electra.inference.embedding import embed
from electra.inference.filling import fill
from electra.inference.mlm_detection import detect_with
from electra.model.precision import pick_device, to_float64
from electra.objectives import electric
from electra.testing import small, toy
from electra.training import compilation
from electra.training.distributed import World
from electra.training.loop import train
from electra.training.recipe import Recipe
from electra.training.start import start


@pytest.fixture
def apple(monkeypatch: pytest.MonkeyPatch) -> Apple:
    monkeypatch.setitem(DEVICES, "mps", replace(DEVICES["mps"], is_available=lambda: True))
    plain = nn.Module.to

    def to(module: nn.Module, *where: Any, **how: Any) -> nn.Module:
        return to_apple(module) if torch.device("mps") in where else plain(module, *where, **how)

    monkeypatch.setattr(nn.Module, "to", to)
    # what is computed again in the backward pass has lost the mark of the stand-in
    monkeypatch.setattr(electric, "checkpoint", lambda function, *tensors, **how: function(*tensors))
    return Apple()


def run_on(device: str, folder: Path, name: str) -> tuple[list[float], dict[str, torch.Tensor]]:
    sections: Recipe = toy.recipe(
        objective={"name": name},
        model={"dropout": 0.0, "attention_dropout": 0.0},
        training={"device": device, "steps": 3, "log_every": 1, "evaluate_every": 3},
    )
    with start(sections, folder, toy.store(), World()) as run, StopRequest() as stop:
        assert not compilation.should_compile(run) and train(run, stop)
        losses = [row["loss"] for row in map(dict, _rows(folder)) if row["kind"] == "train"]
        return losses, {name: value.detach().cpu().clone() for name, value in run.pair.named_parameters()}


def _rows(folder: Path) -> list[dict[str, Any]]:
    from electra.artifacts.ledger import Ledger

    return [dict(row) for row in Ledger.read(folder / "metrics.jsonl").rows]


@pytest.mark.parametrize(
    "name",
    [name if name == "rtd" else pytest.param(name, marks=pytest.mark.slow) for name in toy.names()],
)
def test_a_device_without_float64_learns_what_the_cpu_learns(name: str, tmp_path: Path, apple: Apple) -> None:
    """Samples included: where one token were another, the losses would differ."""
    expected, weights = run_on("cpu", tmp_path / "cpu", name)
    with apple:
        losses, theirs = run_on("mps", tmp_path / "mps", name)
    assert losses == pytest.approx(expected, rel=1e-4)
    assert all(torch.allclose(theirs[key], weights[key], atol=2e-3) for key in weights)


def test_every_offered_device_has_a_row() -> None:
    assert get_args(Device) == ("auto", *DEVICES)


def test_an_unavailable_device_is_refused() -> None:
    for name, kind in DEVICES.items():
        if not kind.is_available():
            with pytest.raises(ConfigError) as refused:
                pick_device(name, key="training.device")
            assert refused.value.key == "training.device"


def test_float64_tensors_are_made_on_the_host_if_the_device_lacks_them(apple: Apple) -> None:
    with apple:
        numbers = torch.ones(3, device="mps")
        assert (numbers.device.type, to_float64(numbers).device.type, to_float64(numbers).dtype) == (
            "mps",
            "cpu",
            torch.float64,
        )
        with pytest.raises(TypeError, match="float64"):
            numbers.double()


def test_trained_models_work_on_an_apple_gpu(tmp_path: Path, apple: Apple) -> None:
    texts = ["the chef like a meal", "a [MASK] ate the cat"]

    def answers(device: str) -> list[Any]:
        judge, writer = (
            small.network(tmp_path, kind).to(torch.device(device))  # type: ignore[arg-type]
            for kind in ("discriminator", "generator")
        )
        marked = [word.p_replaced for found in detect_with(judge, texts) for word in found.words]
        named = [word.p_replaced for found in detect_with(writer, texts) for word in found.words]
        filled = [candidate for slots in fill(writer, texts[1:]) for slot in slots for candidate in slot]
        vectors = embed(judge, texts).flatten().tolist()
        return [*marked, *named, *(candidate.p for candidate in filled), *vectors]

    expected = answers("cpu")
    with apple:
        assert answers("mps") == pytest.approx(expected, rel=1e-4, abs=1e-6)
