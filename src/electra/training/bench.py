"""Measures how fast this machine trains: tokens per second, the parts of a step, and the hardware's limits.

The text consists of random ids, which cost as much as real text. FLOPs of matrix products are counted as they
are executed (torch's counter), so embedding lookups do not inflate the model FLOPs utilisation (MFU).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.benchmark import Timer
from torch.utils.flop_counter import FlopCounterMode

from electra.data.store import RANDOM, TokenDocuments, TokenStore
from electra.data.tokenizer_folder import Specials
from electra.foundation.errors import RunFailed
from electra.model.precision import device_kind
from electra.training import compilation
from electra.training.distributed import World
from electra.training.loop import update
from electra.training.recipe import Recipe
from electra.training.run import Run, build_run
from electra.training.telemetry import Telemetry

WARM_UP = 2  # steps that are not measured
MIN_STEPS = 5  # minimum number of measured steps


def random_store(vocab_size: int) -> TokenStore:
    """Returns an in-memory store of random ids of ordinary tokens; both splits are the same.

    The vocabulary must have more than 5 tokens.
    """
    documents, size = 1000, 1000  # number of documents, and tokens of each
    ids = np.random.default_rng(0).integers(5, vocab_size, documents * size, dtype=np.uint32)
    split = TokenDocuments(ids, np.arange(size, documents * size + 1, size, dtype=np.uint64))
    return TokenStore(
        Path("memory"),
        split,
        split,
        Specials(pad=0, unk=1, cls=2, sep=3, mask=4),
        vocab_size,
        RANDOM,
        {"digest": RANDOM},
    )


def measure(recipe: Recipe, vocab_size: int, seconds: float, world: World | None = None) -> dict[str, Any]:
    """Trains on random ids for about `seconds`, after a warm-up, and returns the measurements.

    Tokens per second are totals over all processes; the hardware's limits are those of one process. Times are
    in seconds; `mfu` is a fraction.

    Raises:
        ConfigError: if settings do not fit the machine, the objective or the number of processes.
        RunFailed: if `training.compile` is on and the layers cannot be compiled, or a gradient is not
            finite.
    """
    world = world or World()
    recipe = replace(recipe, training=replace(recipe.training, steps=1 << 30, budget=None, log_every=1 << 30))
    run = build_run(recipe, Path("memory"), random_store(vocab_size), world)
    run = replace(run, telemetry=Telemetry(run.folder, is_main=False))
    problem = compilation.compile_layers(run) if recipe.training.compile == "on" else None
    if problem is not None:
        raise RunFailed(f"the layers cannot be compiled: {problem}", key="training.compile")
    now = clock(run.device)
    for _ in range(WARM_UP):
        began = now()
        update(run)
    with (
        compilation.uncompiled() if run.compiled else nullcontext(),
        FlopCounterMode(display=False) as counter,
    ):
        update(run)
    steps = world.broadcast(max(MIN_STEPS, round(seconds / (now() - began) * 2)))
    times = []
    for _ in range(steps):
        began = now()
        update(run)
        times.append(now() - began)
    memory = device_kind(run.device).peak_memory()  # before `matmul_rate` and `copy_rate` allocate theirs
    tokens, flops = run.tokens_per_step, float(counter.get_total_flops()) * world.size
    matmul_flops_per_s = matmul_rate(run.device, run.precision)
    return {
        "objective": recipe.objective.get("name"),
        "size": recipe.model.size,
        "encoder": recipe.model.encoder,
        "batch": recipe.training.batch_size,
        "length": recipe.training.length,
        "vocab_size": vocab_size,
        "precision": run.precision,
        "device": str(run.device),
        "threads": torch.get_num_threads(),
        "processes": world.size,
        "compiled": run.compiled,
        "steps": steps,
        "tokens_per_s_median": round(tokens / statistics.median(times), 1),
        "tokens_per_s_best": round(tokens / min(times), 1),
        "flops_per_token": round(flops / tokens),
        "paper_flops_per_token": round(run.flops_per_step / tokens),
        "matmul_gflops": round(matmul_flops_per_s / 1e9, 1),
        "mfu": round(flops / statistics.median(times) / (matmul_flops_per_s * world.size), 4),
        "copy_gb_per_s": round(copy_rate(run.device) / 1e9, 1),
        "peak_rss_mib": memory >> 20,
        "parts": time_parts(run, max(3, steps // 4)),
    }


def time_parts(run: Run, steps: int) -> dict[str, float]:
    """Returns the median seconds of each part of a step; a GPU is synchronised before and after each part.

    The run's methods stay wrapped in timers, so do not use the run afterwards.
    """
    now = clock(run.device)
    spent: dict[str, float] = {}

    def timed(name: str, owner: Any, method: str) -> None:
        function = getattr(owner, method)

        def wrapped(*arguments: Any, **options: Any) -> Any:
            began = now()
            result = function(*arguments, **options)
            spent[name] = spent.get(name, 0.0) + now() - began
            return result

        object.__setattr__(owner, method, wrapped)

    timed("data", run, "micro_batches")
    timed("data", run.objective, "corrupt")
    networks = run.pair.named
    for name, network in networks.items():
        timed(name, network.encoder, "forward")
    timed("forward", run.objective, "forward")
    timed("optimizer", run.optimizer, "clip")
    timed("optimizer", run.optimizer, "step")
    timed("reduction", run.reduction, "finish")
    seconds_per_step = []
    for _ in range(steps):
        spent.clear()
        began = now()
        update(run)
        step_seconds = now() - began
        encoder_seconds = {name: spent.get(name, 0.0) for name in networks}
        rest = step_seconds - sum(spent[name] for name in ("data", "forward", "optimizer", "reduction"))
        seconds_per_step.append(
            {
                "data": spent["data"],
                **encoder_seconds,
                "vocabulary, sampling, losses": spent["forward"] - sum(encoder_seconds.values()),
                "backward and rest": rest,
                "reduction": spent["reduction"],
                "optimizer": spent["optimizer"],
            }
        )
    return {
        name: round(statistics.median(step_parts[name] for step_parts in seconds_per_step), 6)
        for name in seconds_per_step[0]
    }


def clock(device: torch.device) -> Callable[[], float]:
    """Returns a function that waits for the device and returns the time in seconds."""
    wait = device_kind(device).wait

    def now() -> float:
        wait()
        return time.perf_counter()

    return now


def matmul_rate(device: torch.device, precision: str) -> float:
    """Returns the highest measured FLOP/s of a large square matrix product."""
    size = 8192 if device_kind(device).chunk > 1 else 1024
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = (torch.ones(size, size, dtype=dtype, device=device) for _ in range(2))
    return 2 * size**3 / best_of(lambda: a @ b, device)


def copy_rate(device: torch.device) -> float:
    """Returns the highest measured bytes/s, read plus written, of copying an array larger than the caches."""
    source = torch.ones(1 << (28 if device_kind(device).own_memory else 26), device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / best_of(lambda: target.copy_(source), device)


def best_of(work: Callable[[], object], device: torch.device) -> float:
    """Returns the shortest measured time of `work` in seconds, over about half a second of calls."""
    timer = Timer("work()", timer=clock(device), globals={"work": work}, num_threads=torch.get_num_threads())
    return float(min(timer.blocked_autorange(min_run_time=0.5).times))
