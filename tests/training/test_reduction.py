"""Gradients that travel while others are still being made: what is sent, when, in which order, and what comes
of it.

Here the other process is a stand-in that always has the same gradients. Real processes: test_resume.py and
test_run.py.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from electra.training import distributed
from electra.training.distributed import Reduction, World


class Wire:
    """Stands for torch.distributed: what arrives is twice what was sent, and only after somebody
    has waited.
    """

    def __init__(self, first: nn.Parameter) -> None:
        self.first, self.sizes, self.early = first, list[int](), list[bool]()

    def all_reduce(self, flat: Tensor, async_op: bool) -> Wire.Handle:
        assert async_op
        self.sizes.append(flat.numel())
        self.early.append(self.first.grad is None)
        return Wire.Handle(flat)

    class Handle:
        def __init__(self, flat: Tensor) -> None:
            self.flat = flat

        def wait(self) -> None:
            self.flat.mul_(2)


class Net(nn.Module):
    """Three layers, the first used again at the end, as an embedding table is."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4, bias=False) for _ in range(3))
        self.idle = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor, skip: bool = False) -> Tensor:
        for layer in list(self.layers)[: 1 if skip else 3]:
            x = layer(x).tanh()
        return self.layers[0](x).square().sum()  # type: ignore[no-any-return]


LAYER = 4 * 4 * 4  # bytes


def prepared(monkeypatch: pytest.MonkeyPatch, bucket_bytes: int) -> tuple[Net, Reduction, Wire]:
    torch.manual_seed(0)
    net = Net()
    parameters = [*net.layers.parameters(), net.idle]
    reduction, wire = Reduction(World(0, 2), parameters, bucket_bytes), Wire(net.layers[0].weight)
    monkeypatch.setattr(distributed, "dist", wire)
    return net, reduction, wire


def gradients(net: Net) -> dict[str, Tensor]:
    return {name: parameter.grad.clone() for name, parameter in net.named_parameters() if parameter.grad is not None}


@pytest.mark.parametrize("bucket_bytes", [1, LAYER, 2 * LAYER, 1 << 20])
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_each_gradient_is_summed_once_over_processes_and_micro_batches(
    monkeypatch: pytest.MonkeyPatch, bucket_bytes: int, micro_batches: int
) -> None:
    net, reduction, wire = prepared(monkeypatch, bucket_bytes)
    inputs = torch.randn(micro_batches, 5, 4)
    for rows in inputs:
        net(rows).backward()
    alone = gradients(net)
    assert not wire.sizes, "nothing travels before the last micro-batch"
    net.zero_grad()
    for _ in range(2):  # a second update begins anew
        net.zero_grad()
        for micro, rows in enumerate(inputs):
            if micro == micro_batches - 1:
                reduction.begin()
            net(rows).backward()
        reduction.finish()
        together = gradients(net)
        assert together.keys() == alone.keys() == {f"layers.{i}.weight" for i in range(3)}
        for name, gradient in alone.items():
            torch.testing.assert_close(together[name], 2 * gradient, rtol=0, atol=0)
    assert sum(wire.sizes) == 2 * 3 * 16


def test_the_last_layers_are_sent_before_the_first_has_a_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    net, reduction, wire = prepared(monkeypatch, LAYER)
    del reduction.buckets[0][:]  # the idle weight, which would hold up the others
    reduction.begin()
    net(torch.randn(5, 4)).backward()
    assert wire.early == [True, True, False], (
        "layers 2 and 1 left early; layer 0 is used twice and had to wait for both"
    )
    reduction.finish()
    assert len(wire.sizes) == 3


def test_buckets_are_sent_in_order_even_if_a_weight_has_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    net, reduction, wire = prepared(monkeypatch, 1)
    reduction.begin()
    net(torch.randn(5, 4)).backward()
    assert not wire.sizes, "its bucket is the first in line"
    reduction.finish()
    assert wire.sizes == [16, 16, 16] and net.idle.grad is None
    wire.sizes.clear()
    net.zero_grad()
    reduction.begin()
    net(torch.randn(5, 4), skip=True).backward()  # a stage that leaves two layers out
    reduction.finish()
    assert wire.sizes == [16] and net.layers[1].weight.grad is None
