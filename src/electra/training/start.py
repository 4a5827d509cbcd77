"""Starts a run in a folder or resumes the one in it: budget, compilation, newest checkpoint."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from electra.artifacts import checkpoints
from electra.artifacts.run import LOST_ROWS, RunFolder
from electra.data.store import TokenStore
from electra.exchange.run_folder import text_vector_of
from electra.foundation import durable
from electra.foundation.durable import mebibytes
from electra.foundation.errors import ConfigError, FullDisk
from electra.foundation.progress import Progress, Say, duration, no_progress, quiet
from electra.foundation.threads import set_threads
from electra.training import budget, checkpoint, estimate
from electra.training.compilation import compile_run
from electra.training.distributed import World
from electra.training.extend import extend as extend_folder
from electra.training.extend import restore_clock_state, shared_checkpoint, with_length
from electra.training.networks import WarmStart
from electra.training.recipe import Recipe
from electra.training.record import (
    make_record,
    parts_of,
    read_record,
    record_resumption,
    refuse_changes,
    refuse_foreign_checkpoint,
)
from electra.training.run import Run, build_run
from electra.training.schedule import can_be_extended
from electra.training.token_init import initialise_tokens

MEASURING_SHARE = 0.02  # of a time budget, to measure the updates of each phase
UPDATES_SHARE = 0.8  # of the time that is left, for updates, before the first evaluation is timed


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
    began: float | None = None,
    say: Say = quiet,
    progress: Progress = no_progress,
) -> Iterator[Run]:
    """Starts a run in `folder`, or resumes the one that is there. Closes the ledger after the block.

    `name` and `command` are for the record, `extend` makes the run in the folder as long as `recipe` says.
    `began` is when the command began, by the monotonic clock (None: now): a time budget counts from then on.

    Raises CheckpointError if every checkpoint is damaged, ConfigError if a setting or the budget does not
    fit, FullDisk without room for the run, and RunFolderError if the folder contains something else.
    """
    recorded, began = read_record(folder), time.monotonic() if began is None else began
    then = {} if recorded is None else parts_of(recorded)[-1]
    if recorded is not None and recipe.training.schedule == "auto":  # what it chose when the run began
        was = recorded["training"].get("schedule", "linear")
        recipe = replace(recipe, training=replace(recipe.training, schedule=was))
    if world.size == 1 and recipe.training.device in ("auto", "cpu"):
        set_threads(recipe.training.threads, then.get("threads"))

    own = None if recorded is None else text_vector_of(folder)

    def build(steps: int | None) -> Run:
        training = replace(recipe.training, steps=steps)
        return build_run(replace(recipe, training=training), folder, store, world, warm, text_vector=own)

    steps, text = recipe.training.steps, recipe.training.budget
    if text is not None:  # a resumed run with the same budget keeps its number of updates
        known = {} if recorded is None else recorded["training"]
        steps = int(known["steps"]) if known.get("budget") == text else None
    run, run_folder = build(steps), RunFolder(folder)
    if recorded is not None:
        refuse_changes(with_length(recorded, run) if extend else recorded, run)
    lines: list[tuple[str, str]] = []  # to record: event and message
    is_extended, is_warm = extend and not steps, warm is not None
    if not steps:
        shared = shared_checkpoint(run_folder, recorded) if extend and recorded is not None else {}
        done = int(shared.get("step", 0)), float(shared.get("spent", shared.get("seconds", 0.0)))
        resolved = resolve_budget(run, say, began, done) if world.is_main else None
        steps, note = world.broadcast(resolved) or (0, "")
        run = build(steps)  # again, because measuring changed its weights
        too_little = estimate.too_little(run, steps, store.train.num_tokens) if not is_warm else ""
        lines = [("budget", note), ("budget", too_little)]
    warm = None  # frees the models that it started from
    if is_extended and recorded is not None and recorded["training"]["steps"] != run.total_steps:
        if world.is_main:
            extend_folder(run, recorded)
        world.barrier()
    elif recorded is not None:
        restore_clock_state(run, recorded)
    warnings = compile_run(run, None if recorded is None else bool(then.get("compiled")))
    warnings += resume(run)
    if recorded is not None and run.step < run.total_steps:
        warnings += record_resumption(run, run_folder.record)
    if run.step < run.total_steps and world.is_main:
        refuse_full_disk(run)
    if not run.step:
        if not is_warm and recipe.model.start == "auto":
            initialise_tokens(run.pair, store)
        warnings += run.notes
        if recorded is None and world.is_main:
            if run_folder.vectors.exists():  # of a run that was killed before it began
                durable.remove_directory(run_folder.vectors)
            if files := run.text_vector.files:
                durable.commit_directory(run_folder.vectors, dict(files))
            run_folder.write_record(make_record(run, name, command))
    if run.budget_seconds is not None and world.is_main:
        run.clock = budget.Clock(run.budget_seconds, began - run.spent, run.step)
        run.repeated_until = int((run_folder.ledger().last("train") or {}).get("step", 0))
    run.said_total = run.total_steps
    lines = [("warning", line) for line in warnings] + lines
    if run.step and world.is_main:
        lost_rows = run_folder.lost_rows(checkpoints.at_step(run_folder.checkpoints, run.step))
        lines.insert(0, (LOST_ROWS, lost_rows and f"warning: {lost_rows}"))
    if run.step < run.total_steps:
        event = "resumed" if run.step else "started"
        lines.append((event, f"{event} at step {run.step} of {run.total_steps}: {describe(run)}"))
    rows = run.telemetry.open(run.step, say, progress)
    run.evaluated_steps = {int(row["step"]) for row in rows if row.get("kind") == "eval"}
    run.collapse_reported = any(row.get("event") == "collapse" for row in rows)
    try:
        for event, line in lines:
            if line:
                run.telemetry.record_event(run.step, event, line)
        yield run
    finally:
        run.telemetry.close()


def resume(run: Run) -> list[str]:
    """Restores the newest intact checkpoint, if any; returns warnings about damaged ones."""
    folder = RunFolder(run.folder).checkpoints
    newest, damaged = None, tuple[str, ...]()
    if run.world.is_main:
        for place in (folder, run.folder):  # files that a killed process left half-written or half-deleted
            durable.remove_leftovers(place)
        newest, damaged = checkpoints.newest_checkpoint(folder)
    path = run.world.broadcast(str(newest.path) if newest else None)
    if path is not None:
        refuse_foreign_checkpoint(checkpoints.Checkpoint(Path(path)), run)
        state = checkpoint.restore(Path(path), run.pair, run.optimizer)
        run.step = run.saved_step = int(state["step"])
        run.seconds = float(state["seconds"])
        run.spent = float(state.get("spent", run.seconds))
        run.logged = run.step, run.seconds
    return list(damaged)


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


def resolve_budget(run: Run, say: Say, began: float, done: tuple[int, float]) -> tuple[int, str]:
    """Returns the number of steps of a budget, and a note for the user ("": none).

    Measuring how many fit into a time that began at `began` changes the run's weights. `done` are the steps
    of a run that is extended, and the seconds that it took. Raises ConfigError if neither steps nor a budget
    is set, or the budget is less than one step; and RunFailed if a gradient is not finite while a time budget
    is measured.
    """
    text, seconds = run.training.budget, run.budget_seconds
    if text is None:
        fix = "Set `budget`, for example 30m, 50Mtokens or 5000steps"
        raise ConfigError("neither steps nor a budget is set", key="training.steps", fix=fix)
    if seconds is None:
        tokens, flops = run.tokens_per_step, run.flops_per_step
        return budget.steps_for(text, tokens_per_step=tokens, flops_per_step=flops), ""
    say(f"measuring how many updates fit in {text}")
    per_update = estimate.measure(run, min(estimate.SECONDS, MEASURING_SHARE * seconds))
    before = done[1] + time.monotonic() - began
    left = UPDATES_SHARE * (seconds - before) - budget.FINISH_SECONDS
    if left < per_update:
        needed = before + (budget.FINISH_SECONDS + per_update) / UPDATES_SHARE
        raise ConfigError(
            f"{text} is too short by {duration(needed - seconds)}: {duration(before)} are spent already, an"
            f" update takes {duration(per_update)}, and saving {duration(budget.FINISH_SECONDS)}",
            key="budget",
            fix=f"Use at least `budget={budget.scaled(text, 1.5 * needed / seconds)}`",
        )
    steps = done[0] + int(left / per_update)
    note = f"{text} is about {steps:,} steps at {per_update:.2g} s per update; the run follows the clock"
    return steps, note


def describe(run: Run) -> str:
    """Returns the description of a run that is logged when it starts."""
    training, num_rows, threads = run.training, run.batches.num_blocks, torch.get_num_threads()
    main = run.networks.main
    shape = f"{main.num_layers} layers of {main.hidden_size}, vocabulary {main.vocab_size:,}"
    length = (
        ""
        if can_be_extended(training.schedule)
        else f"; schedule {training.schedule}, so it cannot be extended"
    )
    return (
        f"{run.identity['objective']}, {shape}; {run.describe_networks()} parameters;"
        f" {training.batch_size} x {training.length} tokens per update,"
        f" {run.total_steps * training.batch_size / num_rows:.2f} epochs of {num_rows:,} rows;"
        f" {run.device}, {run.precision}, {threads} thread{'s' * (threads > 1)}, {run.world.size}"
        f" process{'es' * (run.world.size > 1)}{', compiled layers' * run.compiled}"
        f"{', one CUDA graph' * (run.fixed is not None and run.fixed.use_graph)};"
        f" up to {mebibytes(run.disk_bytes)} on disk{length}"
    )
