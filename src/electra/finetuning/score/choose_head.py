"""Chooses between fine-tuning and the linear heads (`--head auto`), on the training examples alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from electra.exchange.load import Loaded
from electra.finetuning.heads import load_head
from electra.finetuning.labelled.examples import Examples
from electra.finetuning.score import baselines
from electra.finetuning.score.evaluate import evaluate
from electra.finetuning.settings import AUTO, Settings
from electra.finetuning.task import Task
from electra.finetuning.train.dataset import Dataset, text_key
from electra.finetuning.train.one_seed import train_seed
from electra.finetuning.train.prepared import COUNTS, FROZEN, encoder_pooling, prepare, resolve
from electra.foundation.arrays import Ints
from electra.foundation.progress import Say, doing, quiet

FEW_LABELS = 2_000  # labelled texts at most
FEW_WORDS = 25_000  # labelled words at most
HELD_OUT = 5  # every fifth text is held out
RESAMPLES = 100  # bootstrap samples of the held-out examples, for a standard error
LINEAR = (FROZEN, COUNTS)  # the heads that are fitted in seconds
TITLES = {FROZEN: FROZEN, COUNTS: COUNTS, AUTO: "fine-tuned"}
TRAINING = ("epochs", "learning_rate", "layer_decay", "dropout")  # set by someone who wants to train


@dataclass(frozen=True)
class Trial:
    """What a head predicted for held-out training examples."""

    task: Task
    examples: Examples
    predictions: list[Any]

    def score(self, rows: Ints | None = None) -> float | None:
        """Returns the primary score of the examples, or of these rows; None if it is undefined."""
        rows = np.arange(len(self.examples)) if rows is None else rows
        predictions, examples = ([each[i] for i in rows] for each in (self.predictions, self.examples))
        return self.task.score(predictions, examples)[self.task.metrics[0]].value


def standard_error(trial: Trial) -> float:
    """Returns the bootstrap's standard error of the score, over the examples."""
    rng, count = np.random.default_rng(0), len(trial.examples)
    found = [trial.score(rng.integers(count, size=count)) for _ in range(RESAMPLES)]
    known = [score for score in found if score is not None]
    return float(np.std(known)) if known else 0.0


def choose_head(
    settings: Settings, dataset: Dataset, loaded: Loaded, stop: Callable[[], bool], say: Say = quiet
) -> tuple[Settings, list[str]]:
    """Returns the settings with the head that is best on held-out training texts, and notes on the choice.

    The linear heads are scored by cross-validation, and `say` tells at once how they do; with many labels,
    and for the fine-tuned head, one fifth of the texts is held out. Fine-tuning is chosen if it is better
    than the best linear head there by more than its standard error, and the cheapest head if none is better
    than the majority's answer by more than chance. Each is trained on the rest, with the first seed; nothing
    is written. Where that is not worth it, the head stays `auto`, which is fine-tuning, without a note.
    `stop` is called after each step; if it returns True, Interrupted is raised.
    """
    if not is_worth_it(settings, dataset) or (fifth := hold_out(dataset)) is None:
        return settings, []
    is_cheap, metric = count_answers(dataset) <= FEW_LABELS, dataset.task.metrics[0]
    others = [part for i in range(HELD_OUT) if i != HELD_OUT // 2 and (part := hold_out(dataset, i))]
    parts = [fifth, *others] if is_cheap else [fifth]
    trials = {head: [try_head(head, settings, part, loaded, stop) for part in parts] for head in LINEAR}
    joined = {head: join(of_head) for head, of_head in trials.items()}
    listed = ", ".join(describe(head, trial) for head, trial in joined.items())
    count = f"{len(joined[FROZEN].examples)} of the training examples"
    note = f"{metric} on {count}, held out (+- standard error): {listed}"
    say(note)
    tuned = try_head(AUTO, settings, fifth, loaded, stop)
    known = {head: _number(trial.score()) for head, trial in {**joined, AUTO: tuned}.items()}
    best = COUNTS if known[COUNTS] > known[FROZEN] else FROZEN
    rival = trials[best][0]
    if known[AUTO] - _number(rival.score()) > standard_error(tuned):
        best = AUTO
    majority = baselines.scores(baselines.MAJORITY, fifth)[f"eval_{metric}"].value
    limit = -math.inf if majority is None else majority  # what may be chance
    if metric == "accuracy":
        limit = min(1.0, limit + 2 * math.sqrt(limit * (1 - limit) / len(tuned.examples)))  # standard errors
    is_chance = max(known.values()) <= limit
    best = FROZEN if is_chance else best
    note = f"head: {TITLES[best]}, by {note}; {describe(AUTO, tuned)} on {len(tuned.examples)} of them"
    if is_chance and majority is not None:
        note += f"; the most frequent answer has {majority:.3f}, and up to {limit:.3f} may be chance"
    if is_chance:
        note += ": too few labels for this task, or nothing to learn"
    return replace(settings, head=best), [note]


def describe(head: str, trial: Trial) -> str:
    """Returns a head with its score and standard error."""
    score = trial.score()
    return f"{TITLES[head]} " + (
        "undefined" if score is None else f"{score:.3f} +- {standard_error(trial):.3f}"
    )


def join(trials: Sequence[Trial]) -> Trial:
    """Returns the trials of the parts of a cross-validation as one."""
    examples = tuple(example for trial in trials for example in trial.examples)
    return Trial(trials[0].task, examples, [answer for trial in trials for answer in trial.predictions])


def _number(score: float | None) -> float:
    return -math.inf if score is None else score


def count_answers(dataset: Dataset) -> int:
    """Returns the number of labelled texts or words of the training data."""
    train = dataset.splits["train"]
    return sum(len(example.texts) for example in train) if dataset.task.head == "tagger" else len(train)


def is_worth_it(settings: Settings, dataset: Dataset) -> bool:
    """Whether the head is to be chosen, labels are few, and both heads and the baselines apply."""
    task = dataset.task
    few = FEW_WORDS if task.head == "tagger" else FEW_LABELS
    wants_training = any(getattr(settings, name) is not None for name in TRAINING)
    wants_training |= settings.init == "random" or settings.keep_epoch == "best"
    can_choose = task.head in load_head(FROZEN).kinds and baselines.apply_to(dataset, settings)
    return settings.head == AUTO and not wants_training and can_choose and count_answers(dataset) <= few


def hold_out(dataset: Dataset, part: int = HELD_OUT // 2) -> Dataset | None:
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
    held_out = sorted(ordered[part::HELD_OUT])
    left_out = {keys[i] for i in held_out}
    rest = tuple(example for example, key in zip(train, keys, strict=True) if key not in left_out)
    return replace(dataset, splits={"train": rest, "dev": tuple(train[i] for i in held_out)})


def try_head(head: str, settings: Settings, part: Dataset, loaded: Loaded, stop: Callable[[], bool]) -> Trial:
    """Returns the predictions of a head that is trained on one part of the training examples."""
    doing(f"choosing the head on held-out training examples: {TITLES[head]}")
    resolved = resolve(replace(settings, head=head), part, loaded.config, encoder_pooling(loaded))
    prepared = replace(prepare(resolved, part, loaded)[0], stopping=stop)
    model, _ = train_seed(prepared, settings.seed, None)
    predictions = evaluate(prepared, model, prepared.splits["dev"]).predictions
    return Trial(part.task, part.splits["dev"], predictions)
