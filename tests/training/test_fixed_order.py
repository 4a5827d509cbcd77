"""Gradients that are summed in an order of their own: any number of processes trains the same bits."""

from pathlib import Path
from typing import Any

import pytest
import torch
from driven import command, fingerprint, run_processes
from torch import Tensor, nn

from electra.foundation.errors import ConfigError
from electra.training import distributed
from electra.training.distributed import FixedOrder, World, check_fixed_order

FIXED = {"training.summation": "fixed", "training.micro-batch": "2"}


class Wire:
    """Stands for torch.distributed: what each rank sends is remembered, and answered once all is known."""

    def __init__(self, size: int) -> None:
        self.size, self.sent = size, dict[int, list[Tensor]]()
        self.rank, self.number = 0, 0

    def all_gather(self, every: list[Tensor], piece: Tensor) -> None:
        self.sent.setdefault(self.rank, []).append(piece.clone())
        if len(self.sent) == self.size and all(len(sent) > self.number for sent in self.sent.values()):
            for rank, target in enumerate(every):
                target.copy_(self.sent[rank][self.number])
        self.number += 1


def summed(gradients: Tensor, size: int, monkeypatch: pytest.MonkeyPatch, room: int = 1 << 20) -> Tensor:
    """What `size` processes make of the gradients [leaves N] of one parameter; one without any beside it."""
    wire = Wire(size)
    monkeypatch.setattr(distributed, "dist", wire)
    share = len(gradients) // size
    found: list[Tensor] = []
    for again in range(2):  # at first nobody has sent what the last ranks send
        found = []
        for rank in range(size):
            own, idle = nn.Parameter(torch.zeros(gradients.shape[1])), nn.Parameter(torch.zeros(3))
            order = FixedOrder(World(rank, size), [own, idle], len(gradients), room)
            wire.rank, wire.number = rank, 0
            if again:
                order.world = World(rank, size)
            for leaf in gradients[rank * share : (rank + 1) * share]:
                own.grad = leaf.clone()
                order.add()
                assert own.grad is None
            order.finish()
            assert own.grad is not None and idle.grad is None
            found.append(own.grad)
    assert all(torch.equal(found[0], other) for other in found)
    return found[0]


@pytest.mark.parametrize("leaves", [8, 12, 40])
@pytest.mark.parametrize("room", [40, 1 << 20])
def test_the_sum_is_the_same_to_the_bit_for_any_number_of_processes(
    leaves: int, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(leaves)
    gradients = torch.randn(leaves, 37) * torch.logspace(-4, 4, leaves)[:, None]
    alone = summed(gradients, 1, monkeypatch)
    assert torch.allclose(alone, gradients.double().sum(0).float(), rtol=1e-5, atol=1e-2)
    for size in (2, 4):
        assert torch.equal(summed(gradients, size, monkeypatch, room), alone)
    in_turn = gradients[0].clone()
    for leaf in gradients[1:]:
        in_turn += leaf
    assert not torch.equal(in_turn, alone)  # the order matters here


@pytest.mark.parametrize(("batch", "micro", "processes"), [(32, 5, 1), (32, 8, 8), (32, 8, 3), (24, 8, 2), (32, 64, 1)])
def test_numbers_of_processes_with_no_fixed_order_are_refused(batch: int, micro: int, processes: int) -> None:
    with pytest.raises(ConfigError):
        check_fixed_order(batch, micro, processes)


def trained(out: Path, store: Path, *parts: tuple[int, int | None], **more: Any) -> dict[str, Any]:
    """Trains a run in parts, each by a number of processes, which are killed after a step unless None."""
    words = command(store, out, **FIXED, **more)
    for size, until in parts:
        run_processes(words, size, out.parent, until)
    return fingerprint(out)


@pytest.mark.slow
def test_one_two_and_four_processes_train_the_same_bits_even_if_killed_and_resumed(
    toy_store: Path, tmp_path: Path
) -> None:
    alone = trained(tmp_path / "one", toy_store, (1, None))
    for name, parts in {
        "two": [(2, None)],
        "four": [(4, None)],
        "mixed": [(2, 6), (1, 11), (4, 17), (2, None)],
    }.items():
        assert trained(tmp_path / name, toy_store, *parts) == alone, name
    assert "not bit-exact" not in (tmp_path / "mixed" / "log.txt").read_text()
