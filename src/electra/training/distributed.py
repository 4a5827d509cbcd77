"""Data parallelism without wrappers: every process holds the whole pair and a slice of each batch."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from electra.foundation.errors import ConfigError, LostProcess
from electra.foundation.machine import LAUNCHED, is_distributed, launch_variable
from electra.training.launch import RENDEZVOUS

TIMEOUT = "ELECTRA_TIMEOUT_MINUTES"
# Parts of gloo's messages about a lost connection; gloo has no error classes.
_LOST = "onnection closed|onnection reset|onnection refused|ocket closed|roken pipe|closure"


@dataclass(frozen=True)
class World:
    """This process within the group: `rank` of `size`.

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
        device = (
            torch.device("cuda", self.local_rank) if dist.get_backend() == "nccl" else torch.device("cpu")
        )
        buffer = torch.tensor(values, dtype=torch.float64, device=device)
        dist.all_reduce(buffer)
        summed: list[float] = buffer.tolist()
        return summed

    def broadcast(self, value: object) -> object:
        """Returns the main process's value in every process; the value must be JSON-serialisable."""
        if self.size == 1:
            return value
        import json

        text = json.dumps(value).encode() if self.is_main else b""
        [size] = self.sum([float(len(text))])
        device = (
            torch.device("cuda", self.local_rank) if dist.get_backend() == "nccl" else torch.device("cpu")
        )
        buffer: Tensor = torch.zeros(int(size), dtype=torch.uint8, device=device)
        if self.is_main:
            buffer.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
        dist.broadcast(buffer, 0)
        received: object = json.loads(bytes(buffer.cpu().tolist()))
        return received

    def barrier(self) -> None:
        """Waits until all processes get here."""
        self.sum([0.0])


BUCKET_BYTES = 8 << 20  # gradients per all-reduce


class Reduction:
    """Sums gradients over the processes while the backward pass is still computing others.

    Parameters lie in fixed buckets, the last parameters first, which is about the order in which their
    gradients become ready. A bucket is sent once its gradients are ready and earlier buckets have been sent.
    So all processes send the same buckets in the same order, and a resumed run adds in the same order as an
    uninterrupted one. (DistributedDataParallel rebuilds its buckets after the first step, which changes
    results in the last bits.) Buckets that are unsent at the end of the backward pass, for example because a
    weight got no gradient, are sent then.
    """

    def __init__(
        self, world: World, parameters: Sequence[nn.Parameter], bucket_bytes: int = BUCKET_BYTES
    ) -> None:
        self.buckets: list[list[nn.Parameter]] = []
        self.missing: list[int] = []  # per bucket, the number of gradients it still waits for
        self.sent: list[tuple[Tensor, Any]] = []  # per sent bucket, its gradients and the all-reduce's handle
        self.listening = False
        self.world = world
        if world.size == 1:
            return
        room = 0
        for parameter in reversed(parameters):
            if room < parameter.nbytes:
                self.buckets.append([])
                room = bucket_bytes
            self.buckets[-1].append(parameter)
            room -= parameter.nbytes
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self._listener(len(self.buckets) - 1))  # type: ignore[no-untyped-call]

    def begin(self) -> None:
        """Announces the last backward pass of an update, during which buckets are sent."""
        self.missing = [len(bucket) for bucket in self.buckets]
        self.listening = True

    def add(self) -> None:
        """A backward pass is done: its gradients have been added to those before it."""

    def losses(self, values: Sequence[Sequence[Tensor]]) -> list[float]:
        """The sum over all processes and micro-batches of each column of numbers; a row is a micro-batch."""
        return self.world.sum([float(sum(column)) for column in zip(*values, strict=True)])

    def finish(self) -> None:
        """Sends the remaining buckets and replaces every gradient by its sum over the processes."""
        self.listening = False
        while len(self.sent) < len(self.buckets):
            self._send()
        for bucket, (flat, handle) in zip(self.buckets, self.sent, strict=True):
            if handle is not None:
                handle.wait()
            parameters = _with_gradient(bucket)
            for parameter, piece in zip(
                parameters, torch.split(flat, [p.numel() for p in parameters]), strict=True
            ):
                parameter.grad = piece.view_as(parameter)
        self.sent.clear()

    def _listener(self, number: int) -> Any:
        def arrived(_: Tensor) -> None:
            if not self.listening:
                return
            self.missing[number] -= 1
            while len(self.sent) < len(self.buckets) and self.missing[len(self.sent)] == 0:
                self._send()

        return arrived

    def _send(self) -> None:
        gradients = [
            torch.as_tensor(p.grad).reshape(-1) for p in _with_gradient(self.buckets[len(self.sent)])
        ]
        flat = torch.cat(gradients) if gradients else torch.empty(0)
        self.sent.append((flat, dist.all_reduce(flat, async_op=True) if gradients else None))


