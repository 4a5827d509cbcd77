"""The training loop, without callbacks: everything that happens in a step is here, in order."""

import math
import time
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch

from electra.artifacts.run_files import RunFolder
from electra.foundation.errors import RunFailed
from electra.foundation.seeds import key
from electra.foundation.signals import Stop
from electra.foundation.threads import give_back_memory
from electra.model.precision import autocast
from electra.training import checkpoint
from electra.training import heldout as evaluation
from electra.training.distributed import require_same
from electra.training.extend import clock_state, with_length
from electra.training.record import recipe_sections
from electra.training.run import RunState

EVALUATION_SHARE = 0.2  # the largest share of a time budget for evaluations by default
SAID_SHARE = 0.2  # a new number of steps is said if it differs by more


def train(run: RunState, stop: Stop) -> bool:
    """Trains to the last step. Returns True, or False if stopped earlier, after saving a checkpoint.

    With `run.step` finished updates, an iteration evaluates, saves, and then does the next update. So a
    resumed run does exactly what an uninterrupted one does at that step. Raises RunFailed if a gradient or a
    held-out loss is not finite, or the processes' weights have drifted apart.
    """
    require_same(run.world, run.tensors(), run.folder, run.step)
    while True:
        if run.step == run.total_steps:
            settle(run)
        if run.evaluation_due():
            settle(run)
            evaluate(run, stop)
        num_stops, new_total = run.world.sum([float(stop()), float(run.new_total())])
        if new_total:
            follow(run, int(new_total))
        if run.checkpoint_due() or num_stops:
            settle(run)
            save(run)
        if run.step == run.total_steps:
            return True
        if num_stops:
            run.telemetry.record_event(run.step, "stopped", f"stopped at step {run.step}; rerun to resume")
            return False
        update(run)


def follow(run: RunState, steps: int) -> None:
    """Gives a run with a time budget a new total number of steps, and records it.

    Says so if it differs by more than a fifth from what was said last.
    """
    run.course.estimates.append((run.step, steps))
    run.recipe = replace(run.recipe, training=replace(run.training, steps=steps))
    if run.world.is_main:
        folder = RunFolder(run.folder)
        folder.write_record(with_length(folder.record, run))
        if abs(steps - run.said_total) > SAID_SHARE * run.said_total:
            run.said_total = steps
            message = f"{run.training.budget} is now {steps:,} steps at the speed measured last"
            run.telemetry.record_event(run.step, "budget", message, steps=steps)


def update(run: RunState) -> None:
    """Does an update; RunFailed, with the weights unchanged, if the gradient is not finite."""
    began = time.perf_counter()
    step, world, objective = run.step, run.world, run.objective
    corrupted = run.next_batches(prefetch=run.device.type != "cpu")  # on a CPU training needs every core
    names = list(objective.weights)
    local_counts = [float(sum(batch.counts[name] for batch in corrupted)) for name in names]
    counts = dict(zip(names, world.sum(local_counts), strict=True))

    objective.begin_update(run.pair, step, run.course.progress(step), run.new_stage)
    if run.fixed is not None:
        run.pending.append(run.fixed.enqueue(step, run.rate, corrupted[0], counts))
        if note := run.fixed.note:
            run.fixed.note = ""
            run.telemetry.record_event(step, "warning", note)
        run.step += 1
        settle(run, pending=1)
        run.seconds += time.perf_counter() - began
        return
    run.optimizer.zero_grad()
    micro_batch_losses: list[list[torch.Tensor]] = []  # the summed losses of each micro-batch
    for index, micro_batch in enumerate(corrupted):
        torch.manual_seed(key(run.training.seed, "dropout", step, world.rank * len(corrupted) + index))
        with autocast(run.device, run.precision):
            losses = objective.forward(run.pair, micro_batch.to(run.device)).losses
        weighted_loss = sum(
            (weight / max(1.0, counts[name])) * losses[name] for name, weight in objective.weights.items()
        )
        assert isinstance(weighted_loss, torch.Tensor)
        if index == len(corrupted) - 1:
            run.reduction.begin()
        weighted_loss.backward()  # type: ignore[no-untyped-call]
        run.reduction.add()
        micro_batch_losses.append([losses[name].detach() for name in names])

    run.reduction.finish()
    norm = float(run.optimizer.clip())
    check_gradient(run, step, norm)
    summed_losses = run.reduction.sum_losses(micro_batch_losses)
    rate = run.rate
    run.optimizer.step(rate)
    run.step += 1
    # The number of masked positions changes from step to step, so the heap fills with unused blocks of every
    # size: a long run on a CPU would grow to a multiple of what its first steps need.
    if run.device.type == "cpu" and run.step % 100 == 0:  # allocating it again costs a tenth of a second
        give_back_memory()
    run.seconds += time.perf_counter() - began
    log(run, run.step, rate, norm, summed_losses, counts)


