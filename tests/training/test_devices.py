"""What must hold on every device: the CPU's losses and gradients, training that learns, checkpoints, compiled
layers.

`python benchmarks/quarter_hour.py DATA` runs these where there is a CUDA device.
"""

from pathlib import Path
from typing import Any

import pytest
import torch

from electra.testing import toy
from electra.training import compilation
from electra.training.assemble import build_run
from electra.training.distributed import World
from electra.training.recipe import Recipe

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
every_encoder = pytest.mark.parametrize("encoder", ["electra", "modern"])


def recipe(device: str, encoder: str = "electra", **training: Any) -> Recipe:
    model = {"encoder": encoder, "dropout": 0.0, "attention_dropout": 0.0}
    return toy.recipe(model=model, training={"device": device, **training})


def loss_and_gradients(device: str, encoder: str) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    run = build_run(recipe(device, encoder), Path("nowhere"), toy.store(), World())
    parts = [run.objective.corrupt(batch, 1, 0.0).to(run.device) for batch in run.micro_batches(0)]
    return toy.loss_and_gradients(run.objective, run.pair, parts)


@every_encoder
def test_loss_and_gradients_are_those_of_the_cpu(encoder: str) -> None:
    losses, gradients = loss_and_gradients("cuda", encoder)
    expected, reference = loss_and_gradients("cpu", encoder)
    assert losses == pytest.approx(expected, rel=1e-5)
    for name, value in reference.items():
        assert torch.allclose(gradients[name].cpu(), value, rtol=1e-3, atol=1e-4 * float(value.abs().max())), name


@every_encoder
def test_compiled_layers_learn_what_plain_ones_learn(encoder: str) -> None:
    def losses(compiled: bool) -> list[float]:
        run = build_run(recipe("cuda", encoder), Path("nowhere"), toy.store(), World())
        if compiled:
            assert compilation.compile_layers(run) is None
        parts = [run.objective.corrupt(batch, 1, 0.0).to(run.device) for batch in run.micro_batches(0)]
        return list(toy.loss_and_gradients(run.objective, run.pair.train(), parts)[0].values())

    assert losses(True) == pytest.approx(losses(False), rel=1e-4)
