"""Starts a run in a folder or resumes the one in it: budget, compilation, newest checkpoint."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from electra.artifacts import checkpoints
from electra.artifacts.run import LOST_ROWS, RunFolder
from electra.data.store import TokenStore
from electra.foundation import durable
from electra.foundation.durable import mebibytes
from electra.foundation.errors import ConfigError, FullDisk
from electra.foundation.machine import set_threads
from electra.foundation.options import TrackerName
from electra.foundation.progress import Progress, Say, no_progress, quiet
from electra.training import budget, checkpoint, compilation, estimate
from electra.training.distributed import World
from electra.training.extend import extend as extend_folder
from electra.training.extend import extended_record
from electra.training.networks import WarmStart
from electra.training.recipe import Recipe
from electra.training.record import (
    make_record,
    parts_of,
    read_record,
    record_resumption,
    refuse_changes,
    refuse_foreign_checkpoint,
    step_estimates_of,
)
from electra.training.run import Run, build_run
from electra.training.time_budget import Costs
from electra.training.token_init import initialise_tokens, refuse_little_text, uses_cooccurrence


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
    track: TrackerName | None = None,
    say: Say = quiet,
    progress: Progress = no_progress,
) -> Iterator[Run]:
    """Starts a run in `folder`, or resumes the one that is there. Closes the ledger after the block.

    `name` and `command` are for the record, `extend` makes the run in the folder as long as `recipe` says.

    Raises:
        CheckpointError: if every checkpoint is damaged.
        ConfigError: if a setting or the budget does not fit, or there is too little text for `start=counts`.
        FullDisk: if the disk has no room for the run.
        RunFolderError: if the folder contains another run or something else.
    """
    if recipe.model.start == "counts" and warm is None:
        refuse_little_text(store)
    recorded, began = read_record(folder), time.monotonic()
    if world.size == 1 and recipe.training.device in ("auto", "cpu"):
        threads = None if recorded is None else parts_of(recorded)[-1].get("threads")
        set_threads(recipe.training.threads, threads)

    def build(steps: int | None) -> Run:
        return build_run(
            replace(recipe, training=replace(recipe.training, steps=steps)), folder, store, world, warm
        )

    run = build(known_steps(recipe, recorded))
    if recorded is not None:
        refuse_changes(extended_record(recorded, run) if extend else recorded, run)
    budget_note = ""
    settled = extend or recorded is None or bool(recorded["environment"].get("settled", True))
    if not run.total_steps:
        steps, budget_note = resolve_budget(run, say) if world.is_main else (0, "")
        run = build(world.broadcast(steps))  # again, because measuring changed its weights
        settled = extend or budget.parse(recipe.training.budget or "")[1] != "seconds"
    if extend and recorded is not None and recorded["training"]["steps"] != run.total_steps:
        if world.is_main:
            extend_folder(run, recorded)
        world.barrier()
    elif recorded is not None:
        run.step_estimates = step_estimates_of(recorded)
    warnings = compile_run(run, None if recorded is None else bool(parts_of(recorded)[-1].get("compiled")))
    warnings += resume(run)
    if recorded is not None and run.step < run.total_steps:
        warnings += record_resumption(run, RunFolder(folder).record)
    if run.step < run.total_steps and world.is_main:
        refuse_full_disk(run)
    if not run.step:
        if uses_cooccurrence(recipe, store, warm):
            initialise_tokens(run.pair, store)
        warnings += run.notes
        if recorded is None and world.is_main:
            RunFolder(folder).write_record(make_record(run, name, command, settled=settled))
    if not settled:
        seconds, _ = budget.parse(recipe.training.budget or "")
        run.clock = budget.TimeBudget(seconds, began - run.seconds)
    run_folder = RunFolder(folder)
    newest = checkpoints.at_step(run_folder.checkpoints, run.step)
    lost_rows = run_folder.lost_rows(newest) if run.step and world.is_main else ""
    rows = run.telemetry.open(run.step, say, progress, track)
    run.evaluated_steps = {int(row["step"]) for row in rows if row.get("kind") == "eval"}
    run.collapse_reported = any(row.get("event") == "collapse" for row in rows)
    try:
        if lost_rows:
            run.telemetry.record_event(run.step, LOST_ROWS, f"warning: {lost_rows}")
        for line in warnings:
            run.telemetry.record_event(run.step, "warning", line)
        if budget_note:
            run.telemetry.record_event(run.step, "budget", budget_note)
        if run.step < run.total_steps:
            event = "resumed" if run.step else "started"
            message = f"{event} at step {run.step} of {run.total_steps}: {describe(run)}"
            run.telemetry.record_event(run.step, event, message)
        yield run
    finally:
        run.telemetry.close()


def known_steps(recipe: Recipe, recorded: Mapping[str, Any] | None) -> int | None:
    """Returns the number of updates, or None if a budget has yet to be converted.

    A resumed run with the same budget keeps its number of updates.
    """
    budget_text = recipe.training.budget
    if budget_text is None:
        return recipe.training.steps
    if recorded is not None and recorded["training"].get("budget") == budget_text:
        return int(recorded["training"]["steps"])
    return None


def resume(run: Run) -> list[str]:
    """Restores the newest intact checkpoint, if there is one. Returns warnings about damaged ones.

    Raises:
        CheckpointError: if every checkpoint is damaged.
        RunFolderError: if the checkpoint belongs to another run.
    """
    if run.world.is_main:  # remove files that a killed process left half-written or half-deleted
        durable.remove_leftovers(RunFolder(run.folder).checkpoints)
        durable.remove_leftovers(run.folder)
    folder = RunFolder(run.folder).checkpoints
    newest, damaged = checkpoints.newest_checkpoint(folder) if run.world.is_main else (None, ())
    warnings = list(damaged)
    newest_path = run.world.broadcast(str(newest.path) if newest else None)
    if newest_path is not None:
        saved = checkpoints.Checkpoint(Path(newest_path))
        refuse_foreign_checkpoint(saved, saved.record, run)
        state = checkpoint.restore(Path(newest_path), run.pair, run.optimizer)
        run.step = run.saved_step = int(state["step"])
        run.seconds = float(state["seconds"])
    return warnings


def refuse_full_disk(run: Run) -> None:
    """Raises FullDisk if the disk has no room for the whole run; the message says how much is needed."""
    existing_bytes = sum(
        file.stat().st_size
        for saved in RunFolder(run.folder).saved_checkpoints()
        for file in saved.path.glob("*.safetensors")
    )
    needed_bytes = run.disk_bytes - existing_bytes
    free_bytes = shutil.disk_usage(durable.nearest_existing(run.folder)).free
    if free_bytes < needed_bytes:
        raise FullDisk(
            f"this run needs {mebibytes(needed_bytes)} of disk space; {mebibytes(free_bytes)} are free",
            where=run.folder,
            fix="Free some space, choose another `out`, or lower `training.keep`",
        )


def resolve_budget(run: Run, say: Say) -> tuple[int, str]:
    """Returns the number of steps of a budget, and a note on how a time budget was measured ("" for others).

    Measuring changes the run's weights.

    Raises:
        ConfigError: if neither steps nor a budget is set, or the budget is less than one step.
        RunFailed: if a gradient is not finite while a time budget is measured.
    """
    text, began, note = run.training.budget, time.monotonic(), ""
    if text is None:
        fix = "Set `budget`, for example 30m, 50Mtokens or 5000steps"
        raise ConfigError("neither steps nor a budget is set", key="training.steps", fix=fix)

    def steps_in(seconds: float) -> float:
        nonlocal note
        say(f"measuring how many updates fit in {text}")
        measured = estimate.measure(run)
        costs, batch_size = Costs(measured.seconds), run.training.batch_size
        basis = f", from {measured.rows} of {batch_size} rows" if measured.rows < batch_size else ""
        note = f"at the measured speed ({costs}{basis}); re-estimated during the first tenth of the run"
        return costs.steps_in(seconds - (time.monotonic() - began), run)

    steps = budget.steps_for(
        text,
        tokens_per_step=run.tokens_per_step,
        flops_per_step=run.flops_per_step,
        steps_in_seconds=steps_in,
    )
    return steps, f"{text} is {steps:,} steps {note}" if note else ""


def compile_run(run: Run, was_compiled: bool | None) -> list[str]:
    """Compiles the layers if the recipe says so or it pays off. Returns warnings.

    If the layers of one process cannot be compiled, no process compiles them.

    `was_compiled` is None for a new run. Compiled and uncompiled layers differ in the last bits, so a resumed
    run keeps its choice.
    """
    automatic = run.training.compile == "auto"
    wanted = was_compiled if automatic and was_compiled is not None else compilation.should_compile(run)
    problem = compilation.compile_layers(run) if wanted else None
    [num_failures] = run.world.sum([float(problem is not None)])
    warnings = []
    if num_failures:
        compilation.undo_compilation(run)
        reason = problem or "another process could not compile them"
        warnings.append(f"warning: the layers are not compiled ({reason})")
    return warnings


def describe(run: Run) -> str:
    """Returns the description of a run that is logged when it starts."""

    def millions(module: torch.nn.Module) -> str:
        return f"{sum(p.numel() for p in module.parameters()) / 1e6:.1f} M"

    training, num_rows, threads = run.training, run.batches.num_blocks, torch.get_num_threads()
    main = run.networks.main
    shape = f"{main.num_layers} layers of {main.hidden_size}, vocabulary {main.vocab_size:,}"
    networks = ", ".join(f"{kind} {millions(network)}" for kind, network in run.pair.named.items())
    return (
        f"{run.identity['objective']}, {shape}; {networks} parameters;"
        f" {training.batch_size} x {training.length} tokens per update,"
        f" {run.total_steps * training.batch_size / num_rows:.2f} epochs of {num_rows:,} rows;"
        f" {run.device}, {run.precision}, {threads} thread{'s' if threads > 1 else ''}, {run.world.size}"
        f" process{'es' if run.world.size > 1 else ''}{', compiled layers' if run.compiled else ''};"
        f" up to {mebibytes(run.disk_bytes)} on disk"
    )
