"""The update of a GPU, as far as a processor can try it: losses, gradients, fixed shapes, no host reads."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from typing_extensions import override

from electra.foundation.errors import ConfigError, RunFailed
from electra.testing import toy
from electra.training import loop
from electra.training.assemble import build_run
from electra.training.distributed import World
from electra.training.fixed_update import FixedUpdate, why_not
from electra.training.run import RunState

STEPS = 6
FIXED = ("mlm", "rtd", "electra_15", "replace_mlm")
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
# What reads a value on the host, or returns a shape that depends on one.
READS = {*str.split("_local_scalar_dense nonzero masked_select unique2 _unique2 bincount equal item")}


class Host(TorchDispatchMode):
    """Notes the operations that a CUDA graph cannot hold."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    @override
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        masks = [index for index in args[1] if index is not None] if name in ("index", "index_put_") else []
        if name in READS or any(mask.dtype == torch.bool for mask in masks):
            self.seen.add(name)
        return func(*args, **(kwargs or {}))


def make(objective: str, device: str = "cpu", **training: Any) -> RunState:
    settings = {"device": device, "steps": STEPS, **training}
    model = {"dropout": 0.0, "attention_dropout": 0.0}
    recipe = toy.recipe(objective={"name": objective}, model=model, training=settings)
    return build_run(recipe, Path("nowhere"), toy.store(), World())


def fixed_update(run: RunState, graph: bool) -> FixedUpdate:
    parts = run.objective, run.pair, run.optimizer, run.training, run.device, run.precision
    return FixedUpdate(*parts, graph)


def reason(run: RunState) -> str:
    return why_not(run.objective, run.pair, run.training, run.world.size) or ""


@pytest.mark.parametrize("objective", FIXED)
def test_a_batch_that_is_filled_up_has_the_same_loss_and_gradient(objective: str) -> None:
    run = make(objective)
    [batch] = run.corrupted_batches(0)
    plain, gradients = toy.loss_and_gradients(run.objective, run.pair, [batch])
    filled, others = toy.loss_and_gradients(
        run.objective, run.pair, [batch.filled_up(len(batch.targets) + 9)]
    )
    # Sums of at most 2^13 terms in another order: 2^-24 for each of the 13 levels, with room.
    assert filled == pytest.approx(plain, rel=1e-5)
    for name, gradient in gradients.items():
        torch.testing.assert_close(others[name], gradient, rtol=1e-4, atol=1e-5 * float(gradient.abs().max()))


@pytest.mark.parametrize("objective", FIXED)
def test_an_update_reads_nothing_on_the_host(objective: str) -> None:
    run = make(objective, bias_correction=True)
    fixed, shapes = fixed_update(run, graph=False), set()
    for step in range(2):
        run.step = step
        [batch] = run.corrupted_batches(step)
        fixed.enqueue(step, 1.0, batch, {name: float(n) for name, n in batch.counts.items()})
        assert fixed.batch is not None
        shapes.add(
            tuple(value.shape for value in vars(fixed.batch).values() if isinstance(value, torch.Tensor))
        )
        with Host() as host:
            fixed.compute()
        assert not host.seen
    assert len(shapes) == 1


def test_the_watch_sees_what_a_graph_cannot_hold() -> None:
    with Host() as host:
        x = torch.arange(3.0)
        x[x > 1].sum().item()
    assert host.seen >= {"index", "_local_scalar_dense"}


@pytest.mark.parametrize("objective", FIXED)
def test_training_is_that_of_the_plain_loop(objective: str) -> None:
    weights = []
    for is_fixed in (False, True):
        run = make(objective)
        run.fixed = fixed_update(run, graph=False) if is_fixed else None
        for _ in range(STEPS):
            loop.update(run)
        loop.settle(run)
        assert run.step == STEPS and not run.pending
        weights.append({name: value.clone() for name, value in run.pair.state_dict().items()})
    plain, fixed = weights
    for (
        name,
        value,
    ) in plain.items():  # Adam's first steps are rate * sign: a rounding may turn a tiny gradient
        moved = STEPS * 5e-4
        assert float((fixed[name] - value).abs().max()) <= 2 * moved
        assert float((fixed[name] - value).abs().mean()) < 0.02 * moved, name


def test_an_update_whose_gradient_is_not_finite_changes_nothing() -> None:
    run = make("rtd")
    run.fixed = fixed_update(run, graph=False)
    loop.update(run)
    before = {name: value.clone() for name, value in run.pair.named_parameters()}
    run.fixed.scales.copy_ = lambda _: run.fixed.scales.fill_(torch.inf)  # type: ignore[method-assign,union-attr]
    loop.update(run)
    with pytest.raises(RunFailed, match="not finite at step 1"):
        loop.settle(run)
    assert all(torch.equal(value, before[name]) for name, value in run.pair.named_parameters())


def test_every_other_run_says_why_it_has_no_graph() -> None:
    for name in set(toy.names()) - set(FIXED):
        assert "depend" in reason(make(name))
    assert "micro-batch" in reason(make("rtd", micro_batch=3))
    assert "host" in reason(make("rtd", bias_correction=False))
    with pytest.raises(ConfigError, match="CUDA"):
        make("rtd", graph="on")


@pytest.mark.cuda
@on_gpu
@pytest.mark.parametrize("objective", FIXED)
def test_a_graph_gives_the_bits_of_its_kernels_one_by_one(objective: str) -> None:
    weights = []
    for graph in (True, False):
        run = make(objective, device="cuda")
        run.fixed = fixed_update(run, graph=graph)
        for _ in range(STEPS):
            loop.update(run)
        loop.settle(run)
        assert (run.fixed.graph is not None) == graph
        weights.append({name: value.cpu() for name, value in run.pair.state_dict().items()})
    for name, value in weights[0].items():
        assert torch.equal(value, weights[1][name]), name
