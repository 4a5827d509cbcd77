"""Measures what a recipe costs on this machine, with a few updates; the run that is timed is not kept."""

import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from electra.data.corpus.store import RANDOM, TokenDocuments, TokenStore
from electra.data.corpus.tokenizer_folder import Specials
from electra.foundation.durable import mebibytes
from electra.foundation.errors import ConfigError
from electra.foundation.progress import Say, duration
from electra.model.precision import device_kind
from electra.model.sizes import SIZES, EncoderConfig, Size
from electra.training.budget import FINISH_SECONDS, scaled, steps_for
from electra.training.distributed import Reduction, World
from electra.training.loop import update
from electra.training.run import RunState
from electra.training.schedule import Course
from electra.training.telemetry import Telemetry

MEASURING_SHARE = 0.02  # of a time budget, to measure the updates of each phase
UPDATES_SHARE = 0.8  # of the time that is left, for updates, before the first evaluation is timed
SECONDS = 2.0  # spent on timing updates, in each phase of the training
LONG = 1 << 30  # not a run's number of updates: only the phases' shares of them matter
TOO_LITTLE = 5  # tokens per parameter of the layers: a quarter of
TOKENS_PER_PARAMETER = 20  # of the layers; with more, a larger model pays off (Hoffmann et al. 2022)
EPOCHS = 16  # repeating the text more often than this teaches little (Muennighoff et al. 2023)


