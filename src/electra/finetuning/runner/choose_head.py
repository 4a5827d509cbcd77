"""Chooses between fine-tuning and the head `frozen` (`--head auto`), on the training examples alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from electra.exchange.load import Loaded
from electra.finetuning.heads import load_head
from electra.finetuning.runner import baselines
from electra.finetuning.runner.dataset import Dataset
from electra.finetuning.runner.prepared import FROZEN, encoder_pooling, evaluate, prepare, resolve
from electra.finetuning.runner.train_seed import train_seed
from electra.finetuning.settings import AUTO, Settings
from electra.foundation.options import as_path
from electra.foundation.progress import doing

FEW_LABELS, HELD_OUT = 2_000, 5  # labelled texts or words at most; every fifth example is held out
FEW_DEV = 200  # with fewer dev examples, the comparison with baselines includes the fifth
TRAINING = ("epochs", "learning_rate", "layer_decay", "dropout")  # set by someone who wants to train


def choose_head(
    settings: Settings, dataset: Dataset, loaded: Loaded, stop: Callable[[], bool] | None
) -> tuple[Settings, list[str], dict[str, list[int]]]:
    """Returns the settings with the head that scores better on a held-out fifth of the training examples.

    It is `frozen`, with a note, if neither is better than the majority's answer by more than chance.
    Both heads are trained on the rest, with the first seed. Where that is not worth it, the head stays
    `auto`, which means fine-tuning, and there is no note. Where dev is small, the last value compares the
    better head with baselines on the same fifth (`trial` of `baselines.compare`). `stop` is called after
    each step; if it returns True, Interrupted is raised.
    """
    task, train = dataset.task, dataset.splits["train"]
    count = sum(len(example.texts) for example in train) if task.head == "tagger" else len(train)
    wants_training = any(getattr(settings, name) is not None for name in TRAINING)
    wants_training |= settings.init == "random" or settings.keep_epoch == "best"
    can_choose = task.head in load_head(FROZEN).kinds and baselines.apply_to(dataset, settings)
    if settings.head != AUTO or wants_training or not can_choose or not HELD_OUT <= count <= FEW_LABELS:
        return settings, [], {}
    shuffled = np.random.default_rng(0).permutation(len(train))
    ordered = sorted(shuffled, key=lambda i: str(task.shown_gold(train[i])))  # all labels in both parts
    held_out = set(ordered[HELD_OUT // 2 :: HELD_OUT])
    parts = [tuple(train[i] for i in range(len(train)) if (i in held_out) == is_dev) for is_dev in (0, 1)]
    trial = replace(dataset, splits=dict(zip(("train", "dev"), parts, strict=True)))
    metric, scores, right = task.metrics[0], dict[str, float](), dict[str, Any]()
    for head in (FROZEN, AUTO):
        doing(f"choosing the head on a fifth of the training examples: {head}")
        given = replace(settings, head=head, checkpoint_every=1 << 30)
        resolved = resolve(given, trial, loaded.config, encoder_pooling(loaded))
        prepared = replace(prepare(resolved, trial, loaded)[0], stopping=stop or (lambda: False))
        model, _ = train_seed(prepared, settings.seed, as_path(settings.out) / "choice")
        evaluation = evaluate(prepared, model, prepared.splits["dev"])
        value = evaluation.scores[metric].value
        scores[head] = -np.inf if value is None else value
        right[head] = baselines.right_answers(trial, evaluation.predictions)
    majority = baselines.scores(baselines.MAJORITY, trial)[f"eval_{metric}"].value
    limit = -math.inf if majority is None else majority  # what may be chance
    if metric == "accuracy":
        limit += 2 * math.sqrt(limit * (1 - limit) / len(held_out))  # two standard errors
    is_chance = max(scores.values()) <= limit
    is_frozen = is_chance or scores[FROZEN] > scores[AUTO]
    best, compared = FROZEN if is_frozen else AUTO, dict[str, list[int]]()
    if right[best] is not None and len(dataset.splits["dev"]) < FEW_DEV:
        tf_idf = baselines.predictions(baselines.LINEAR, trial)["dev"]
        others = {} if is_frozen else {baselines.FROZEN_ENCODER: right[FROZEN]}
        others[baselines.lexical_title(trial)] = baselines.right_answers(trial, tf_idf)
        pairs = {name: np.subtract(right[best], other, dtype=int) for name, other in others.items()}
        compared = {
            name: [*(int((d == sign).sum()) for sign in (1, -1)), len(d)] for name, d in pairs.items()
        }
    known = " and ".join(f"{'fine-tuned' if head == AUTO else head} {scores[head]:.3f}" for head in scores)
    note = f"head: {FROZEN if is_frozen else 'fine-tuned'}, by {metric} on {len(held_out)} of the training"
    note += f" examples, held out: {known}"
    if is_chance:
        note += f"; the most frequent answer has {majority:.3f}, and up to {limit:.3f} may be chance"
        note += ": too few labels for this task, or nothing to learn"
    return replace(settings, head=best), [note], compared
