"""Measures what a recipe costs on this machine, with a few updates; the run that is timed is not kept."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from electra.data.store import RANDOM, TokenDocuments, TokenStore
from electra.data.tokenizer_folder import Specials
from electra.foundation.durable import mebibytes
from electra.foundation.machine import set_threads
from electra.foundation.progress import duration
from electra.model.precision import device_kind
from electra.training.budget import steps_for
from electra.training.distributed import World
from electra.training.loop import update
from electra.training.networks import WarmStart
from electra.training.recipe import Recipe
from electra.training.run import Run, build_run
from electra.training.telemetry import Telemetry

SECONDS = 2.0  # spent on timing updates, in each phase of the training
LONG = 1 << 30  # not a run's number of updates: only the phases' shares of them matter
TOKENS_PER_PARAMETER = 20  # of the layers; with more, a larger model pays off (Hoffmann et al. 2022)
EPOCHS = 16  # repeating the text more often than this teaches little (Muennighoff et al. 2023)


class UpdateTime(NamedTuple):
    """The measured time of an update."""

    seconds: float  # mean over the phases of the training, weighted by their steps
    rows: int  # batch size of the timed updates: the whole batch, or an eighth of it


def measure(run: Run) -> UpdateTime:
    """Times updates in each phase, and returns the mean, in which phases count by their share of the steps.

    This changes the run's weights. Each phase is timed for about SECONDS. If a whole update takes
    longer than that, an eighth of the batch is timed and scaled up. Only this process runs; its time is
    divided by the number of processes.

    Raises:
        RunFailed: if a gradient is not finite.
    """
    batch_size = run.training.batch_size
    step, mean_seconds, min_rows = 0, 0.0, batch_size
    while step < LONG:
        _, end = run.objective.phase(step, LONG)
        rows = max(1, batch_size // 8)
        if _seconds_per_update(run, step, rows, 0.0) * batch_size / rows < SECONDS:
            rows = batch_size
        seconds = _seconds_per_update(run, step, rows, SECONDS) * batch_size / rows
        mean_seconds += seconds * (end - step) / LONG
        step, min_rows = end, min(min_rows, rows)
    return UpdateTime(mean_seconds / run.world.size, min_rows)


def _seconds_per_update(run: Run, step: int, rows: int, limit: float) -> float:
    """Returns the mean over `limit` seconds of updates of `rows` rows at `step`, after one that is slower."""
    timed = replace(
        run,
        recipe=replace(run.recipe, training=replace(run.training, batch_size=rows)),
        world=World(),
        telemetry=Telemetry(run.folder, is_main=False),
        step_estimates=[(0, LONG)],
        step=step,
    )
    update(timed)
    began, updates = time.perf_counter(), 0
    while not updates or time.perf_counter() - began < limit:
        update(timed)
        updates += 1
    return (time.perf_counter() - began) / updates


def random_store(vocab_size: int) -> TokenStore:
    """Returns an in-memory store of random ids of ordinary tokens; both splits are the same.

    The vocabulary must have more than 5 tokens.
    """
    documents, size = 1000, 1000  # number of documents, and tokens of each
    ids = np.random.default_rng(0).integers(5, vocab_size, documents * size, dtype=np.uint32)
    split = TokenDocuments(ids, np.arange(size, documents * size + 1, size, dtype=np.uint64))
    specials, description = Specials(pad=0, unk=1, cls=2, sep=3, mask=4), {"digest": RANDOM}
    return TokenStore(Path("memory"), split, split, specials, vocab_size, RANDOM, description)


@dataclass(frozen=True)
class Estimate:
    """What a run with a recipe would be, and what it would cost on this machine."""

    run: Run
    updates: int
    seconds_per_update: float
    """Without evaluations and checkpoints."""
    timed_rows: int
    """Rows of the timed updates: fewer than the batch if a whole update takes long."""
    memory: int
    """Peak memory in bytes of this process, or of the GPU."""
    corpus_tokens: int

    @property
    def tokens(self) -> int:
        """The number of tokens to train on, counting repetitions."""
        return self.updates * self.run.tokens_per_step

    @property
    def epochs(self) -> float:
        """How often the text is repeated."""
        return self.tokens / max(1, self.corpus_tokens)

    @property
    def tokens_per_parameter(self) -> float:
        """Tokens for each parameter of the layers, where text counts at most EPOCHS times."""
        encoder = self.run.pair.main.encoder
        parameters = sum(p.numel() for p in encoder.parameters()) - encoder.token_table().numel()
        return self.tokens * min(1.0, EPOCHS / max(self.epochs, 1e-9)) / parameters

    def lines(self) -> list[str]:
        """Returns what would be trained, how long it takes, and what it needs, for the user."""
        run, training = self.run, self.run.training
        main, flops = run.networks.main, self.updates * run.flops_per_step
        networks = run.pair.named.items()
        timing = f"{self.seconds_per_update:.2g} s per update, layers not compiled"
        if self.timed_rows < training.batch_size:
            timing += f", from {self.timed_rows} of {training.batch_size} rows"
        facts = {
            "objective": str(run.identity["objective"]),
            "layers": f"{main.num_layers} x {main.hidden_size}, encoder {main.architecture}",
            "vocabulary": f"{main.vocab_size:,}",
            "parameters": ", ".join(
                f"{name} {sum(p.numel() for p in network.parameters()) / 1e6:.1f} M"
                for name, network in networks
            ),
            "rows x tokens": f"{training.batch_size} x {training.length}",
            "learning rate": f"{training.learning_rate:.3g}, {training.schedule}",
            "updates": f"{self.updates:,} ({self.tokens / 1e6:,.1f} M tokens, {flops:.2g} FLOPs)",
            "epochs": f"{self.epochs:.2g} of {self.corpus_tokens:,} tokens",
            "time": f"{duration(self.updates * self.seconds_per_update)} ({timing})",
            "memory": f"{mebibytes(self.memory)} on {run.device}, {run.precision}",
            "disk": mebibytes(run.disk_bytes),
            "enough?": self._verdict(),
        }
        return [f"{name:<15}{value}" for name, value in facts.items()]

    def _verdict(self) -> str:
        ratio = self.tokens_per_parameter
        if ratio >= TOKENS_PER_PARAMETER:
            return f"yes: {ratio:,.0f} tokens per parameter of the layers"
        return (
            f"{ratio:,.1f} tokens per parameter of the layers; below {TOKENS_PER_PARAMETER}, expect little"
            " better than chance: use a larger budget, more text or a smaller model"
        )


def estimate(recipe: Recipe, vocab_size: int, corpus_tokens: int, warm: WarmStart | None = None) -> Estimate:
    """Measures what a recipe costs, on random ids and without compiling the layers. Writes nothing.

    Of `warm`, the models to start from, only the shapes are used.

    Raises:
        ConfigError: if settings do not fit the machine or the objective, or the budget is too small.
        RunFailed: if a gradient is not finite.
    """
    set_threads(recipe.training.threads)
    # Random initialisation: co-occurrences of random ids would carry no information.
    training = replace(recipe.training, log_every=LONG)
    timed = replace(recipe, training=training, model=replace(recipe.model, start="fresh"))
    shapes = None if warm is None else WarmStart({}, warm.shapes)
    run = build_run(timed, Path("memory"), random_store(vocab_size), World(), shapes)
    measured = measure(run)
    updates = training.steps or steps_for(
        training.budget or "",
        tokens_per_step=run.tokens_per_step,
        flops_per_step=run.flops_per_step,
        steps_in_seconds=lambda seconds: seconds / measured.seconds,
    )
    memory = device_kind(run.device).peak_memory()
    return Estimate(run, updates, measured.seconds, measured.rows, memory, corpus_tokens)
