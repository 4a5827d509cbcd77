"""Data parallelism without wrappers: every process holds the whole pair and a slice of each batch.

Gradients are summed once an update in one flat buffer of fixed order: DistributedDataParallel rebuilds its buckets after the first
step, which changes the order of additions and so the bits of a resumed run.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn

from electra.training.launch import RENDEZVOUS, stop_with_launcher


@dataclass(frozen=True)
class World:
    """This process among all: `rank` of `size`. A world of one needs no launcher and no process group."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def sum(self, values: list[float]) -> list[float]:
        """Each value summed over the processes, in one small reduction."""
        if self.size == 1:
            return values
        device = torch.device("cuda", self.local_rank) if dist.get_backend() == "nccl" else torch.device("cpu")
        buffer = torch.tensor(values, dtype=torch.float64, device=device)
        dist.all_reduce(buffer)
        summed: list[float] = buffer.tolist()
        return summed

    def sum_gradients(self, parameters: list[nn.Parameter]) -> None:
        if self.size == 1:
            return
        parameters = [p for p in parameters if p.grad is not None]  # the same ones in every process: that of a stage
        if not parameters:
            return
        gradients = [torch.as_tensor(p.grad) for p in parameters]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        dist.all_reduce(flat)
        pieces = torch.split(flat, [gradient.numel() for gradient in gradients])
        for parameter, piece in zip(parameters, pieces, strict=True):
            parameter.grad = piece.view_as(parameter)

    def broadcast(self, value: object) -> object:
        """The leading process's value, everywhere (JSON-like values only)."""
        if self.size == 1:
            return value
        import json

        text = json.dumps(value).encode() if self.leads else b""
        [size] = self.sum([float(len(text))])
        device = torch.device("cuda", self.local_rank) if dist.get_backend() == "nccl" else torch.device("cpu")
        buffer: Tensor = torch.zeros(int(size), dtype=torch.uint8, device=device)
        if self.leads:
            buffer.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
        dist.broadcast(buffer, 0)
        received: object = json.loads(bytes(buffer.cpu().tolist()))
        return received

    def barrier(self) -> None:
        self.sum([0.0])


def join_world() -> World:
    """Join the processes that --processes or torchrun started; alone without them."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return World()
    rank, local_rank = int(os.environ["RANK"]), int(os.environ.get("LOCAL_RANK", "0"))
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(local_rank)
    stop_with_launcher()
    timeout = timedelta(minutes=float(os.environ.get("ELECTRA_TIMEOUT_MINUTES", "10")))
    meet = os.environ.get(RENDEZVOUS, "env://")
    dist.init_process_group("nccl" if cuda else "gloo", init_method=meet, rank=rank, world_size=size, timeout=timeout)
    return World(rank, size, local_rank)


def leave_world() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