class FixedOrder:
    """Sums the gradients of an update in an order that the number of processes does not change.

    The micro-batches of an update, over all processes, are the leaves of a tree: neighbours are added, then
    neighbouring sums. A process holds 2^k neighbouring leaves, whose sum is a node of it; all processes
    sum the rest of the tree alike. (Where their number is not a power of two, runs of as many neighbours as
    its odd part are added up first, and are the leaves.)
    """

    def __init__(
        self, world: World, parameters: Sequence[nn.Parameter], leaves: int, bucket_bytes: int = BUCKET_BYTES
    ) -> None:
        self.world, self.parameters, self.room = world, list(parameters), bucket_bytes // 4
        self.run = leaves // _power_of_two(leaves)  # leaves that are added up one after the other
        self.added = 0
        self.nodes: list[tuple[int, list[Tensor | None]]] = []  # (leaves in it, its gradients)

    def begin(self) -> None:
        """The next backward pass is the last of its update."""

    def add(self) -> None:
        """Take the gradients of a micro-batch."""
        gradients = [parameter.grad for parameter in self.parameters]
        for parameter in self.parameters:
            parameter.grad = None
        within = self.added % self.run
        self.added += 1
        if within:
            number, before = self.nodes.pop()
            self.nodes.append((number + 1, _sum(before, gradients)))
        else:
            self.nodes.append((1, gradients))
        while len(self.nodes) > 1 and self.nodes[-1][0] == self.nodes[-2][0] >= self.run:
            (number, first), (_, second) = self.nodes[-2:]
            self.nodes[-2:] = [(2 * number, _sum(first, second))]

    def finish(self) -> None:
        """Every gradient becomes the sum over the micro-batches of all processes."""
        [(_, gradients)] = self.nodes
        self.nodes, self.added = [], 0
        trained = [number for number, gradient in enumerate(gradients) if gradient is not None]
        if self.world.size > 1 and trained:
            flat = torch.cat([torch.as_tensor(gradients[number]).reshape(-1) for number in trained])
            for piece in torch.split(flat, self.room):
                every = [torch.empty_like(piece) for _ in range(self.world.size)]
                dist.all_gather(every, piece)
                while len(every) > 1:
                    every = [a + b for a, b in zip(every[::2], every[1::2], strict=True)]
                piece.copy_(every[0])
            sizes = [self.parameters[number].numel() for number in trained]
            for number, piece in zip(trained, torch.split(flat, sizes), strict=True):
                gradients[number] = piece.view_as(self.parameters[number])
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient

    def losses(self, values: Sequence[Sequence[Tensor]]) -> list[float]:
        """As `Reduction.losses`, in the order of the micro-batches."""
        width, rank, size = len(values[0]), self.world.rank, self.world.size
        own = [float(value) for row in values for value in row]
        placed = [0.0] * (len(own) * rank) + own + [0.0] * (len(own) * (size - rank - 1))
        every = self.world.sum(placed)  # each number added to zeros: no rounding
        return [sum(every[column::width]) for column in range(width)]


def check_fixed_order(batch_size: int, micro_batch: int, processes: int) -> int:
    """The number of micro-batches in an update. Raises ConfigError where the order cannot be fixed."""
    key = "training.micro_batch"
    if batch_size % micro_batch:
        what = f"a batch of {batch_size} rows is no multiple of {micro_batch}"
        raise ConfigError(what, key=key, fix="Choose a divisor of `training.batch_size`")
    leaves = batch_size // micro_batch
    most = _power_of_two(leaves)
    if processes & (processes - 1) or processes > most:
        what = (
            f"{leaves} micro-batches can be summed in one order by {_powers(most)} processes, not {processes}"
        )
        raise ConfigError(what, key=key, fix="Choose a smaller `training.micro_batch`, or other `processes`")
    return leaves