def settle(run: RunState, pending: int = 0) -> None:
    """Logs updates until `pending` are unfinished; RunFailed if a gradient of one was not finite."""
    while len(run.pending) > pending:
        update = run.pending.pop(0)
        norm, *summed_losses = update.read()
        check_gradient(run, update.step, norm)
        log(run, update.step + 1, update.rate, norm, summed_losses, update.counts)


def check_gradient(run: RunState, step: int, norm: float) -> None:
    """Raises RunFailed if the gradient's norm is not finite."""
    if not math.isfinite(norm):
        problem = f"the gradient is not finite at step {step}; the update was not applied"
        raise RunFailed(problem, where=run.folder, fix=evaluation.LOWER_RATE)


def log(  # noqa: PLR0917
    run: RunState, step: int, rate: float, norm: float, summed_losses: list[float], counts: dict[str, float]
) -> None:
    """Writes a training row about the update that ended at `step` to the ledger, if one is due."""
    if step % run.training.log_every and step not in (1, run.total_steps):
        return
    weights = run.objective.weights
    means = {name: value / max(1.0, counts[name]) for name, value in zip(weights, summed_losses, strict=True)}
    (before, seconds), run.logged = run.logged, (step, run.seconds)
    row: dict[str, Any] = {
        "kind": "train",
        **run.progress(step),
        "tokens_per_s": run.tokens_per_step * (step - before) / (run.seconds - seconds),
        "loss": sum(weights[name] * mean for name, mean in means.items()),
        "losses": means,
        "counts": {name: int(n) for name, n in counts.items()},
        "learning_rate": rate * run.optimizer.settings.learning_rate,
        "gradient_norm": norm,
        "batch_digest": run.batches.batch(step - 1, run.training.batch_size).digest,
    }
    run.telemetry.record_training(row, run.total_steps)


def evaluate(run: RunState, stop: Stop) -> None:
    """Evaluates on the held-out rows in the main process, and records the metrics.

    Reports a collapse once, in the second half of a phase. Records nothing if `stop` interrupts it. Raises
    RunFailed if the losses are not finite.
    """
    run.evaluated_steps.add(run.step)
    if not run.world.is_main:
        return
    began = time.monotonic()
    try:
        # compiling for what is so rare does not pay
        with torch.compiler.set_stance("force_eager") if run.compiled else nullcontext():
            metrics = evaluation.evaluate(run, stop)
    except InterruptedError:
        return
    run.evaluation_seconds = time.monotonic() - began
    if not run.step and run.budget_seconds is not None and run.evaluation_seconds:
        affordable = int(EVALUATION_SHARE * run.budget_seconds / run.evaluation_seconds)
        run.evaluations = max(1, min(10, affordable))
    run.telemetry.record_evaluation({"kind": "eval", **run.progress(), "metrics": metrics})
    _, phase_start, phase_end = run.part(run.step, run.objective.phases)
    # early in training every discriminator looks collapsed
    past_halfway = run.course.position(run.step) - phase_start >= max((phase_end - phase_start) / 2, 100)
    if past_halfway and evaluation.has_collapsed(metrics) and not run.collapse_reported:
        run.collapse_reported = True
        message = (
            f"collapse alarm: at step {run.step} the discriminator predicts that nearly every token is"
            f" original (AUC {metrics['auc'] or 0.5:.2f})"
        )
        run.telemetry.record_event(run.step, "collapse", f"{message}; see docs/metrics.md")


def save(run: RunState) -> None:
    """Saves a checkpoint in the main process; RunFailed if the processes' weights differ."""
    require_same(run.world, run.tensors(), run.folder, run.step)
    if run.world.is_main:
        began = time.monotonic()
        state = {
            **run.progress(),
            **({"spent": round(run.clock.spent, 3)} if run.clock else {}),
            **clock_state(run),
            "recipe": recipe_sections(run),
            "identity": run.identity,
            "world_size": run.world.size,
            "ledger_rows": run.telemetry.sync(),
        }
        checkpoint.write(
            RunFolder(run.folder).checkpoints,
            run.pair,
            run.optimizer,
            state,
            keep=run.training.keep,
            protect=run.plateau_end,
        )
        run.checkpoint_seconds = time.monotonic() - began
    run.saved_step = run.step
    run.world.barrier()
