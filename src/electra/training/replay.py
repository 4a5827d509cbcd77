"""Logged updates done once more from a kept checkpoint: is a run what its ledger says? Nothing is written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

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
from electra.training.record import lengths_of, parts_of, refuse_foreign
from electra.training.run import Run, build_run
from electra.training.spikes import RecentLosses
from electra.training.start import compile_run
from electra.training.telemetry import Telemetry

ROUNDING = 1e-3  # of a loss, where sums are taken in another order
TIMES = ("seconds", "tokens_per_s")
BATCH = "batch_digest"


class Listener(Telemetry):
    """Keeps the training rows instead of writing them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, leads=False)
        self.rows: dict[int, Row] = {}

    def training(self, row: dict[str, Any], total: int) -> None:
        self.rows[row["step"]] = json.loads(json.dumps(row))


def replay(folder: RunFolder, store: TokenStore, steps: int) -> list[Finding]:
    """Compare batches, losses and weights of `steps` updates with what was recorded of them.

    Bit by bit where one process made them on a CPU; elsewhere the losses up to rounding, and no weights.
    Raises CheckpointError where no kept checkpoint has so many logged updates after it.
    """
    begin = starting_point(folder, steps)
    threads = torch.get_num_threads()
    try:
        run = rebuild(folder, begin, steps, store)
        return [*again(run, folder, begin, steps)]
    finally:
        torch.set_num_threads(threads)


def starting_point(folder: RunFolder, steps: int) -> Checkpoint:
    """The newest checkpoint that verifies and has `steps` updates after it; some must be in the ledger."""
    if steps < 1:
        raise ConfigError(f"must be at least 1, not {steps}", key="replay")
    last = folder.ledger().last("train")
    reached = last["step"] if last else 0
    kept = [saved for saved in folder.saved() if durable.verify_directory(saved.path) is None]
    for saved in kept:
        if saved.step + steps <= reached:
            first = min(row["step"] for row in folder.ledger().of("train") if row["step"] > saved.step)
            if first > saved.step + steps:
                what = f"no row of the ledger is of {steps:,} updates after step {saved.step:,}"
                raise ConfigError(what, key="replay", fix=f"Replay {first - saved.step:,} at least")
            return saved
    there = ", ".join(str(saved.step) for saved in reversed(kept)) or "none"
    most = reached - min((saved.step for saved in kept), default=reached)
    raise CheckpointError(
        f"no checkpoint with {steps:,} logged updates after it: the ledger ends at step {reached:,}, and the"
        f" checkpoints that verify are of steps {there}",
        where=folder.path,
        fix=f"Replay {most:,} at most" if most > 0 else "Keep more of them next time, with `training.keep`",
    )


def rebuild(folder: RunFolder, begin: Checkpoint, steps: int, store: TokenStore) -> Run:
    """The run as it stood at the checkpoint `begin`, in one process, that says nothing."""
    record, state = folder.record, begin.record
    recorded = recorded_recipe(record)
    training, processes = recorded.training, int(state.get("world_size", 1))
    part = [part for part in parts_of(record) if part["step"] <= begin.step][-1]
    share = training.batch_size // processes
    again = replace(
        training,
        log_every=1,
        threads=part.get("threads", training.threads),
        # dropout is drawn by micro-batch
        micro_batch=min(part.get("micro_batch", training.micro_batch) or share, share),
        on_spike="skip" if _skipped(folder, begin.step, steps) else "warn",
    )
    run = build_run(replace(recorded, training=again), folder.path, store, World(), _shapes(record))
    refuse_foreign(begin, state, run)
    run.lengths = lengths_of(record)
    compile_run(run, bool(part.get("compiled")))
    checkpoint.restore(begin.path, run.pair, run.optimizer)
    run.step, run.recent = begin.step, RecentLosses(state.get("recent_losses", ()))
    run.telemetry = Listener(folder.path)
    return run


