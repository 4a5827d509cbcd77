"""Repeats logged updates from a checkpoint, and compares them with the ledger. Nothing is written."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from safetensors.torch import load_file
from typing_extensions import override

from electra.artifacts import Finding
from electra.artifacts.checkpoints import Checkpoint
from electra.artifacts.ledger import Row
from electra.artifacts.network_names import network_tables
from electra.artifacts.run_files import RunFolder
from electra.data.corpus.store import TokenStore
from electra.exchange.run_folder import text_vector_of
from electra.foundation import durable
from electra.foundation.errors import CheckpointError, ConfigError, RunFailed
from electra.foundation.terminal_text import plural
from electra.model.sizes import recorded_config
from electra.training import checkpoint
from electra.training.assemble import build_run
from electra.training.compilation import compile_run
from electra.training.distributed import World
from electra.training.extend import restore_clock_state
from electra.training.loop import update
from electra.training.recipe import recorded_recipe
from electra.training.record import parts_of, refuse_foreign_checkpoint
from electra.training.run import RunState
from electra.training.starts import Starts
from electra.training.telemetry import Telemetry

COMPARED = ("loss", "losses", "counts", "learning_rate", "gradient_norm", "tokens", "flops")


class RowCollector(Telemetry):
    """Collects the training rows in memory instead of writing them."""

    def __init__(self, folder: RunFolder) -> None:
        super().__init__(folder.path, is_main=False)
        self.rows: dict[int, Row] = {}

    @override
    def record_training(self, row: dict[str, Any], total: int) -> None:
        self.rows[row["step"]] = json.loads(json.dumps(row))


def replay(folder: RunFolder, store: TokenStore, steps: int) -> list[Finding]:
    """Compares batches, losses and weights of `steps` updates with the recorded ones, bit by bit.

    The replay ends where the run was resumed under other conditions. Raises CheckpointError if no checkpoint
    has that many logged updates after it, and ConfigError if `steps` is below 1, or several processes or a
    GPU trained: they sum in another order.
    """
    start, parts = starting_point(folder, steps), parts_of(folder.record)
    part = [part for part in parts if part["step"] <= start.step][-1]
    processes, device = part.get("processes", 1), part.get("device", "cpu")
    if processes > 1 or device != "cpu":
        trainer = f"{processes} processes" if processes > 1 else device
        problem = f"trained by {trainer}; only the bits of one process on a CPU can be repeated"
        raise ConfigError(problem, where=folder.path, key="replay")
    end = min([start.step + steps, *(part["step"] for part in parts if part["step"] > start.step)])
    threads = torch.get_num_threads()
    try:
        return list(compare(rebuild(folder, start, part, store), folder, start, end))
    finally:
        torch.set_num_threads(threads)


def starting_point(folder: RunFolder, steps: int) -> Checkpoint:
    """Returns the newest intact checkpoint that is followed by `steps` updates."""
    if steps < 1:
        raise ConfigError(f"must be at least 1, not {steps}", key="replay")
    last = max((row["step"] for row in folder.ledger().rows_of_kind("train")), default=0)
    intact = [saved for saved in folder.saved_checkpoints() if durable.verify_directory(saved.path) is None]
    for saved in intact:
        if saved.step + steps <= last:
            return saved
    saved_steps = ", ".join(str(saved.step) for saved in reversed(intact)) or "none"
    most = last - min((saved.step for saved in intact), default=last)
    raise CheckpointError(
        f"no checkpoint has {steps:,} logged updates after it: the ledger ends at step {last:,}; intact"
        f" checkpoints: {saved_steps}",
        where=folder.path,
        fix=f"Replay at most {most:,}" if most > 0 else "Keep more checkpoints, with `training.keep`",
    )


def rebuild(folder: RunFolder, start: Checkpoint, part: Mapping[str, Any], store: TokenStore) -> RunState:
    """Returns the run as it was at `start`, in a `part` of it; models that it started from are not opened."""
    record, recipe = folder.record, recorded_recipe(folder.record)
    as_then = replace(
        recipe.training,
        log_every=1,
        threads=part.get("threads", recipe.training.threads),
        # dropout is drawn per micro-batch
        micro_batch=part.get("micro_batch", recipe.training.micro_batch),
    )
    initial = {
        name.removeprefix("initial_"): source
        for name, source in record["identity"].items()
        if name.startswith("initial_")
    }
    shapes = {name: recorded_config(shape) for name, shape in network_tables(record).items()}
    starts = Starts(initial, shapes) if initial else None
    own = text_vector_of(folder.path)
    run = build_run(replace(recipe, training=as_then), folder.path, store, World(), starts, text_vector=own)
    restore_clock_state(run, record)
    refuse_foreign_checkpoint(start, run)
    compile_run(run, bool(part.get("compiled")))
    checkpoint.restore(start.path, run.pair, run.optimizer)
    run.step, run.telemetry = start.step, RowCollector(folder)
    return run


def compare(run: RunState, folder: RunFolder, start: Checkpoint, end: int) -> Iterator[Finding]:
    """Repeats the updates to step `end` and yields findings on batches, losses and weights."""
    saved = {checkpoint.step: checkpoint for checkpoint in folder.saved_checkpoints()}
    weights: list[Finding] = []
    failure = ""
    try:
        while run.step < end:
            update(run)
            if place := saved.get(run.step):
                difference = tensor_difference(run, place)
                weights.append(Finding(place.path, "weights and moments, bit by bit", difference))
    except RunFailed as error:
        failure = error.what
    yield Finding(start.path, f"replayed to step {run.step:,}", failure)
    assert isinstance(run.telemetry, RowCollector)
    now = run.telemetry.rows
    pairs = [(row, now[row["step"]]) for row in folder.ledger().rows_of_kind("train") if row["step"] in now]
    rows = plural(len(pairs), "logged step")
    yield Finding(folder.metrics, f"the batches of {rows}", first_difference(pairs, ["batch_digest"]))
    if difference := first_difference(pairs, COMPARED):
        then = folder.record.get("environment", {})
        difference += f"; trained with torch {then.get('torch')} on {then.get('platform')}"
        difference += f"; replayed with torch {torch.__version__}"
    yield Finding(folder.metrics, f"the losses of {rows}, bit by bit", difference)
    problem = "no checkpoint among these steps, so weights are not compared"
    yield from weights or [Finding(start.path, problem)]


def first_difference(pairs: Sequence[tuple[Row, Row]], names: Sequence[str]) -> str:
    """Describes the first difference of replayed rows in what the ledger's rows have ("": none)."""
    for row, now in pairs:
        for name in names:
            if name in row and row[name] != now[name]:
                return f"step {row['step']:,}: {name} {row[name]} in the ledger, {now[name]} in the replay"
    return ""


def tensor_difference(run: RunState, saved: Checkpoint) -> str:
    """Describes how weights and moments differ from those of a checkpoint ("": they are bit-identical)."""
    tensors, on_disk = run.tensors(), {**load_file(saved.weights), **load_file(saved.optimizer)}
    wrong = [name for name in tensors if name not in on_disk or not torch.equal(tensors[name], on_disk[name])]
    return f"{len(wrong):,} of {len(tensors):,} tensors differ, such as {wrong[0]}" if wrong else ""
