"""Measures how fast this machine trains: tokens per second, the parts of a step, and the hardware's limits.

    python benchmarks/speed.py --recipe budget-tiny --batch-size 32 --compile on
    torchrun --nproc-per-node 2 benchmarks/speed.py --recipe budget-tiny

Prints one JSON object; to compare settings, run it several times in turn.
The text consists of random ids, which cost as much as real text. FLOPs of matrix products are counted as they
are executed (torch's counter), so embedding lookups do not inflate the model FLOPs utilisation (MFU).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.utils.benchmark import Timer
from torch.utils.flop_counter import FlopCounterMode

from electra.foundation.config import find_recipe
from electra.foundation.errors import RunFailed
from electra.model.precision import device_kind
from electra.training import compilation
from electra.training.assemble import build_run
from electra.training.distributed import World, join_world, leave_world
from electra.training.estimate import random_store
from electra.training.loop import update
from electra.training.recipe import Recipe, make_recipe, read_recipe
from electra.training.run import RunState
from electra.training.telemetry import Telemetry

WARM_UP = 4  # steps that are not measured
MIN_STEPS = 5  # minimum number of measured steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="budget-tiny", help="a name or a TOML file")
    parser.add_argument("--size", help="model size (default: the recipe's)")
    parser.add_argument("--batch-size", type=int, help="rows per batch (default: the recipe's)")
    parser.add_argument("--length", type=int, help="tokens per row (default: the recipe's)")
    parser.add_argument("--precision", default="auto", choices=["auto", "bf16", "fp32"])
    parser.add_argument("--threads", type=int, help="CPU threads per process (default: torch's choice)")
    parser.add_argument("--compile", default="off", choices=["off", "on"])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dropout", type=float, help="dropout rate (default: the recipe's)")
    parser.add_argument("--vocab-size", type=int, default=8192)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    recipe = make_recipe(read_recipe(find_recipe(options.recipe)))
    names = ("batch_size", "length", "precision", "threads", "compile", "device")
    training = {name: value for name in names if (value := getattr(options, name)) is not None}
    model: dict[str, Any] = {"size": options.size or recipe.model.size}
    if options.dropout is not None:
        model |= {"dropout": options.dropout, "attention_dropout": options.dropout}
    recipe = replace(recipe, training=replace(recipe.training, **training), model=replace(recipe.model, **model))
    world = join_world()
    row = measure(recipe, options.vocab_size, options.seconds, world)
    leave_world()
    if world.is_main:
        print(json.dumps(row))


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
    run.telemetry = Telemetry(run.folder, is_main=False)
    problem = compilation.compile_layers(run) if recipe.training.compile == "on" else None
    if problem is not None:
        raise RunFailed(f"the layers cannot be compiled: {problem}", key="training.compile")
    now = clock(run.device)
    with (
        torch.compiler.set_stance("force_eager") if run.compiled else nullcontext(),
        FlopCounterMode(display=False) as counter,
    ):
        update(run)
    for _ in range(WARM_UP):
        began = now()
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


def time_parts(run: RunState, steps: int) -> dict[str, float]:
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


if __name__ == "__main__":
    main()