def _powers(most: int) -> str:
    powers = [str(1 << k) for k in range(most.bit_length())]
    return powers[0] if len(powers) == 1 else f"{', '.join(powers[:-1])} or {powers[-1]}"


def _power_of_two(number: int) -> int:
    """The largest power of two that divides it."""
    return number & -number


def _sum(first: list[Tensor | None], second: list[Tensor | None]) -> list[Tensor | None]:
    return [b if a is None else a if b is None else a.add_(b) for a, b in zip(first, second, strict=True)]


def _with_gradient(bucket: Sequence[nn.Parameter]) -> list[nn.Parameter]:
    """Returns the parameters that have a gradient; they are the same in every process."""
    return [parameter for parameter in bucket if parameter.grad is not None]


def join_world() -> World:
    """Joins the processes started by --processes or torchrun; a single process otherwise.

    Raises:
        ConfigError: if the launcher's environment variables are inconsistent.
    """
    size = launch_variable("WORLD_SIZE", 1)
    if size == 1:
        return World()
    rank, local_rank = launch_variable("RANK"), launch_variable("LOCAL_RANK", 0)
    if rank >= size:
        problem = f"must be below WORLD_SIZE ({size}), not {rank}"
        raise ConfigError(problem, where="RANK", fix=LAUNCHED)
    cuda = torch.cuda.is_available()
    if not cuda:
        _refuse_loopback(size)
    if cuda:
        torch.cuda.set_device(local_rank)
    method = os.environ.get(RENDEZVOUS, "env://")
    dist.init_process_group(
        "nccl" if cuda else "gloo", init_method=method, rank=rank, world_size=size, timeout=_timeout()
    )
    return World(rank, size, local_rank)


def _refuse_loopback(size: int) -> None:
    """Raises ConfigError if other machines would wait for this one forever.

    Gloo announces the address that the host name resolves to; on Debian that is 127.0.1.1.
    """
    if RENDEZVOUS in os.environ or "GLOO_SOCKET_IFNAME" in os.environ:
        return
    name, leader = socket.gethostname(), os.environ.get("MASTER_ADDR", "localhost")
    if os.environ.get("LOCAL_WORLD_SIZE") == str(size) or _loops_back(leader) or not _loops_back(name):
        return
    problem = (
        f"this machine's name, {name}, resolves to a loopback address, so other machines cannot reach it"
    )
    fix = "On every machine, set GLOO_SOCKET_IFNAME to its network interface, such as eth0"
    raise ConfigError(problem, where="torchrun", fix=fix)


def _loops_back(name: str) -> bool:
    try:
        return socket.gethostbyname(name).startswith("127.")
    except OSError:
        return False


def _timeout() -> timedelta:
    text = os.environ.get(TIMEOUT, "10")
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < 1e6:
        raise ConfigError(
            f"must be a number of minutes above 0, not {text!r}",
            where=TIMEOUT,
            fix="Set it to 10, for example",
        )
    return timedelta(minutes=minutes)


@contextmanager
def translate_disconnects() -> Iterator[None]:
    """Turns the libraries' errors about a lost process into LostProcess, within the block."""
    try:
        yield
    except (dist.DistError, RuntimeError) as error:
        if not is_distributed():
            raise
        text = str(error)
        silent = re.search("timed out|timeout", text, re.IGNORECASE)
        if not silent and not isinstance(error, dist.DistError) and not re.search(_LOST, text):
            raise
        minutes = _timeout().total_seconds() / 60
        reason = f"no answer for {minutes:g} minutes" if silent else "connection closed"
        rank = os.environ.get("RANK", "0")
        fix = f"Check the other processes, then rerun to resume; {TIMEOUT} sets the timeout"
        raise LostProcess(
            f"process {rank} lost the connection to another process ({reason})", fix=fix
        ) from error


def leave_world() -> None:
    """Leaves the process group, if there is one."""
    if dist.is_initialized():
        dist.destroy_process_group()
