"""Chooses the number of CPU threads by measuring, and detects a run that has become slow.

Threads wait for each other many times per update. If other programs use the cores, or if a container's limit
is below their number, waiting costs more than sharing the work gains, and one thread can be several times as
fast as two. So one thread and all cores are compared before long work.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import deque

import torch
from torch import nn

from electra.foundation import machine

SECONDS = 0.15  # duration of each measurement
ROUNDS = 3  # measurements with one thread and with all, alternating
SLOW_RATIO = 3.0  # slowdown, relative to the start, from which it is reported


def set_threads(requested: int | None, recorded: int | None, option: str) -> str:
    """Sets the number of threads: as requested, from OMP_NUM_THREADS, as recorded, or as measured.

    Returns a message for the user ("" if nothing was measured).

    Args:
        requested: The user's number, or None.
        recorded: The number with which the work began, or None.
        option: The option that overrides the choice, for the message.
    """
    if requested or machine.threads_are_set():
        if requested:
            torch.set_num_threads(requested)
        return ""
    cores = machine.cores()
    if recorded or cores == 1:
        torch.set_num_threads(recorded or 1)
        return ""
    single_rate, multiple_rate = measure(cores)
    threads = 1 if single_rate > multiple_rate else cores
    torch.set_num_threads(threads)
    speed = f"{cores} are now {multiple_rate / single_rate:.2g} times as fast as 1"
    return f"using {threads} CPU thread{'s' * (threads > 1)} ({speed}); override with {option} N"


def measure(cores: int) -> tuple[float, float]:
    """Returns forward and backward passes per second of a small layer, with one thread and with `cores`."""
    layer = nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128), nn.LayerNorm(128))
    rows = torch.ones(2048, 128)
    rates: dict[int, list[float]] = {1: [], cores: []}
    for round_index in range(ROUNDS + 1):
        for threads, samples in rates.items():
            torch.set_num_threads(threads)
            began, passes = time.perf_counter(), 0
            while not passes or time.perf_counter() - began < (SECONDS if round_index else 0):
                layer(rows).sum().backward()
                passes += 1
            if round_index:  # the first round only starts the threads
                samples.append(passes / (time.perf_counter() - began))
    return statistics.median(rates[1]), statistics.median(rates[cores])


class Pace:
    """Detects that work of the same kind has become slow, and warns once.

    Args:
        option: The option that sets the number of threads, for the message.
    """

    def __init__(self, option: str) -> None:
        self.option = option
        self._kind: object = None
        self._initial_rates: list[float] = []
        self._recent_rates: deque[float] = deque(maxlen=3)
        self._reported = False

    def add(self, rate: float, kind: object = None) -> str:
        """Adds a measurement. Returns a warning if work has become slow, else ""; it warns once.

        Args:
            rate: Units of work per second.
            kind: The kind of work; rates of different kinds are not compared.
        """
        if kind != self._kind:
            self._kind, self._initial_rates = kind, []
            self._recent_rates.clear()
        if len(self._initial_rates) < 3:
            self._initial_rates.append(rate)
            return ""
        self._recent_rates.append(rate)
        initial_rate, recent_rate = statistics.median(self._initial_rates), max(self._recent_rates)
        if self._reported or len(self._recent_rates) < 3 or recent_rate * SLOW_RATIO > initial_rate:
            return ""
        self._reported = True
        threads, cores = torch.get_num_threads(), machine.cores()
        load = (
            f" Load average: {os.getloadavg()[0]:.1f} on {cores} cores." if hasattr(os, "getloadavg") else ""
        )
        advice = f", rerun with {self.option} 1" if threads > 1 else ""
        return (
            f"training has slowed down by a factor of {initial_rate / recent_rate:.1f}. Likely causes:"
            f" other programs use the cores, memory is swapped, or the processor is throttled.{load} Stop"
            f" other programs{advice}, or stop and resume later"
        )
