"""Chooses the number of CPU threads by measuring.

Threads wait for each other many times per update. If other programs use the cores, or if a container's limit
is below their number, waiting costs more than sharing the work gains, and one thread can be several times as
fast as two. So one thread and all cores are compared before long work.
"""

from __future__ import annotations

import statistics
import time

import torch
from torch import nn

from electra.foundation import machine

SECONDS = 0.15  # duration of each measurement
ROUNDS = 3  # measurements with one thread and with all, alternating


def set_threads(requested: int | None, recorded: int | None = None, option: str = "") -> str:
    """Sets the number of threads: as requested, from OMP_NUM_THREADS, as recorded, or as measured.

    Returns a message for the user ("" if nothing was measured).

    `option` is the option that overrides the choice, for the message.
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
