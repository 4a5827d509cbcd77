"""Batched inference on rows of any length, with little padding.

Rows are sorted by length within pools of 1,024 and batched up to a number of positions. On a CPU, small
batches are fast, because the activations of a layer stay in its caches. Measured on networks of 4 layers, 128
or 256 wide (one AVX-512 thread, fp32, padding not counted): 256 to 2,048 positions are within a few percent
of each other; with 4,096, each position takes 1.1 times as long, and with 8,192, 1.2 times. The number for a
GPU is large enough to keep it busy, and has not been tuned.

Shapes: B rows of a batch, T positions of its longest row.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from electra.foundation import threads
from electra.foundation.arrays import Ints
from electra.model.precision import autocast

Result = TypeVar("Result")

POOL_ROWS = 1024  # rows sorted by length together
SIMILAR = 0.85  # of the longest row's length; a shorter row begins a batch, if a quarter of this one is full
_before_batch: ContextVar[Callable[[], None]] = ContextVar("before_batch", default=lambda: None)


@contextmanager
def before_each_batch(call: Callable[[], None]) -> Iterator[None]:
    """Within the block, runs `call` before each batch of rows in this thread.

    An exception that it raises ends the iteration. In a nested block only its own is called.
    """
    outer = _before_batch.set(call)
    try:
        yield
    finally:
        _before_batch.reset(outer)


@dataclass(frozen=True)
class PaddedBatch:
    """Rows of similar length, padded to the longest, as an encoder reads them."""

    index: Ints  # [B] index of each row among all rows
    lengths: Ints  # [B] tokens of each row
    input_ids: Tensor  # [B, T]
    document_ids: Tensor | None  # [B, T] 0 at tokens, -1 at padding; None: no padding

    def padded(self, values: Sequence[npt.NDArray[Any]], fill: int = 0) -> Tensor:
        """Pads one array [length] per row, such as token types, with `fill`, and stacks them to [B, T]."""
        padded = _padded(values, fill, self.input_ids.shape[1])
        return torch.from_numpy(padded).to(self.input_ids.device)

    def unpadded(self, values_BT: Tensor) -> list[npt.NDArray[Any]]:
        """Splits [B, T, ...] into one array [length, ...] per row, on the host."""
        rows = values_BT.cpu().numpy()
        return [row[:length] for row, length in zip(rows, self.lengths, strict=True)]


def positions_per_batch(device: torch.device | str) -> int:
    """Returns the maximum number of positions in a forward pass, including padding."""
    return 1024 if torch.device(device).type == "cpu" else 16384


def map_rows(
    rows: Iterable[Ints],
    network: Callable[[PaddedBatch], Sequence[Result]],
    device: torch.device | str,
    *,
    precision: str = "fp32",
    pad: int = 0,
) -> Iterator[Result]:
    """Yields the result of `network` for each row of token ids, special ones included, in their order.

    `network` returns one result per row of a batch; it runs in inference mode, in several threads at once.
    `precision` is "fp32" or "bf16". One pool of rows and results is in memory at a time. In it the longest
    rows come first, so that a batch that exceeds the memory fails at once.

    On a CPU, each thread computes batches of its own: unlike threads that share an operation, they do not
    wait for each other, whatever other programs do, and the results do not depend on their number.
    """
    device = torch.device(device)
    source, pool_start = iter(rows), 0
    while pool := list(islice(source, POOL_ROWS)):
        lengths = list(map(len, pool))
        if precision == "bf16":
            lengths = [min(few_lengths(length), max(lengths)) for length in lengths]
        groups = list(_groups(lengths, positions_per_batch(device)))

        def compute(  # of this pool
            members: list[int], first: int = pool_start, pool: list[Ints] = pool, lengths: list[int] = lengths
        ) -> Sequence[Result]:
            rows = [pool[i] for i in members]
            batch = pad_rows(np.array(members) + first, rows, device, pad, lengths[members[0]])
            with torch.inference_mode(), autocast(device, precision):
                return network(batch)

        results: dict[int, Result] = {}
        for members, found in zip(groups, _spread(compute, groups, device), strict=True):
            results.update(zip(members, found, strict=True))
        yield from (results[i] for i in range(len(pool)))
        pool_start += len(pool)


def _spread(
    compute: Callable[[list[int]], Result], groups: Sequence[list[int]], device: torch.device
) -> Iterator[Result]:
    """Yields the result of each group, in order; on a CPU, each thread computes groups of its own."""
    workers, before = threads.workers() if device.type == "cpu" else 1, torch.get_num_threads()
    if min(workers, len(groups)) == 1:
        for group in groups:
            _before_batch.get()()
            yield compute(group)
        return
    waiting = deque[Future[Result]]()
    with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as executor:
        try:
            for group in groups:
                _before_batch.get()()
                waiting.append(executor.submit(compute, group))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            yield from (future.result() for future in waiting)
        finally:
            executor.shutdown(cancel_futures=True)
            torch.set_num_threads(before)


def few_lengths(length: int) -> int:
    """Returns the next of four lengths between powers of two: bf16 kernels are made and kept for each.

    At 6 layers of width 384 those of a length take 14 MB.
    """
    step = 1 << max(1, length.bit_length() - 3)
    return -(-length // step) * step


def _groups(lengths: Sequence[int], positions: int) -> Iterator[list[int]]:
    """Yields groups of indices of rows of similar length; a group fits into `positions`, or is one row."""
    group: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        longest = lengths[group[0]] if group else 0
        is_other = lengths[index] < SIMILAR * longest and 4 * len(group) * longest >= positions
        if group and (is_other or (len(group) + 1) * longest > positions):
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def pad_rows(
    index: Ints, rows: Sequence[Ints], device: torch.device | str, pad: int, length: int | None = None
) -> PaddedBatch:
    """Pads rows of token ids to a batch; `index` [B] says where each row stands among all rows.

    `length`: of the padded rows (default: that of the longest).
    """
    lengths = np.array([len(row) for row in rows])
    length = length or int(lengths.max())
    document_ids = np.where(np.arange(length) < lengths[:, None], 0, -1)
    return PaddedBatch(
        index,
        lengths,
        torch.from_numpy(_padded(rows, pad, length)).to(device),
        torch.from_numpy(document_ids).to(device) if lengths.min() < length else None,
    )


def _padded(rows: Sequence[npt.NDArray[Any]], fill: int, length: int) -> Ints:
    padded = np.full((len(rows), length), fill, np.int64)
    for padded_row, row in zip(padded, rows, strict=True):
        padded_row[: len(row)] = row
    return padded
