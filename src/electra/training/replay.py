"""Repeats logged updates from a checkpoint, and compares them with the ledger. Nothing is written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from typing_extensions import override

from electra.artifacts import Finding
from electra.artifacts.checkpoints import Checkpoint
from electra.artifacts.ledger import Row
from electra.artifacts.networks import network_tables
from electra.artifacts.run import RunFolder
from electra.data.store import TokenStore
from electra.foundation import durable
from electra.foundation.errors import CheckpointError, ConfigError, RunFailed
from electra.model.sizes import EncoderConfig
from electra.training import checkpoint
from electra.training.distributed import World
from electra.training.loop import update
from electra.training.networks import WarmStart
from electra.training.recipe import recorded_recipe
from electra.training.record import parts_of, refuse_foreign_checkpoint, step_estimates_of
from electra.training.run import Run, build_run
from electra.training.spikes import RecentLosses
from electra.training.start import compile_run
from electra.training.telemetry import Telemetry

TOLERANCE = 1e-3  # maximum relative difference between losses that were summed in another order


class RowCollector(Telemetry):
    """Collects the training rows in memory instead of writing them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, is_main=False)
        self.rows: dict[int, Row] = {}

    @override
    def record_training(self, row: dict[str, Any], total: int) -> None:
        self.rows[row["step"]] = json.loads(json.dumps(row))


def replay(folder: RunFolder, store: TokenStore, steps: int) -> list[Finding]:
    """Compares batches, losses and weights of `steps` updates with the recorded ones.

    They must be bit-identical if a single process trained on a CPU. Otherwise losses are compared up to
    rounding, and weights are not compared.

    Raises:
        CheckpointError: if no checkpoint has that many logged updates after it.
        ConfigError: if `steps` is below 1 or too small to reach a logged row.
    """
    start_checkpoint = starting_point(folder, steps)
    threads = torch.get_num_threads()
    try:
        run = rebuild(folder, start_checkpoint, steps, store)
        return [*compare(run, folder, start_checkpoint, steps)]
    finally:
        torch.set_num_threads(threads)


def starting_point(folder: RunFolder, steps: int) -> Checkpoint:
    """Returns the newest intact checkpoint that is followed by `steps` updates, at least one of them logged.

    Raises the errors of `replay`.
    """
    if steps < 1:
        raise ConfigError(f"must be at least 1, not {steps}", key="replay")
    last = folder.ledger().last("train")
    last_step = last["step"] if last else 0
    intact = [saved for saved in folder.saved_checkpoints() if durable.verify_directory(saved.path) is None]
    for saved in intact:
        if saved.step + steps <= last_step:
            first_logged_step = min(
                row["step"] for row in folder.ledger().rows_of_kind("train") if row["step"] > saved.step
            )
            if first_logged_step > saved.step + steps:
                problem = f"the ledger has no row within {steps:,} updates after step {saved.step:,}"
                raise ConfigError(
                    problem, key="replay", fix=f"Replay at least {first_logged_step - saved.step:,}"
                )
            return saved
    saved_steps = ", ".join(str(saved.step) for saved in reversed(intact)) or "none"
    max_steps = last_step - min((saved.step for saved in intact), default=last_step)
    raise CheckpointError(
        f"no checkpoint has {steps:,} logged updates after it: the ledger ends at step {last_step:,}; intact"
        f" checkpoints: {saved_steps}",
        where=folder.path,
        fix=f"Replay at most {max_steps:,}"
        if max_steps > 0
        else "Keep more checkpoints, with `training.keep`",
    )


def rebuild(folder: RunFolder, start_checkpoint: Checkpoint, steps: int, store: TokenStore) -> Run:
    """Returns the run as it was at the checkpoint `start_checkpoint`, in one process and without output.

    Raises:
        CheckpointError: if the checkpoint lacks a tensor.
        RunFolderError: if the checkpoint belongs to another run.
    """
    record, state = folder.record, start_checkpoint.record
    recipe = recorded_recipe(record)
    training, processes = recipe.training, int(state.get("world_size", 1))
    part = [part for part in parts_of(record) if part["step"] <= start_checkpoint.step][-1]
    rows_per_process = training.batch_size // processes
    replay_settings = replace(
        training,
        log_every=1,
        threads=part.get("threads", training.threads),
        # dropout is drawn per micro-batch
        micro_batch=min(part.get("micro_batch", training.micro_batch) or rows_per_process, rows_per_process),
        on_spike="skip" if _skipped(folder, start_checkpoint.step, steps) else "warn",
    )
    run = build_run(replace(recipe, training=replay_settings), folder.path, store, World(), _shapes(record))
    refuse_foreign_checkpoint(start_checkpoint, state, run)
    run.step_estimates = step_estimates_of(record)
    compile_run(run, bool(part.get("compiled")))
    checkpoint.restore(start_checkpoint.path, run.pair, run.optimizer)
    run.step, run.recent_losses = start_checkpoint.step, RecentLosses(state.get("recent_losses", ()))
    run.telemetry = RowCollector(folder.path)
    return run


