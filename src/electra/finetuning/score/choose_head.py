"""Chooses between fine-tuning and the head `frozen` (`--head auto`), on the training examples alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from electra.exchange.load import Loaded
from electra.finetuning.heads import load_head
from electra.finetuning.score import baselines
from electra.finetuning.score.evaluate import evaluate
from electra.finetuning.settings import AUTO, Settings
from electra.finetuning.train.dataset import Dataset, text_key
from electra.finetuning.train.one_seed import train_seed
from electra.finetuning.train.prepared import FROZEN, encoder_pooling, prepare, resolve
from electra.foundation.progress import doing

FEW_LABELS, HELD_OUT = 2_000, 5  # labelled texts or words at most; every fifth text is held out
TRAINING = ("epochs", "learning_rate", "layer_decay", "dropout")  # set by someone who wants to train


def choose_head(
    settings: Settings, dataset: Dataset, loaded: Loaded, stop: Callable[[], bool]
) -> tuple[Settings, list[str]]:
    """Returns the settings with the head that scores better on a held-out fifth of the training texts.

    It is `frozen`, with a note, if neither is better than the majority's answer by more than chance.
    Both heads are trained on the rest, with the first seed; nothing is written. Where that is not worth it,
    the head stays `auto`, which means fine-tuning, and there is no note. `stop` is called after each step; if
    it returns True, Interrupted is raised.
    """
    if not is_worth_it(settings, dataset) or (trial := hold_out_fifth(dataset)) is None:
        return settings, []
    metric, count = dataset.task.metrics[0], len(trial.splits["dev"])
    scores = {head: score_of(head, settings, trial, loaded, stop) for head in (FROZEN, AUTO)}
    majority = baselines.scores(baselines.MAJORITY, trial)[f"eval_{metric}"].value
    limit = -math.inf if majority is None else majority  # what may be chance
    if metric == "accuracy":
        limit = min(1.0, limit + 2 * math.sqrt(limit * (1 - limit) / count))  # two standard errors
    known = {head: -math.inf if score is None else score for head, score in scores.items()}
    is_chance = max(known.values()) <= limit
    best = FROZEN if is_chance or known[FROZEN] > known[AUTO] else AUTO
    titles = {FROZEN: FROZEN, AUTO: "fine-tuned"}
    shown = {head: "undefined" if score is None else f"{score:.3f}" for head, score in scores.items()}
    listed = " and ".join(f"{titles[head]} {value}" for head, value in shown.items())
    note = f"head: {titles[best]}, by {metric} on {count} of the training examples, held out: {listed}"
    if is_chance and majority is not None:
        note += f"; the most frequent answer has {majority:.3f}, and up to {limit:.3f} may be chance"
    if is_chance:
        note += ": too few labels for this task, or nothing to learn"
    return replace(settings, head=best), [note]


def is_worth_it(settings: Settings, dataset: Dataset) -> bool:
    """Whether the head is to be chosen, labels are few, and both heads and the baselines apply."""
    task, train = dataset.task, dataset.splits["train"]
    count = sum(len(example.texts) for example in train) if task.head == "tagger" else len(train)
    wants_training = any(getattr(settings, name) is not None for name in TRAINING)
    wants_training |= settings.init == "random" or settings.keep_epoch == "best"
    can_choose = task.head in load_head(FROZEN).kinds and baselines.apply_to(dataset, settings)
    return settings.head == AUTO and not wants_training and can_choose and count <= FEW_LABELS


def hold_out_fifth(dataset: Dataset) -> Dataset | None:
    """Returns the training examples as train and dev, a fifth of the different texts, each of them once.

    Examples with equal texts (`text_key`) are on one side. None if there are fewer than five texts.
    """
    task, train = dataset.task, dataset.splits["train"]
    keys = [text_key(example, task) for example in train]
    drawn: dict[tuple[str, ...], int] = {}
    for i in np.random.default_rng(0).permutation(len(train)):
        drawn.setdefault(keys[i], i)
    if len(drawn) < HELD_OUT:
        return None
    ordered = sorted(drawn.values(), key=lambda i: str(task.shown_gold(train[i])))  # all labels in both parts
    held_out = sorted(ordered[HELD_OUT // 2 :: HELD_OUT])
    left_out = {keys[i] for i in held_out}
    rest = tuple(example for example, key in zip(train, keys, strict=True) if key not in left_out)
    return replace(dataset, splits={"train": rest, "dev": tuple(train[i] for i in held_out)})


def score_of(
    head: str, settings: Settings, trial: Dataset, loaded: Loaded, stop: Callable[[], bool]
) -> float | None:
    """Returns the primary score of a head that is trained on one part of a trial; None if it is undefined."""
    doing(f"choosing the head on a fifth of the training examples: {head}")
    resolved = resolve(replace(settings, head=head), trial, loaded.config, encoder_pooling(loaded))
    prepared = replace(prepare(resolved, trial, loaded)[0], stopping=stop)
    model, _ = train_seed(prepared, settings.seed, None)
    return evaluate(prepared, model, prepared.splits["dev"]).scores[trial.task.metrics[0]].value
