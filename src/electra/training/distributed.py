"""Data parallelism without wrappers: every process holds the whole pair and a slice of each batch."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from electra.foundation.errors import ConfigError, LostProcess, RunFailed
from electra.foundation.machine import LAUNCHER_FIX, is_distributed, launch_variable

Value = TypeVar("Value")

TIMEOUT, INTERFACE = "ELECTRA_TIMEOUT_MINUTES", "GLOO_SOCKET_IFNAME"
# Matches gloo's messages about a lost connection; gloo has no error classes.
_LOST = "onnection closed|onnection reset|onnection refused|ocket closed|roken pipe|closure"


@dataclass(frozen=True)
class World:
    """This process within the group of processes that train together: `rank` of `size`.

    A single process needs no launcher and no process group.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and prints messages: the one with rank 0."""
        return self.rank == 0

    def sum(self, values: list[float]) -> list[float]:
        """Returns each value summed over the processes, by one all-reduce in float64."""
        if self.size == 1:
            return values
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        buffer = torch.tensor(values, dtype=torch.float64, device=device)
        dist.all_reduce(buffer)
        summed: list[float] = buffer.tolist()
        return summed

    def broadcast(self, value: Value) -> Value:
        """Returns the main process's value in every process."""
        values = [value]
        if self.size > 1:
            dist.broadcast_object_list(values, 0)
        return values[0]

    def barrier(self) -> None:
        """Waits until all processes have reached this call."""
        self.sum([0.0])


BUCKET_BYTES = 8 << 20  # size of the gradients in one all-reduce


class Reduction:
    """Sums gradients over the processes while the backward pass is still computing others.

    Parameters are divided into fixed buckets, the last parameters first, which is about the order in which
    their gradients become ready. A bucket is sent once its gradients are ready and the buckets before it have
    been sent. So all processes send the same buckets in the same order, and a resumed run adds in the same
    order as an uninterrupted one. (DistributedDataParallel rebuilds its buckets after the first step, which
    changes results in the last bits.) Buckets left over at the end of the backward pass, for example because
    a weight got no gradient, are sent then.
    """

    def __init__(
        self, world: World, parameters: Sequence[nn.Parameter], bucket_bytes: int = BUCKET_BYTES
    ) -> None:
        self.buckets: list[list[nn.Parameter]] = []
        self.missing_gradients: list[int] = []  # number of gradients that each bucket still waits for
        self.sent_buckets: list[tuple[Tensor, Any]] = []  # gradients and all-reduce handle of each sent one
        self.listening = False
        self.world, remaining_bytes = world, 0
        for parameter in reversed(parameters) if world.size > 1 else ():
            if remaining_bytes < parameter.nbytes:
                self.buckets.append([])
                remaining_bytes = bucket_bytes
            self.buckets[-1].append(parameter)
            remaining_bytes -= parameter.nbytes
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self._listener(len(self.buckets) - 1))  # type: ignore[no-untyped-call]

    def begin(self) -> None:
        """Announces the last backward pass of an update, during which buckets are sent."""
        self.missing_gradients = [len(bucket) for bucket in self.buckets]
        self.listening = True

    def finish(self) -> None:
        """Sends the remaining buckets and replaces every gradient by its sum over the processes."""
        self.listening = False
        while len(self.sent_buckets) < len(self.buckets):
            self._send()
        for bucket, (flat, handle) in zip(self.buckets, self.sent_buckets, strict=True):
            if handle is not None:
                handle.wait()
            parameters = _with_gradient(bucket)
            pieces = torch.split(flat, [p.numel() for p in parameters])
            for parameter, piece in zip(parameters, pieces, strict=True):
                parameter.grad = piece.view_as(parameter)
        self.sent_buckets.clear()

    def _listener(self, index: int) -> Any:
        def gradient_ready(_: Tensor) -> None:
            if not self.listening:
                return
            self.missing_gradients[index] -= 1
            while (
                len(self.sent_buckets) < len(self.buckets)
                and self.missing_gradients[len(self.sent_buckets)] == 0
            ):
                self._send()

        return gradient_ready

    def _send(self) -> None:
        bucket = _with_gradient(self.buckets[len(self.sent_buckets)])
        flat = torch.cat([torch.as_tensor(p.grad).reshape(-1) for p in bucket] or [torch.empty(0)])
        self.sent_buckets.append((flat, dist.all_reduce(flat, async_op=True) if bucket else None))