def _skipped(folder: RunFolder, first: int, steps: int) -> bool:
    rows = folder.ledger().rows_of_kind("event")
    return any(row.get("skipped") for row in rows if first < row["step"] <= first + steps)


def _shapes(record: Mapping[str, Any]) -> WarmStart | None:
    """Returns the shapes of a run that started from models, without opening them; None if it did not."""
    prefix = "initial_"
    names = {
        key.removeprefix(prefix): name for key, name in record["identity"].items() if key.startswith(prefix)
    }
    if not names:
        return None
    return WarmStart(names, {name: EncoderConfig(**shape) for name, shape in network_tables(record).items()})


def compare(run: Run, folder: RunFolder, start_checkpoint: Checkpoint, steps: int) -> Iterator[Finding]:
    """Repeats `steps` updates and yields findings on batches, losses and weights."""
    checkpoints = {checkpoint.step: checkpoint for checkpoint in folder.saved_checkpoints()}
    replayed: dict[int, dict[str, torch.Tensor]] = {}
    failure = ""
    try:
        while run.step < start_checkpoint.step + steps and not failure:
            update(run)
            if run.step in checkpoints:
                tensors = {**dict(run.pair.named_parameters()), **run.optimizer.tensors()}
                replayed[run.step] = {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
    except RunFailed as error:
        failure = error.what
    yield Finding(start_checkpoint.path, f"replayed to step {run.step:,}", failure)
    processes = int(start_checkpoint.record.get("world_size", 1))
    exact = processes == 1 and run.device.type == "cpu"
    assert isinstance(run.telemetry, RowCollector)
    logged = [row for row in folder.ledger().rows_of_kind("train") if row["step"] in run.telemetry.rows]
    pairs = [(row, run.telemetry.rows[row["step"]]) for row in logged]
    steps_compared = _logged(pairs)
    yield Finding(
        folder.metrics,
        f"the batches of {steps_compared}",
        first_difference(pairs, ["batch_digest"], exact=True),
    )
    resumptions = [part["step"] for part in parts_of(folder.record) if part["step"] > start_checkpoint.step]
    last_comparable_step = min(resumptions, default=run.step)
    if last_comparable_step < run.step:
        reason = "resumed under other conditions, so later losses and weights are not compared"
        yield Finding(start_checkpoint.path, f"step {last_comparable_step:,}: {reason}")
        pairs = [(row, now) for row, now in pairs if row["step"] <= last_comparable_step]
        replayed = {step: tensors for step, tensors in replayed.items() if step <= last_comparable_step}
        steps_compared = _logged(pairs)
    names = ["loss", "losses", "counts", "learning_rate", "gradient_norm", "tokens", "flops"]
    precision = "bit by bit" if exact else "up to rounding"
    problem = first_difference(pairs, names, exact)
    if problem and exact:
        problem += f"; {_trained_on(folder)}"
    yield Finding(folder.metrics, f"the losses of {steps_compared}, {precision}", problem)
    if not exact:
        trainer = f"{processes} processes" if processes > 1 else str(run.device)
        yield Finding(start_checkpoint.path, f"trained by {trainer}, so weights are not compared")
    elif not replayed:
        yield Finding(start_checkpoint.path, "no checkpoint among these steps, so weights are not compared")
    else:
        for step, tensors in replayed.items():
            yield Finding(
                checkpoints[step].path,
                "weights and moments, bit by bit",
                tensor_difference(tensors, checkpoints[step]),
            )


def _logged(pairs: Sequence[object]) -> str:
    return f"{len(pairs):,} logged step{'s' * (len(pairs) != 1)}"


def first_difference(pairs: Sequence[tuple[Row, Row]], names: Sequence[str], exact: bool) -> str:
    """Describes the first difference between ledger rows and replayed rows ("": none).

    Unless `exact`, numbers may differ by `TOLERANCE`. Names that a row of an older ledger lacks are not
    compared.
    """
    for row, now in pairs:
        for name in names:
            if name in row and not _same(row[name], now[name], exact):
                return f"step {row['step']:,}: {name} {row[name]} in the ledger, {now[name]} in the replay"
    return ""


def _same(then: Any, now: Any, exact: bool) -> bool:
    if isinstance(now, Mapping):
        return isinstance(then, Mapping) and all(_same(then.get(key), now[key], exact) for key in now)
    if exact or not isinstance(now, float) or not isinstance(then, int | float):
        return bool(then == now)
    return abs(then - now) <= TOLERANCE * max(abs(then), abs(now))


def tensor_difference(tensors: Mapping[str, torch.Tensor], saved: Checkpoint) -> str:
    """Describes how tensors differ from those of a checkpoint ("": they are bit-identical)."""
    on_disk = {**load_file(saved.weights), **load_file(saved.optimizer)}
    wrong = [name for name in tensors if name not in on_disk or not torch.equal(tensors[name], on_disk[name])]
    return f"{len(wrong):,} of {len(tensors):,} tensors differ, such as {wrong[0]}" if wrong else ""


def _trained_on(folder: RunFolder) -> str:
    environment = folder.record.get("environment", {})
    trained = f"torch {environment.get('torch')} on {environment.get('platform')}"
    return f"trained with {trained}; replayed with torch {torch.__version__}"
