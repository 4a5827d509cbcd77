"""Data parallelism without wrappers: every process holds the whole pair and a slice of each batch."""

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
    """This process, `rank` of the `size` that train together; a single one needs no process group."""

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

    def __init__(self, world: World, parameters: Sequence[nn.Parameter], bucket_bytes: int = BUCKET_BYTES) -> None:
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

    def add(self) -> None:
        """Called after each backward pass; does nothing, because autograd accumulates the gradients."""

    def sum_losses(self, values: Sequence[Sequence[Tensor]]) -> list[float]:
        """Sums each column of `values`, which has a row per micro-batch, over all processes."""
        return self.world.sum([float(sum(column)) for column in zip(*values, strict=True)])

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
            while len(self.sent_buckets) < len(self.buckets) and self.missing_gradients[len(self.sent_buckets)] == 0:
                self._send()

        return gradient_ready

    def _send(self) -> None:
        bucket = _with_gradient(self.buckets[len(self.sent_buckets)])
        flat = torch.cat([torch.as_tensor(p.grad).reshape(-1) for p in bucket] or [torch.empty(0)])
        self.sent_buckets.append((flat, dist.all_reduce(flat, async_op=True) if bucket else None))


class FixedOrder:
    """Sums the gradients of an update in an order that does not depend on the number of processes.

    The order is a binary tree over the micro-batches of all processes. Each process holds 2^k consecutive
    leaves and computes the sum of that subtree; then every process computes the rest of the tree in the same
    way. A leaf is one micro-batch if their number is a power of two. Otherwise it is the sequential sum of
    m consecutive micro-batches, where m is the largest odd divisor of their number.
    """

    def __init__(
        self,
        world: World,
        parameters: Sequence[nn.Parameter],
        micro_batches: int,
        bucket_bytes: int = BUCKET_BYTES,
    ) -> None:
        self.world, self.parameters, self.bucket_elements = world, list(parameters), bucket_bytes // 4
        self.micro_batches_per_leaf = micro_batches // _power_of_two(micro_batches)  # summed in turn
        self.num_added = 0  # micro-batches of this update so far
        self.nodes: list[tuple[int, list[Tensor | None]]] = []  # (number of micro-batches, gradients)

    def begin(self) -> None:
        """Called before the last backward pass of an update; does nothing."""

    def add(self) -> None:
        """Moves a micro-batch's gradients into the tree and adds up complete subtrees."""
        gradients = [parameter.grad for parameter in self.parameters]
        for parameter in self.parameters:
            parameter.grad = None
        index_in_leaf = self.num_added % self.micro_batches_per_leaf
        self.num_added += 1
        if index_in_leaf:
            count, partial = self.nodes.pop()
            self.nodes.append((count + 1, _sum(partial, gradients)))
        else:
            self.nodes.append((1, gradients))
        while len(self.nodes) > 1 and self.nodes[-1][0] == self.nodes[-2][0] >= self.micro_batches_per_leaf:
            (count, left), (_, right) = self.nodes[-2:]
            self.nodes[-2:] = [(2 * count, _sum(left, right))]

    def finish(self) -> None:
        """Replaces every gradient by its sum over the micro-batches of all processes."""
        [(_, gradients)] = self.nodes
        self.nodes, self.num_added = [], 0
        with_gradient = [index for index, gradient in enumerate(gradients) if gradient is not None]
        if self.world.size > 1 and with_gradient:
            flat = torch.cat([torch.as_tensor(gradients[index]).reshape(-1) for index in with_gradient])
            for piece in torch.split(flat, self.bucket_elements):
                gathered = [torch.empty_like(piece) for _ in range(self.world.size)]
                dist.all_gather(gathered, piece)
                while len(gathered) > 1:
                    gathered = [a + b for a, b in zip(gathered[::2], gathered[1::2], strict=True)]
                piece.copy_(gathered[0])
            sizes = [self.parameters[index].numel() for index in with_gradient]
            for index, piece in zip(with_gradient, torch.split(flat, sizes), strict=True):
                gradients[index] = piece.view_as(self.parameters[index])
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient

    def sum_losses(self, values: Sequence[Sequence[Tensor]]) -> list[float]:
        """Like `Reduction.sum_losses`, but sums in the order of the micro-batches."""
        num_losses, rank, size = len(values[0]), self.world.rank, self.world.size
        local = [float(value) for row in values for value in row]
        padded = [0.0] * (len(local) * rank) + local + [0.0] * (len(local) * (size - rank - 1))
        gathered = self.world.sum(padded)  # nothing is rounded, because each number is added to zeros
        return [sum(gathered[column::num_losses]) for column in range(num_losses)]


def check_fixed_order(batch_size: int, micro_batch: int, processes: int) -> int:
    """Returns the number of micro-batches of an update, over all processes, if they have a fixed order.

    Raises ConfigError if `micro_batch` does not divide `batch_size`, or `processes` is not a power of two
    that divides the number of micro-batches.
    """
    key = "training.micro_batch"
    if batch_size % micro_batch:
        problem = f"a batch of {batch_size} rows is not a multiple of {micro_batch}"
        raise ConfigError(problem, key=key, fix="Choose a divisor of `training.batch_size`")
    micro_batches = batch_size // micro_batch
    max_processes = _power_of_two(micro_batches)
    if processes & (processes - 1) or processes > max_processes:
        problem = (
            f"{processes} processes cannot sum {micro_batches} micro-batches in a fixed order: the number of"
            f" processes must be a power of two, at most {max_processes}"
        )
        fix = "Choose a smaller `training.micro_batch`, or another number of processes"
        raise ConfigError(problem, key=key, fix=fix)
    return micro_batches


def digest(tensors: Mapping[str, Tensor]) -> int:
    """Returns a 52-bit digest of 32-bit tensors, which a float64 can represent exactly."""
    words = [tensors[name].detach().view(torch.int32) for name in sorted(tensors)]
    sums = torch.stack([each.sum(dtype=torch.int64).cpu() for each in words]).numpy().astype("<i8")
    return int.from_bytes(hashlib.blake2b(sums.tobytes(), digest_size=8).digest(), "little") >> 12


def require_same(world: World, tensors: Mapping[str, Tensor], folder: Path, step: int) -> None:
    """Compares the weights and optimizer state of all processes.

    Every process adds the same gradients to the same weights, so they stay equal. If a bit flips in the
    memory of one process, the difference persists and spreads, unnoticed in the losses. Raises RunFailed in
    every process, if any process differs from the main one.
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


def _power_of_two(number: int) -> int:
    return number & -number


def _sum(first: list[Tensor | None], second: list[Tensor | None]) -> list[Tensor | None]:
    return [b if a is None else a if b is None else a.add_(b) for a, b in zip(first, second, strict=True)]


def _with_gradient(bucket: Sequence[nn.Parameter]) -> list[nn.Parameter]:
    return [parameter for parameter in bucket if parameter.grad is not None]


def join_world() -> World:
    """Joins the processes started by torchrun; returns a world of one if there are none.

    Raises ConfigError if the launcher's environment variables are inconsistent, or the timeout is invalid.
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
    """Within the block, turns the libraries' errors about a lost connection into LostProcess."""
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