def digest(tensors: Mapping[str, Tensor]) -> int:
    """Returns a 52-bit digest of 32-bit tensors, which a float64 can represent exactly."""
    words = [tensors[name].detach().view(torch.int32) for name in sorted(tensors)]
    sums = torch.stack([each.sum(dtype=torch.int64).cpu() for each in words]).numpy().astype("<i8")
    return int.from_bytes(hashlib.blake2b(sums.tobytes(), digest_size=8).digest(), "little") >> 12


def require_same(world: World, tensors: Mapping[str, Tensor], folder: Path, step: int) -> None:
    """Compares the weights and optimizer state of all processes.

    Every process adds the same gradients to the same weights, so they stay equal. If a bit flips in the
    memory of one process, the difference persists and spreads, unnoticed in the losses.

    Raises:
        RunFailed: in every process, if any process differs from the main one.
    """
    if world.size == 1:
        return
    own = float(digest(tensors))
    digests = world.sum([own if rank == world.rank else 0.0 for rank in range(world.size)])
    if differing := [f"process {rank}" for rank, other in enumerate(digests) if other != digests[0]]:
        verb = "have" if len(differing) > 1 else "has"
        raise RunFailed(
            f"{', '.join(differing)} {verb} other weights than process 0 at step {step}; nothing was saved",
            where=folder,
            fix="Rerun to resume from the previous checkpoint. If it happens again, test the memory, and use"
            " identical machines, because different ones round differently",
        )


def _with_gradient(bucket: Sequence[nn.Parameter]) -> list[nn.Parameter]:
    """Returns the parameters that have a gradient; they are the same in every process."""
    return [parameter for parameter in bucket if parameter.grad is not None]


def join_world() -> World:
    """Joins the processes started by torchrun; returns a world of one if there are none.

    Raises:
        ConfigError: if the launcher's environment variables are inconsistent, or the timeout is invalid.
    """
    size = launch_variable("WORLD_SIZE", 1)
    if size == 1:
        return World()
    rank, local_rank = launch_variable("RANK"), launch_variable("LOCAL_RANK", 0)
    if rank >= size:
        problem = f"must be below WORLD_SIZE ({size}), not {rank}"
        raise ConfigError(problem, where="RANK", fix=LAUNCHER_FIX)
    if not os.environ.get("MASTER_ADDR", "").strip():
        raise ConfigError("not set, though WORLD_SIZE is", where="MASTER_ADDR", fix=LAUNCHER_FIX)
    if not 0 < (port := launch_variable("MASTER_PORT")) < 1 << 16:
        raise ConfigError(f"must be from 1 to 65535, not {port}", where="MASTER_PORT", fix=LAUNCHER_FIX)
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(local_rank)
    timeout = _timeout()
    dist.init_process_group("nccl" if cuda else "gloo", rank=rank, world_size=size, timeout=timeout)
    return World(rank, size, local_rank)


def _timeout() -> timedelta:
    text = os.environ.get(TIMEOUT, "10")
    with suppress(ValueError):
        if 0 < (minutes := float(text)) < 1e6:
            return timedelta(minutes=minutes)
    problem = f"must be a number of minutes above 0, not {text!r}"
    raise ConfigError(problem, where=TIMEOUT, fix="Set it to 10, for example")


@contextmanager
def translate_disconnects() -> Iterator[None]:
    """Within the block, turns the libraries' errors about a lost connection into LostProcess.

    Does nothing if this process trains alone.
    """
    try:
        yield
    except (dist.DistError, RuntimeError) as error:
        if not is_distributed():
            raise
        text = str(error)
        timed_out = re.search("timed out|timeout", text, re.IGNORECASE)
        if not timed_out and not isinstance(error, dist.DistError) and not re.search(_LOST, text):
            raise
        minutes = _timeout().total_seconds() / 60
        reason = f"no answer for {minutes:g} minutes" if timed_out else "connection closed"
        raise LostProcess(
            f"process {os.environ.get('RANK', '0')} lost the connection to another process ({reason})",
            fix=f"Check the other processes, then rerun to resume; {TIMEOUT} sets the timeout. If machines"
            f" never find each other, set {INTERFACE} to the network interface that joins them",
        ) from error


def leave_world() -> None:
    """Leaves the process group, if there is one."""
    if dist.is_initialized():
        dist.destroy_process_group()
