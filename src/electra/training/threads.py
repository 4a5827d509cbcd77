"""CPU threads: as many as pay on this machine now, and what to say of a training that has become slow.

Threads wait for each other many times in an update. Where other programs use the cores, or a container's
limit is below their number, waiting costs more than sharing the work gains: one thread is then several times
as fast as two. So one thread and all are measured against each other before long work.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import deque

import torch
from torch import nn

from electra.foundation import machine

SECONDS = 0.15  # that each of the `ROUNDS` turns of one thread and of all lasts
ROUNDS = 3
SLOW = 3.0  # times slower than it began


def set_threads(asked: int | None, recorded: int | None, option: str) -> str:
    """Take the threads asked for, or those of OMP_NUM_THREADS, or those that the work began with, or else one
    or all of them, as measured now. Returns what to say of that ("": nothing was measured).

    option: by which the user chooses.
    """
    if asked or machine.threads_are_set():
        if asked:
            torch.set_num_threads(asked)
        return ""
    most = machine.cores()
    if recorded or most == 1:
        torch.set_num_threads(recorded or 1)
        return ""
    one, every = measure(most)
    chosen = 1 if one > every else most
    torch.set_num_threads(chosen)
    named = f"{chosen} CPU thread{'s' * (chosen > 1)}"
    return f"{named}: {most} are {every / one:.2g} times as fast as one now; {option} N chooses"


def measure(most: int) -> tuple[float, float]:
    """Passes a second through a small layer, forward and back, with one thread and with `most`, by turns."""
    layer = nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128), nn.LayerNorm(128))
    rows = torch.ones(2048, 128)
    rates: dict[int, list[float]] = {1: [], most: []}
    for turn in range(ROUNDS + 1):
        for threads, measured in rates.items():
            torch.set_num_threads(threads)
            began, passes = time.perf_counter(), 0
            while not passes or time.perf_counter() - began < (SECONDS if turn else 0):
                layer(rows).sum().backward()
                passes += 1
            if turn:  # the first pass starts the threads
                measured.append(passes / (time.perf_counter() - began))
    return statistics.median(rates[1]), statistics.median(rates[most])


class Pace:
    """Notices, once, that the same work has become slow."""

    def __init__(self, option: str) -> None:
        self.option = option
        self._kind: object = None
        self._first: list[float] = []
        self._last: deque[float] = deque(maxlen=3)
        self._told = False

    def slower(self, rate: float, kind: object = None) -> str:
        """What to say after a measurement of so many units a second of one kind of work ("": nothing)."""
        if kind != self._kind:
            self._kind, self._first = kind, []
            self._last.clear()
        if len(self._first) < 3:
            self._first.append(rate)
            return ""
        self._last.append(rate)
        before, now = statistics.median(self._first), max(self._last)
        if self._told or len(self._last) < 3 or now * SLOW > before:
            return ""
        self._told = True
        threads, cores = torch.get_num_threads(), machine.cores()
        load = f"; the load is {os.getloadavg()[0]:.1f} on {cores} cores" if hasattr(os, "getloadavg") else ""
        advice = f"stop this and rerun with {self.option} 1, or " if threads > 1 else ""
        return (
            f"training has become {before / now:.1f} times slower than it began: most likely other programs"
            f" use the cores, memory is swapped, or the processor is too hot{load}; stop what else runs, or"
            f" {advice}resume later"
        )
