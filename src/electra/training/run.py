"""A run: what the training loop works on. `assemble.py` builds it."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from electra.data.corpus.batches import Batch, Batches
from electra.data.corpus.store import TokenStore
from electra.exchange.pooling import MEAN, TextVector
from electra.foundation.durable import mebibytes
from electra.foundation.terminal_text import plural
from electra.model.networks import Networks
from electra.model.pair import Pair
from electra.objectives.parts.interface import CorruptedBatch, Objective
from electra.training.budget import Clock, seconds_of
from electra.training.distributed import FixedOrder, Reduction, World
from electra.training.optimizer import Optimizer
from electra.training.recipe import Recipe, TrainingSection
from electra.training.schedule import Course, multiplier, part, progress
from electra.training.telemetry import Telemetry

OTHER_BYTES = 8 << 20  # on disk, for the ledger, the report and the examples
DISK_RATE = 1e9  # bytes of `disk_bytes` per second that a checkpoint takes, before the first one is timed
CHECKPOINT_PAUSE = 15.0  # the least seconds of a time budget between two checkpoints by default


@dataclass
class RunState:
    """The complete state of a run in progress."""

    folder: Path
    store: TokenStore
    networks: Networks
    pair: Pair
    objective: Objective
    optimizer: Optimizer
    reduction: Reduction | FixedOrder
    batches: Batches
    heldout: Batches
    world: World
    device: torch.device
    precision: str
    telemetry: Telemetry
    flops_per_step: float
    identity: dict[str, Any]
    recipe: Recipe
    course: Course
    step: int = 0  # finished updates
    seconds: float = 0.0  # spent in updates
    spent: float = 0.0  # of a time budget, when the newest checkpoint was saved
    saved_step: int = -1  # of the newest checkpoint
    notes: tuple[str, ...] = ()  # for the user, about the models from which it started
    text_vector: TextVector = MEAN  # how the main network turns a text into a vector
    evaluated_steps: set[int] = field(default_factory=set)
    collapse_reported: bool = False
    compiled: bool = False  # whether the layers are compiled
    logged: tuple[int, float] = (0, 0.0)  # step and seconds of the newest logged row
    evaluation_seconds: float = 0.0  # of the newest evaluation
    checkpoint_seconds: float = 0.0  # of the newest checkpoint
    evaluations: int = 10  # of a run whose recipe does not set their number
    repeated_until: int = 0  # the last recorded step: up to it, a resumed run follows the recorded estimates
    said_total: int = 0  # the number of steps of a time budget that the user was told last
    clock: Clock | None = None  # of a time budget, in the main process
    _executor: ThreadPoolExecutor | None = None
    _next: tuple[tuple[float, ...], Future[list[CorruptedBatch]]] | None = None  # prefetched

    @property
    def training(self) -> TrainingSection:
        """The recipe's [training]."""
        return self.recipe.training

    @property
    def total_steps(self) -> int:
        """Total number of steps, as known at the current step; 0 while a budget is unresolved."""
        return self.course.total(self.step)

    @property
    def tokens_per_step(self) -> int:
        """Tokens per update, over all processes."""
        return self.training.batch_size * self.training.length

    @property
    def micro_batch_size(self) -> int:
        """Rows per forward pass of this process."""
        return micro_batch_rows(self.training, self.world.size)

    def micro_batches(self, step: int) -> list[Batch]:
        """Returns this process's rows of the batch at `step`, in micro-batches."""
        size = self.training.batch_size
        rows = size // self.world.size
        first, end = self.world.rank * rows, (self.world.rank + 1) * rows
        batches = [
            self.batches.batch(step, size, start, min(start + self.micro_batch_size, end))
            for start in range(first, end, self.micro_batch_size)
        ]
        # compiled layers always get a mask, even if they do not need it, so that they compile only once
        return [replace(batch, packed=True) for batch in batches] if self.compiled else batches

    def corrupted_batches(self, step: int) -> list[CorruptedBatch]:
        """Returns the micro-batches of `step`, corrupted and ready for the networks."""
        done, seed = self.schedule_progress(step), self.training.seed
        return [self.objective.corrupt(batch, seed, done) for batch in self.micro_batches(step)]

    def schedule_progress(self, step: int) -> float:
        """Returns the fraction of the training that is done at `step`, for mask fractions and the like."""
        training = self.training
        return progress(self.course.position(step), self.course.whole, training.schedule, training.decay)

    def next_batches(self, prefetch: bool) -> list[CorruptedBatch]:
        """Returns the batches of the next update, and prepares those after it in the background (`prefetch`).

        The result does not depend on when that is done: random numbers are drawn from keys of the examples.
        """

        def depends_on(step: int) -> tuple[float, ...]:
            return step, self.schedule_progress(step), self.training.batch_size

        pending, self._next = self._next, None
        ready = pending is not None and pending[0] == depends_on(self.step)
        batches = pending[1].result() if pending and ready else self.corrupted_batches(self.step)
        if prefetch and self.step + 1 < self.total_steps:
            self._executor = self._executor or ThreadPoolExecutor(1)
            made = self._executor.submit(self.corrupted_batches, self.step + 1)
            self._next = depends_on(self.step + 1), made
        return batches

    def tensors(self) -> dict[str, torch.Tensor]:
        """Returns the weights and the optimizer state, by name."""
        return {**dict(self.pair.named_parameters()), **self.optimizer.tensors()}

    def describe(self) -> str:
        """Returns the description of a run that is logged when it starts."""
        training, num_rows = self.training, self.batches.num_blocks
        main = self.networks.main
        how = [
            str(self.device),
            self.precision,
            plural(torch.get_num_threads(), "thread"),
            f"{self.world.size} process" if self.world.size == 1 else f"{self.world.size} processes",
        ]
        if self.compiled:
            how.append("compiled layers")
        schedule = training.schedule
        length = "" if schedule == "wsd" else f"; schedule {schedule}, so it cannot be extended"
        return (
            f"{self.identity['objective']}, {main.num_layers} layers of {main.hidden_size}, vocabulary"
            f" {main.vocab_size:,}; {self.describe_networks()} parameters;"
            f" {training.batch_size} x {training.length} tokens per update,"
            f" {self.total_steps * training.batch_size / num_rows:.2f} epochs of {num_rows:,} rows;"
            f" {', '.join(how)}; up to {mebibytes(self.disk_bytes)} on disk{length}"
        )

    def describe_networks(self) -> str:
        """Returns the networks with their numbers of parameters, for the user."""
        named = self.pair.named.items()
        counts = {name: sum(p.numel() for p in network.parameters()) for name, network in named}
        return ", ".join(f"{name} {count / 1e6:.1f} M" for name, count in counts.items())

    @property
    def rate(self) -> float:
        """The learning rate of the next update, relative to its peak."""
        training, position = self.training, self.course.position(self.step)
        _, stage_begin, stage_end = self.part(self.step, self.objective.stages)
        stage_steps, warmup = stage_end - stage_begin, training.warmup
        if training.warmup_steps is not None:
            warmup = training.warmup_steps / stage_steps
        at = max(0, position - stage_begin)
        if training.warmup_steps is not None and not stage_begin:  # a number of updates is not stretched
            at = self.step if self.step < training.warmup_steps else max(at, training.warmup_steps)
        return multiplier(at, stage_steps, warmup, training.schedule, training.decay)

    def part(self, step: int, shares: Sequence[float]) -> tuple[int, int, int]:
        """Returns the number, begin and end of the stage or phase at `step`, as positions on the course."""
        return part(self.course.position(step), self.course.whole, shares)

    @property
    def new_stage(self) -> bool:
        """Whether a stage begins at the current step."""
        stages = self.objective.stages
        return not self.step or self.part(self.step, stages)[0] > self.part(self.step - 1, stages)[0]

    @property
    def plateau_end(self) -> int | None:
        """The step where the cooldown of wsd begins, to extend a run from (None: another schedule)."""
        training = self.training
        return self.course.cooldown_start(training.decay) if training.schedule == "wsd" else None

    @property
    def disk_bytes(self) -> int:
        """Peak size of the run folder without its store: kept checkpoints, the next one, and exports."""
        weights = sum(parameter.nbytes for parameter in self.pair.parameters())
        exports = sum(4 * p.numel() for network in self.pair.named.values() for p in network.parameters())
        saved = max(1, self.training.keep) + 1
        return saved * (weights + self.optimizer.bytes) + exports + OTHER_BYTES

    def progress(self) -> dict[str, Any]:
        """Returns step, tokens, FLOPs and seconds, as ledger rows contain them."""
        return {
            "step": self.step,
            "tokens": self.step * self.tokens_per_step,
            "flops": self.step * self.flops_per_step,
            "seconds": round(self.seconds, 3),
        }

    @property
    def budget_seconds(self) -> float | None:
        """The seconds of a time budget that the run follows; None for other budgets."""
        return seconds_of(self.training.budget)

    @property
    def checkpoints(self) -> int:
        """The number of checkpoints of a run whose recipe does not set it: 20, or fewer in a short time."""
        seconds = self.budget_seconds
        return 20 if seconds is None else max(1, min(20, int(seconds / CHECKPOINT_PAUSE)))

    def due(self, every: int | None, parts: int) -> bool:
        """Whether the current step ends one of the equal `parts` of the run, or of each `every` steps.

        The parts of a time budget are equal shares of the time.
        """
        if every is None and self.budget_seconds is not None:
            done = (int(parts * self.course.progress(step)) for step in (max(0, self.step - 1), self.step))
            return self.step in (0, self.total_steps) or next(done) < next(done)
        return self.step % (every or max(1, self.total_steps // parts)) == 0 or self.step == self.total_steps

    def evaluation_due(self) -> bool:
        """Whether to evaluate before the next update."""
        is_due = self.due(self.training.evaluate_every, self.evaluations)
        return is_due and self.step not in self.evaluated_steps

    def checkpoint_due(self) -> bool:
        """Whether to save a checkpoint before the next update."""
        is_due = self.due(self.training.checkpoint_every, self.checkpoints) or self.step == self.plateau_end
        return is_due and 0 < self.step != self.saved_step

    @property
    def seconds_left_over(self) -> float:
        """The seconds that evaluations, checkpoints and exports will still take."""
        ahead, steps = 1 - self.course.progress(self.step), self.total_steps - self.step
        every, save_every = self.training.evaluate_every, self.training.checkpoint_every
        evaluations = (steps // every if every else int(self.evaluations * ahead)) + 1
        saved = (steps // save_every if save_every else int(self.checkpoints * ahead)) + 2  # and the exports
        to_save = self.checkpoint_seconds or self.disk_bytes / DISK_RATE
        return evaluations * self.evaluation_seconds + saved * to_save

    def new_total(self) -> int:
        """Returns a new total number of updates if the clock says so, else 0."""
        if self.clock is None or self.step < max(self.repeated_until, self.course.estimates[-1][0]):
            return 0
        self.clock.see(self.step, self.seconds)
        return self.clock.total(self.step, self.total_steps, self.seconds_left_over)


FIXED_ORDER_ROWS = 8  # default rows per forward pass if the order of sums is fixed


def micro_batch_rows(training: TrainingSection, processes: int) -> int:
    """Returns the rows per forward pass; they do not depend on `processes` if the order of sums is fixed."""
    if training.summation == "fixed":
        return training.micro_batch or min(FIXED_ORDER_ROWS, training.batch_size)
    per_process = training.batch_size // processes
    return min(training.micro_batch or per_process, per_process)
