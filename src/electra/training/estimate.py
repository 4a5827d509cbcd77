"""Measures what a recipe costs on this machine, with a few updates; the run that is timed is not kept."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from electra.data.store import RANDOM, TokenDocuments, TokenStore
from electra.data.tokenizer_folder import Specials
from electra.foundation.durable import mebibytes
from electra.foundation.progress import duration
from electra.foundation.threads import set_threads
from electra.model.precision import device_kind
from electra.model.sizes import SIZES, EncoderConfig, Size
from electra.training.budget import scaled, steps_for
from electra.training.distributed import Reduction, World
from electra.training.loop import update
from electra.training.networks import WarmStart
from electra.training.recipe import Recipe
from electra.training.run import Run, build_run
from electra.training.schedule import Course, can_be_extended
from electra.training.telemetry import Telemetry

SECONDS = 2.0  # spent on timing updates, in each phase of the training
LONG = 1 << 30  # not a run's number of updates: only the phases' shares of them matter
TOO_LITTLE = 5  # tokens per parameter of the layers: a quarter of
TOKENS_PER_PARAMETER = 20  # of the layers; with more, a larger model pays off (Hoffmann et al. 2022)
EPOCHS = 16  # repeating the text more often than this teaches little (Muennighoff et al. 2023)


def measure(run: Run, limit: float = SECONDS) -> float:
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


def _seconds_per_update(run: Run, step: int, rows: int, limit: float) -> float:
    """Returns the mean over `limit` seconds of updates of `rows` rows at `step`, after one that is slower."""
    timed = replace(
        run,
        recipe=replace(run.recipe, training=replace(run.training, batch_size=rows)),
        world=World(),
        reduction=Reduction(World(), ()),  # the other processes wait
        telemetry=Telemetry(run.folder, is_main=False),
        fixed=run.fixed if rows == run.training.batch_size else None,
        pending=[],
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


def estimate(recipe: Recipe, vocab_size: int, corpus_tokens: int, warm: WarmStart | None = None) -> list[str]:
    """Returns what a recipe would train, how long it takes and what it needs on this machine, for the user.

    Measures it on random ids and without compiling the layers, and writes nothing. Of `warm`, the models to
    start from, only the shapes are used. Raises ConfigError if settings do not fit the machine or the
    objective, or the budget is too small; and RunFailed if a gradient is not finite.
    """
    set_threads(recipe.training.threads)
    # Random initialisation: co-occurrences of random ids would carry no information.
    training = replace(recipe.training, log_every=LONG)
    timed = replace(recipe, training=training, model=replace(recipe.model, start="fresh"))
    shapes = None if warm is None else WarmStart({}, warm.shapes)
    run = build_run(timed, Path("memory"), random_store(vocab_size), World(), shapes)
    seconds, main = measure(run), run.networks.main
    updates = (training.steps if training.budget is None else None) or steps_for(
        training.budget or "",
        tokens_per_step=run.tokens_per_step,
        flops_per_step=run.flops_per_step,
        seconds_per_step=seconds,
    )
    tokens = updates * run.tokens_per_step
    ratio = tokens_per_parameter(run, updates, corpus_tokens)
    length = "" if can_be_extended(run.training.schedule) else "; the run cannot be extended"
    facts = {
        "objective": run.identity["objective"],
        "layers": f"{main.num_layers} x {main.hidden_size}, encoder {main.architecture}",
        "vocabulary": f"{main.vocab_size:,}",
        "parameters": run.describe_networks(),
        "rows x tokens": f"{training.batch_size} x {training.length}",
        "learning rate": f"{training.learning_rate:.3g}, {run.training.schedule}{length}",
        "updates": f"{updates:,} ({tokens / 1e6:,.1f} M tokens, {updates * run.flops_per_step:.2g} FLOPs)",
        "epochs": f"{tokens / max(1, corpus_tokens):.2g} of {corpus_tokens:,} tokens",
        "time": f"{duration(updates * seconds)} ({seconds:.2g} s per update, layers not compiled)",
        "memory": f"{mebibytes(device_kind(run.device).peak_memory())} on {run.device}, {run.precision}",
        "disk": mebibytes(run.disk_bytes),
        "enough?": (too_little(run, updates, corpus_tokens) if warm is None else "")
        or f"{ratio:,.1f} tokens per parameter of the layers",
    }
    return [f"{name:<15}{value}" for name, value in facts.items()]


def tokens_per_parameter(run: Run, updates: int, corpus_tokens: int) -> float:
    """Returns the tokens for each parameter of the layers; repeated text counts up to EPOCHS times."""
    encoder = run.pair.main.encoder
    in_layers = sum(p.numel() for p in encoder.parameters()) - encoder.token_table().numel()
    return min(updates * run.tokens_per_step, EPOCHS * corpus_tokens) / in_layers


def layers_weight(shape: Size | EncoderConfig) -> int:
    """Returns a number that is proportional to the parameters of the layers."""
    return shape.num_layers * shape.hidden_size**2


def too_little(run: Run, updates: int, corpus_tokens: int) -> str:
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
    fits = [
        name for weight, name in weights if weight < now and ratio * (now / weight) ** power >= TOO_LITTLE
    ]
    fix += f" or --model.size {fits[-1]}" if fits else ""
    return (
        f"{ratio:,.1f} tokens per parameter of the layers; below {TOO_LITTLE}, expect little better than"
        f" chance: {fix}"
    )
