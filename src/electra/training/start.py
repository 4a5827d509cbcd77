"""Begin a run in a folder, or resume the one it holds: budget, compilation, newest checkpoint."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from electra.artifacts import checkpoints, digests
from electra.artifacts.run import LOST, RunFolder
from electra.data.store import TokenStore
from electra.foundation import durable
from electra.foundation.durable import mebibytes
from electra.foundation.errors import ConfigError
from electra.foundation.progress import Progress, Say, no_progress, quiet
from electra.training import budget, checkpoint, compilation, rehearsal
from electra.training.clock import Costs
from electra.training.distributed import World
from electra.training.growth import grow, grown
from electra.training.needs import disk_bytes, refuse_full_disk
from electra.training.networks import WarmStart
from electra.training.recipe import Recipe
from electra.training.record import (
    go_on,
    lengths_of,
    parts_of,
    read_record,
    record,
    refuse_changes,
    refuse_foreign,
)
from electra.training.run import Run, build_run
from electra.training.spikes import RecentLosses
from electra.training.threads import set_threads
from electra.training.token_init import refuse_start, start_from_counts, starts_from_counts


@contextmanager
def start(
    recipe: Recipe,
    folder: Path,
    store: TokenStore,
    world: World,
    *,
    warm: WarmStart | None = None,
    name: str = "",
    command: str = "",
    extend: bool = False,
    say: Say = quiet,
    progress: Progress = no_progress,
) -> Iterator[Run]:
    """Begin a run in `folder`, or resume the one it holds; raises RunFolderError when that is another run.

    extend: the run that it holds becomes as long as `recipe` says, if it is not yet.
    name, command: what the user called the recipe, and how the run was asked for; kept in its record.
    """
    refuse_start(recipe, store, warm)
    recorded, began = read_record(folder), time.monotonic()
    if world.size == 1 and recipe.training.device in ("auto", "cpu"):
        before = None if recorded is None else parts_of(recorded)[-1].get("threads")
        if chosen := set_threads(recipe.training.threads, before, "--training.threads"):
            say(chosen)

    def build(steps: int | None) -> Run:
        return build_run(
            replace(recipe, training=replace(recipe.training, steps=steps)), folder, store, world, warm
        )

    run = build(known_steps(recipe, recorded))
    if recorded is not None:
        refuse_changes(grown(recorded, run) if extend else recorded, run)
    told = ""
    settled = extend or recorded is None or bool(recorded["environment"].get("settled", True))
    if not run.total_steps:
        steps, told = resolve_budget(run, say) if world.leads else (0, "")
        run = build(int(str(world.broadcast(steps))))  # anew: measuring has changed its weights
        settled = extend or budget.parse(recipe.training.budget or "")[1] != "seconds"
    if extend and recorded is not None and recorded["training"]["steps"] != run.total_steps:
        if world.leads:
            grow(run, recorded)
        world.barrier()
    elif recorded is not None:
        run.lengths = lengths_of(recorded)
    warnings = compile_run(run, None if recorded is None else bool(parts_of(recorded)[-1].get("compiled")))
    warnings += resume(run)
    if recorded is not None and run.step < run.total_steps:
        warnings += go_on(run, RunFolder(folder).record)
    if run.step < run.total_steps and world.leads:
        refuse_full_disk(run)
    if not run.step:
        if starts_from_counts(recipe, store, warm):
            start_from_counts(run.pair, store)
        warnings += run.notes
        if recorded is None and world.leads:
            RunFolder(folder).write_record(record(run, name, command, settled=settled))
    if not settled:
        seconds, _ = budget.parse(recipe.training.budget or "")
        run.clock = budget.Clock(seconds, began - run.seconds)
    whole = RunFolder(folder)
    newest = checkpoints.at_step(whole.checkpoints, run.step)
    lost = whole.lost_rows(newest) if run.step and world.leads else ""
    rows = run.telemetry.open(run.step, say, progress)
    run.evaluated = {int(row["step"]) for row in rows if row.get("kind") == "eval"}
    run.alarmed = any(row.get("event") == "collapse" for row in rows)
    try:
        if lost:
            run.telemetry.event(run.step, LOST, f"warning: {lost}")
        for line in warnings:
            run.telemetry.event(run.step, "warning", line)
        if told:
            run.telemetry.event(run.step, "budget", told)
        if run.step < run.total_steps:
            if world.leads:
                digests.forget(run.folder)
            event = "resumed" if run.step else "started"
            message = f"{event} at step {run.step} of {run.total_steps}: {describe(run)}"
            run.telemetry.event(run.step, event, message)
        yield run
    finally:
        run.telemetry.close()


def known_steps(recipe: Recipe, recorded: Mapping[str, Any] | None) -> int | None:
    """The number of updates, unless a budget has yet to be turned into one; a resumed run keeps its own."""
    asked = recipe.training.budget
    if asked is None:
        return recipe.training.steps
    if recorded is not None and recorded["training"].get("budget") == asked:
        return int(recorded["training"]["steps"])
    return None


def resume(run: Run) -> list[str]:
    """Fill the run from its newest checkpoint, if there is one. Returns warnings."""
    if run.world.leads:  # what a killed process left half-written or half-deleted
        durable.sweep(RunFolder(run.folder).checkpoints)
        durable.sweep(run.folder)
    newest, damaged = (
        checkpoints.newest_checkpoint(RunFolder(run.folder).checkpoints) if run.world.leads else (None, ())
    )
    warnings = list(damaged)
    chosen = run.world.broadcast(str(newest.path) if newest else None)
    if isinstance(chosen, str):
        saved = checkpoints.Checkpoint(Path(chosen))
        refuse_foreign(saved, saved.record, run)
        state = checkpoint.restore(Path(chosen), run.pair, run.optimizer)
        run.step, run.seconds, run.saved = int(state["step"]), float(state["seconds"]), int(state["step"])
        run.recent = RecentLosses(state.get("recent_losses", ()))
    return warnings


def resolve_budget(run: Run, say: Say) -> tuple[int, str]:
    """The number of steps, and what a budget of time was measured to buy. The run is used up by measuring."""
    text, began, told = run.schedule.budget, time.monotonic(), ""
    if text is None:
        fix = "Give `budget`, such as 30m, 50Mtokens or 5000steps"
        raise ConfigError("no number of steps", key="training.steps", fix=fix)

    def steps_in(seconds: float) -> float:
        nonlocal told
        say(f"measuring how many updates fit in {text}")
        measured = rehearsal.measure(run)
        costs, rows = Costs(measured.seconds), run.rows.batch_size
        part = f" by {measured.rows} of its {rows} rows" if measured.rows < rows else ""
        told = f"as measured now ({costs}{part}); they are measured again in the first tenth of the run"
        return costs.steps_in(seconds - (time.monotonic() - began), run)

    steps = budget.steps_for(
        text,
        tokens_per_step=run.tokens_per_step,
        flops_per_step=run.flops_per_step,
        steps_in_seconds=steps_in,
    )
    return steps, f"{text} is {steps:,} steps {told}" if told else ""


def compile_run(run: Run, before: bool | None) -> list[str]:
    """Compile the layers where the recipe says so or it is worth it. Returns warnings.

    before: whether the layers were compiled when the run began; None: it begins now. Plain and compiled
        layers differ in the last bits, so a run that resumes stays with what it began with.
    """
    keeps = before is not None and run.machine.compile == "auto"
    problem = compilation.compile_layers(run) if (before if keeps else compilation.worth_it(run)) else None
    [failures] = run.world.sum([float(problem is not None)])
    warnings = []
    if failures:
        compilation.plain_layers(run)
        why = problem or "another process could not compile them"
        warnings.append(f"training without compiled layers: {why}")
    return warnings


def describe(run: Run) -> str:
    def millions(module: torch.nn.Module) -> str:
        return f"{sum(p.numel() for p in module.parameters()) / 1e6:.1f} M"

    asked, rows, threads = run.rows, run.batches.num_blocks, torch.get_num_threads()
    main = run.networks.main
    shape = f"{main.num_layers} layers of {main.hidden_size}, vocabulary {main.vocab_size:,}"
    networks = ", ".join(f"{kind} {millions(network)}" for kind, network in run.pair.named.items())
    return (
        f"{run.identity['objective']}, {shape}; {networks} parameters;"
        f" {asked.batch_size} x {asked.length} tokens an update,"
        f" {run.total_steps * asked.batch_size / rows:.2f} epochs of {rows:,} rows; {run.device},"
        f" {run.precision}, {threads} thread{'s' if threads > 1 else ''}, {run.world.size}"
        f" process{'es' if run.world.size > 1 else ''}{', compiled layers' if run.compiled else ''};"
        f" up to {mebibytes(disk_bytes(run))} on disk"
    )