def _skipped(folder: RunFolder, first: int, steps: int) -> bool:
    rows = folder.ledger().of("event")
    return any(row.get("skipped") for row in rows if first < row["step"] <= first + steps)


def _shapes(record: Mapping[str, Any]) -> WarmStart | None:
    """The shapes of a run that began from trained networks, which are no longer needed themselves."""
    begun = "initial_"
    names = {
        key.removeprefix(begun): name for key, name in record["identity"].items() if key.startswith(begun)
    }
    if not names:
        return None
    return WarmStart(names, {name: EncoderConfig(**shape) for name, shape in network_tables(record).items()})


def again(run: Run, folder: RunFolder, begin: Checkpoint, steps: int) -> Iterator[Finding]:
    saved = {found.step: found for found in folder.saved()}
    made: dict[int, dict[str, torch.Tensor]] = {}
    failed = ""
    try:
        while run.step < begin.step + steps and not failed:
            update(run)
            if run.step in saved:
                tensors = {**dict(run.pair.named_parameters()), **run.optimizer.tensors()}
                made[run.step] = {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
    except RunFailed as error:
        failed = error.what
    yield Finding(begin.path, f"replayed to step {run.step:,}", failed)
    processes = int(begin.record.get("world_size", 1))
    exact = processes == 1 and run.device.type == "cpu"
    assert isinstance(run.telemetry, Listener)
    logged = [row for row in folder.ledger().of("train") if row["step"] in run.telemetry.rows]
    pairs = [(row, run.telemetry.rows[row["step"]]) for row in logged]
    number = _logged(pairs)
    yield Finding(folder.metrics, f"the batches of {number}", different(pairs, [BATCH], exact=True))
    parts = [part["step"] for part in parts_of(folder.record) if part["step"] > begin.step]
    same = min(parts, default=run.step)
    if same < run.step:
        why = "it was resumed there under other conditions, so later losses and weights are not compared"
        yield Finding(begin.path, f"step {same:,}: {why}")
        pairs = [(row, now) for row, now in pairs if row["step"] <= same]
        made = {step: tensors for step, tensors in made.items() if step <= same}
        number = _logged(pairs)
    names = ["loss", "losses", "counts", "learning_rate", "gradient_norm", "tokens", "flops"]
    how = "bit by bit" if exact else "up to rounding"
    problem = different(pairs, names, exact)
    if problem and exact:
        problem += f"; {_made_on(folder)}"
    yield Finding(folder.metrics, f"the losses of {number}, {how}", problem)
    if not exact:
        why = f"{processes} processes" if processes > 1 else str(run.device)
        yield Finding(begin.path, f"trained by {why}, so later weights are not compared")
    elif not made:
        yield Finding(begin.path, "no checkpoint among these steps, so weights are not compared")
    else:
        for step, tensors in made.items():
            yield Finding(
                saved[step].path, "weights and moments, bit by bit", other_bits(tensors, saved[step])
            )


def _logged(pairs: Sequence[object]) -> str:
    return f"{len(pairs):,} logged step{'s' * (len(pairs) != 1)}"


def different(pairs: Sequence[tuple[Row, Row]], names: Sequence[str], exact: bool) -> str:
    """Where ledger rows and those of the replay first differ ("": nowhere). Older ledgers lack some names."""
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
    return abs(then - now) <= ROUNDING * max(abs(then), abs(now))


def other_bits(tensors: Mapping[str, torch.Tensor], saved: Checkpoint) -> str:
    kept = {**load_file(saved.weights), **load_file(saved.optimizer)}
    wrong = [name for name in tensors if name not in kept or not torch.equal(tensors[name], kept[name])]
    return f"{wrong[0]} differs, as do {len(wrong) - 1:,} more of {len(tensors):,} tensors" if wrong else ""


def _made_on(folder: RunFolder) -> str:
    made = folder.record.get("environment", {})
    return (
        f"it was trained with torch {made.get('torch')} on {made.get('platform')}; here {torch.__version__}"
    )
