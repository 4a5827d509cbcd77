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
from electra.training.start import compile_run
from electra.training.telemetry import Telemetry

COMPARED = ("loss", "losses", "counts", "learning_rate", "gradient_norm", "tokens", "flops")
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
    start = starting_point(folder, steps)
    threads = torch.get_num_threads()
    try:
        return [*compare(rebuild(folder, start, store), folder, start, steps)]
    finally:
        torch.set_num_threads(threads)


def starting_point(folder: RunFolder, steps: int) -> Checkpoint:
    """Returns the newest intact checkpoint that is followed by `steps` updates, at least one of them logged.

    Raises the errors of `replay`.
    """
    if steps < 1:
        raise ConfigError(f"must be at least 1, not {steps}", key="replay")
    logged = [row["step"] for row in folder.ledger().rows_of_kind("train")]
    last_step = max(logged, default=0)
    intact = [saved for saved in folder.saved_checkpoints() if durable.verify_directory(saved.path) is None]
    for saved in intact:
        if saved.step + steps <= last_step:
            first = min(step for step in logged if step > saved.step)
            if first > saved.step + steps:
                problem = f"the ledger has no row within {steps:,} updates after step {saved.step:,}"
                raise ConfigError(problem, key="replay", fix=f"Replay at least {first - saved.step:,}")
            return saved
    saved_steps = ", ".join(str(saved.step) for saved in reversed(intact)) or "none"
    most = last_step - min((saved.step for saved in intact), default=last_step)
    raise CheckpointError(
        f"no checkpoint has {steps:,} logged updates after it: the ledger ends at step {last_step:,}; intact"
        f" checkpoints: {saved_steps}",
        where=folder.path,
        fix=f"Replay at most {most:,}" if most > 0 else "Keep more checkpoints, with `training.keep`",
    )


def rebuild(folder: RunFolder, start: Checkpoint, store: TokenStore) -> Run:
    """Returns the run as it was at the checkpoint `start`, in one process and without output.

    Raises:
        CheckpointError: if the checkpoint lacks a tensor.
        RunFolderError: if the checkpoint belongs to another run.
    """
    record, state = folder.record, start.record
    recipe = recorded_recipe(record)
    training = recipe.training
    part = [part for part in parts_of(record) if part["step"] <= start.step][-1]
    rows_per_process = training.batch_size // int(state.get("world_size", 1))
    as_then = replace(
        training,
        log_every=1,
        threads=part.get("threads", training.threads),
        # dropout is drawn per micro-batch
        micro_batch=min(part.get("micro_batch", training.micro_batch) or rows_per_process, rows_per_process),
    )
    run = build_run(replace(recipe, training=as_then), folder.path, store, World(), _shapes(record))
    refuse_foreign_checkpoint(start, state, run)
    run.step_estimates = step_estimates_of(record)
    compile_run(run, bool(part.get("compiled")))
    checkpoint.restore(start.path, run.pair, run.optimizer)
    run.step = start.step
    run.telemetry = RowCollector(folder.path)
    return run


def _shapes(record: Mapping[str, Any]) -> WarmStart | None:
    """Returns the shapes of a run that started from models, without opening them; None if it did not."""
    initial = {key: name for key, name in record["identity"].items() if key.startswith("initial_")}
    if not initial:
        return None
    shapes = {name: EncoderConfig(**shape) for name, shape in network_tables(record).items()}
    return WarmStart({key.removeprefix("initial_"): name for key, name in initial.items()}, shapes)


def compare(run: Run, folder: RunFolder, start: Checkpoint, steps: int) -> Iterator[Finding]:
    """Repeats `steps` updates and yields findings on batches, losses and weights."""
    checkpoints = {checkpoint.step: checkpoint for checkpoint in folder.saved_checkpoints()}
    replayed: dict[int, dict[str, torch.Tensor]] = {}
    failure = ""
    try:
        while run.step < start.step + steps:
            update(run)
            if run.step in checkpoints:
                tensors = {**dict(run.pair.named_parameters()), **run.optimizer.tensors()}
                replayed[run.step] = {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
    except RunFailed as error:
        failure = error.what
    yield Finding(start.path, f"replayed to step {run.step:,}", failure)
    assert isinstance(run.telemetry, RowCollector)
    logged = folder.ledger().rows_of_kind("train")
    pairs = [(row, run.telemetry.rows[row["step"]]) for row in logged if row["step"] in run.telemetry.rows]
    difference = first_difference(pairs, ["batch_digest"], exact=True)
    yield Finding(folder.metrics, f"the batches of {_logged(pairs)}", difference)
    resumptions = [part["step"] for part in parts_of(folder.record) if part["step"] > start.step]
    last_step = min(resumptions, default=run.step)
    if last_step < run.step:
        reason = "resumed under other conditions, so later losses and weights are not compared"
        yield Finding(start.path, f"step {last_step:,}: {reason}")
        pairs = [(row, now) for row, now in pairs if row["step"] <= last_step]
    processes = int(start.record.get("world_size", 1))
    exact = processes == 1 and run.device.type == "cpu"
    difference = first_difference(pairs, COMPARED, exact)
    if difference and exact:
        then = folder.record.get("environment", {})
        difference += f"; trained with torch {then.get('torch')} on {then.get('platform')}"
        difference += f"; replayed with torch {torch.__version__}"
    precision = "bit by bit" if exact else "up to rounding"
    yield Finding(folder.metrics, f"the losses of {_logged(pairs)}, {precision}", difference)
    if not exact:
        trainer = f"{processes} processes" if processes > 1 else str(run.device)
        yield Finding(start.path, f"trained by {trainer}, so weights are not compared")
    elif not any(step <= last_step for step in replayed):
        yield Finding(start.path, "no checkpoint among these steps, so weights are not compared")
    for step, tensors in replayed.items() if exact else ():
        if step <= last_step:
            saved = checkpoints[step]
            difference = tensor_difference(tensors, saved)
            yield Finding(saved.path, "weights and moments, bit by bit", difference)


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