def measure(run: RunState, limit: float = SECONDS) -> float:
    """Returns the mean seconds per update, in which phases count by their share of the steps.

    This changes the run's weights. Each phase is timed for about `limit` seconds. If a whole update takes
    longer than that, an eighth of the batch is timed and scaled up. Only this process runs; its time is
    divided by the number of processes. Raises RunFailed if a gradient is not finite.
    """
    batch_size, mean_seconds = run.training.batch_size, 0.0
    for step, end in pairwise(sorted({0, LONG, *(round(LONG * share) for share in run.objective.phases)})):
        rows = max(1, batch_size // 8)
        if _seconds_per_update(run, step, rows, 0.0) * batch_size / rows < limit:
            rows = batch_size
        seconds = _seconds_per_update(run, step, rows, limit) * batch_size / rows
        mean_seconds += seconds * (end - step) / LONG
    return mean_seconds / run.world.size


def _seconds_per_update(run: RunState, step: int, rows: int, limit: float) -> float:
    """Returns the mean over `limit` seconds of updates of `rows` rows at `step`, after one that is slower."""
    timed = replace(
        run,
        recipe=replace(run.recipe, training=replace(run.training, batch_size=rows)),
        world=World(),
        reduction=Reduction(World(), ()),  # the other processes wait
        telemetry=Telemetry(run.folder, is_main=False),
        course=Course([(0, LONG)]),
        step=step,
    )
    update(timed)
    began, updates = time.perf_counter(), 0
    while not updates or time.perf_counter() - began < limit:
        update(timed)
        updates += 1
    return (time.perf_counter() - began) / updates


def random_store(vocab_size: int) -> TokenStore:
    """Returns an in-memory store of random ids of ordinary tokens; both splits are the same."""
    documents, size = 1000, 1000  # number of documents, and tokens of each
    ids = np.random.default_rng(0).integers(5, vocab_size, documents * size, dtype=np.uint32)
    split = TokenDocuments(ids, np.arange(size, documents * size + 1, size, dtype=np.uint64))
    specials, description = Specials(pad=0, unk=1, cls=2, sep=3, mask=4), {"digest": RANDOM}
    return TokenStore(Path("memory"), split, split, specials, vocab_size, RANDOM, description)


def estimate(run: RunState, corpus_tokens: int, *, trained: bool) -> list[str]:
    """Returns what a run would train, how long it takes and what it needs on this machine, for the user.

    Measuring changes the run's weights. `trained`: its networks start from trained weights. Raises
    ConfigError if the budget is too small, and RunFailed if a gradient is not finite.
    """
    training, main, seconds = run.training, run.networks.main, measure(run)
    updates = (training.steps if training.budget is None else None) or steps_for(
        training.budget or "",
        tokens_per_step=run.tokens_per_step,
        flops_per_step=run.flops_per_step,
        seconds_per_step=seconds,
    )
    tokens = updates * run.tokens_per_step
    ratio = tokens_per_parameter(run, updates, corpus_tokens)
    length = "" if training.schedule == "wsd" else "; the run cannot be extended"
    facts = {
        "objective": run.identity["objective"],
        "layers": f"{main.num_layers} x {main.hidden_size}, encoder {main.architecture}",
        "vocabulary": f"{main.vocab_size:,}",
        "parameters": run.describe_networks(),
        "rows x tokens": f"{training.batch_size} x {training.length}",
        "learning rate": f"{training.learning_rate:.3g}, {training.schedule}{length}",
        "updates": f"{updates:,} ({tokens / 1e6:,.1f} M tokens, {updates * run.flops_per_step:.2g} FLOPs)",
        "epochs": f"{tokens / max(1, corpus_tokens):.2g} of {corpus_tokens:,} tokens",
        "time": f"{duration(updates * seconds)} ({seconds:.2g} s per update, layers not compiled)",
        "memory": f"{mebibytes(device_kind(run.device).peak_memory())} on {run.device}, {run.precision}",
        "disk": mebibytes(run.disk_bytes),
        "enough?": ("" if trained else too_little(run, updates, corpus_tokens))
        or f"{ratio:,.1f} tokens per parameter of the layers",
    }
    return [f"{name:<15}{value}" for name, value in facts.items()]


def tokens_per_parameter(run: RunState, updates: int, corpus_tokens: int) -> float:
    """Returns the tokens for each parameter of the layers; repeated text counts up to EPOCHS times."""
    encoder = run.pair.main.encoder
    in_layers = sum(p.numel() for p in encoder.parameters()) - encoder.token_table().numel()
    return min(updates * run.tokens_per_step, EPOCHS * corpus_tokens) / in_layers


def layers_weight(shape: Size | EncoderConfig) -> int:
    """Returns a number that is proportional to the parameters of the layers."""
    return shape.num_layers * shape.hidden_size**2


def too_little(run: RunState, updates: int, corpus_tokens: int) -> str:
    """Says that a training from random weights is too short, and what would do ("": it is long enough)."""
    ratio, text = tokens_per_parameter(run, updates, corpus_tokens), run.training.budget
    if ratio >= TOO_LITTLE:
        return ""
    if text is None or updates * run.tokens_per_step > EPOCHS * corpus_tokens:
        fix, power = "use more text", 1
    else:  # a smaller network also reads more tokens in the same budget
        fix, power = f"use --budget {scaled(text, TOKENS_PER_PARAMETER / max(ratio, 1e-9))}", 2
    weights = [(layers_weight(size), name) for name, size in SIZES.items()]
    now = layers_weight(run.networks.main)
    smaller = [(weight, name) for weight, name in weights if weight < now]
    fits = [name for weight, name in smaller if ratio * (now / weight) ** power >= TOO_LITTLE]
    fix += f" or --model.size {fits[-1]}" if fits else ""
    return (
        f"{ratio:,.1f} tokens per parameter of the layers; below {TOO_LITTLE}, expect little better than chance: {fix}"
    )


def resolve_budget(run: RunState, say: Say, began: float, done: tuple[int, float]) -> tuple[int, str]:
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
        return steps_for(text, tokens_per_step=tokens, flops_per_step=flops), ""
    say(f"measuring how many updates fit in {text}")
    per_update = measure(run, min(SECONDS, MEASURING_SHARE * seconds))
    before = done[1] + time.monotonic() - began
    left = UPDATES_SHARE * (seconds - before) - FINISH_SECONDS
    if left < per_update:
        needed = before + (FINISH_SECONDS + per_update) / UPDATES_SHARE
        raise ConfigError(
            f"{text} is too short by {duration(needed - seconds)}: {duration(before)} are spent already, an"
            f" update takes {duration(per_update)}, and saving {duration(FINISH_SECONDS)}",
            key="budget",
            fix=f"Use at least `budget={scaled(text, 1.5 * needed / seconds)}`",
        )
    steps = done[0] + int(left / per_update)
    note = f"{text} is about {steps:,} steps at {per_update:.2g} s per update; the run follows the clock"
    return steps, note
