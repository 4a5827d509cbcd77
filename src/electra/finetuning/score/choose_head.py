"""Chooses between the linear heads and fine-tuning (`--head auto`), on the training examples alone."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from electra.exchange.load import Loaded
from electra.finetuning.heads import load_head
from electra.finetuning.heads.counts import CountedHead
from electra.finetuning.linear_fit import Problem, out_of_fold, tuned
from electra.finetuning.score import baselines
from electra.finetuning.score.evaluate import evaluate
from electra.finetuning.settings import AUTO, Settings
from electra.finetuning.train.dataset import FOLDS, Dataset
from electra.finetuning.train.one_seed import build_model, train_seed
from electra.finetuning.train.prepared import COUNTS, FROZEN, encoder_pooling, prepare, resolve
from electra.foundation.arrays import Ints
from electra.foundation.errors import Interrupted
from electra.foundation.progress import Say, doing, quiet
from electra.foundation.terminal_text import when

FEW = {"classifier": 2_000, "tagger": 25_000}  # labelled texts or words: with more there is no choice
VERY_FEW = {"classifier": 300, "tagger": 3_000}  # with more, a network is tried on one fold alone
NARROW = 384  # the width of an encoder above which it is, too
LINEAR = (FROZEN, COUNTS)  # the heads that are fitted in seconds
TRAINED = {AUTO: "fine-tuned"}  # the heads that train the network, from the cheapest, with their titles
TITLES = {head: head for head in LINEAR} | TRAINED
TRAINING = ("epochs", "learning_rate", "layer_decay", "dropout")  # set by someone who wants to train
PARTS = 20  # of the held-out texts: without each of them, scores are computed again for a standard error


@dataclass(frozen=True)
class Trials:
    """What heads predict for training examples that they have not seen, one for each different text."""

    settings: Settings
    dataset: Dataset
    loaded: Loaded
    stop: Callable[[], bool]
    answers: dict[str, dict[int, Any]] = field(default_factory=dict)  # by head and index of the example

    def score(self, head: str, rows: Sequence[int] | Ints) -> float:
        """Returns a head's primary score on some examples; NaN if it is undefined."""
        task, train = self.dataset.task, self.dataset.splits["train"]
        found = task.score([self.answers[head][i] for i in rows], [train[i] for i in rows])
        value = found[task.metrics[0]].value
        return math.nan if value is None else value

    def score_and_error(self, head: str, other: str = "") -> tuple[float, float]:
        """Returns the score of a head, or by how much it is above the `other`, and the standard error.

        Both are scored on the examples that both predicted. The error is the jackknife's: how the score
        varies without each of PARTS parts of the texts.
        """
        rows = np.array(sorted(self.answers[head].keys() & self.answers[other or head].keys()))

        def value(of: Ints) -> float:
            return self.score(head, of) - (self.score(other, of) if other else 0.0)

        parts = np.array_split(np.random.default_rng(0).permutation(rows), min(PARTS, len(rows)))
        found = np.array([value(np.setdiff1d(rows, part)) for part in parts if len(rows) > 1])
        found = found[np.isfinite(found)]
        return value(rows), math.sqrt(max(0, len(found) - 1) * found.var()) if len(found) else 0.0

    def describe(self, head: str) -> str:
        """Returns a head with its score and standard error."""
        count, (value, error) = len(self.answers[head]), self.score_and_error(head)
        shown = "undefined" if math.isnan(value) else f"{value:.3f} +- {error:.3f}"
        is_part = count < len(self.dataset.different_texts)
        return f"{TITLES[head]} {shown}{when(is_part, f' (on {count} of them)')}"

    def chance(self, head: str) -> float:
        """Returns what score on a head's examples may be chance."""
        rows = sorted(self.answers[head])
        value = self.score(baselines.MAJORITY, rows)
        is_share = self.dataset.task.metrics[0] == "accuracy"
        error = math.sqrt(value * (1 - value) / len(rows)) if is_share else 0.0
        return -math.inf if math.isnan(value) else min(1.0, value + 2 * error)


def choose_head(
    settings: Settings, dataset: Dataset, loaded: Loaded, stop: Callable[[], bool], say: Say = quiet
) -> tuple[Settings, list[str]]:
    """Returns the settings with the head that is best on held-out training texts, and a note on the choice.

    The linear heads are scored by cross-validation, and `say` tells at once how they do. Then the network is
    trained on four fifths: on each four fifths if that is cheap. A head that costs more is chosen if it is
    better by more than the standard error of the difference on the same texts, and the cheapest if none is
    better than the most frequent answer by more than chance. Nothing is written. Where the choice is not
    worth it, the head stays `auto`, which is fine-tuning, without a note. `stop` is called after each step;
    if it returns True, Interrupted is raised.
    """
    if not is_worth_it(settings, dataset) or len(dataset.different_texts) < FOLDS:
        return settings, []
    majority = baselines.fit(baselines.MAJORITY, dataset.task, train := dataset.splits["train"])
    assert majority is not None
    trials = Trials(settings, dataset, loaded, stop, {baselines.MAJORITY: dict(enumerate(majority(train)))})
    trials.answers.update(linear_answers(trials))
    metric, count = dataset.task.metrics[0], len(dataset.different_texts)
    note = f"{metric} on {count:,} held-out training texts (+- standard error): "
    note += ", ".join(map(trials.describe, LINEAR))
    say(note)
    best = FROZEN
    for head in (COUNTS, *TRAINED):
        if head in TRAINED:
            trials.answers[head] = train_on_folds(head, trials)
            note += f", {trials.describe(head)}"
        gain, error = trials.score_and_error(head, best)
        if gain > error or math.isnan(trials.score_and_error(best)[0]):
            best = head
    heads = (*LINEAR, *TRAINED)
    if not any(trials.score_and_error(head)[0] > trials.chance(head) for head in heads):
        best, value = FROZEN, trials.score_and_error(baselines.MAJORITY)[0]
        shown = f"; the most frequent answer has {value:.3f}, up to {trials.chance(best):.3f} may be chance"
        note += when(math.isfinite(value), shown) + ": too few labels for this task, or nothing to learn"
    return replace(settings, head=best), [f"head: {TITLES[best]}, by {note}"]


def is_worth_it(settings: Settings, dataset: Dataset) -> bool:
    """Whether the head is to be chosen, labels are few, and all heads and the baselines apply."""
    wants_training = any(getattr(settings, name) is not None for name in TRAINING)
    wants_training |= settings.init == "random" or settings.keep_epoch == "best"
    can_choose = dataset.task.head in load_head(FROZEN).kinds and baselines.apply_to(dataset, settings)
    return settings.head == AUTO and not wants_training and can_choose and has_at_most(dataset, FEW)


def has_at_most(dataset: Dataset, limits: dict[str, int]) -> bool:
    """Whether the training data has at most so many labelled texts or, for tagging, words."""
    train, kind = dataset.splits["train"], dataset.task.head
    return sum(len(each.texts) if kind == "tagger" else 1 for each in train) <= limits[kind]


def linear_answers(trials: Trials) -> dict[str, dict[int, Any]]:
    """Returns what the linear heads predict for the training texts, each without its fold.

    The encoder reads the training examples once; the vocabulary of counted features is that of all.
    """
    doing("choosing the head: states of the training examples")
    settings, dataset, loaded = trials.settings, trials.dataset, trials.loaded
    part = replace(dataset, splits={"train": dataset.splits["train"]})
    resolved = resolve(replace(settings, head=COUNTS), part, loaded.config, encoder_pooling(loaded))
    prepared = prepare(resolved, part, loaded)[0]
    model, windows, task = build_model(prepared, settings.seed), prepared.train, prepared.task
    head, data = model.head, prepared.training_data
    assert isinstance(head, CountedHead)
    rows, counted = head.read(model.encoder, data)
    blocks = {FROZEN: [rows.states[:, : head.frozen_size]], COUNTS: [rows.states, counted]}
    answers = {}
    for name, of_head in blocks.items():
        doing(f"choosing the head: {name}")
        problem = tuned(Problem(task, of_head, rows.targets), rows.folds)
        outputs = rows.by_window(out_of_fold(problem, rows.folds), windows)
        found = task.predict(outputs, windows, dataset.splits["train"])
        answers[name] = {i: found[i] for i in dataset.different_texts}
    return answers


def train_on_folds(head: str, trials: Trials) -> dict[int, Any]:
    """Returns what a head predicts for a fold that it is trained without: each if that is cheap, else one."""
    is_cheap = has_at_most(trials.dataset, VERY_FEW) and trials.loaded.config.hidden_size <= NARROW
    folds, answers = range(FOLDS) if is_cheap else (FOLDS // 2,), dict[int, Any]()
    for fold in folds:
        if trials.stop():
            raise Interrupted(trials.settings.out)
        doing(f"choosing the head: {TITLES[head]}, fold {fold + 1}")
        answers |= try_head(head, trials, fold)
    return answers


def try_head(head: str, trials: Trials, fold: int) -> dict[int, Any]:
    """Returns what a head that is trained without a fold predicts for its different texts."""
    part, loaded = hold_out(trials.dataset, fold), trials.loaded
    resolved = resolve(replace(trials.settings, head=head), part, loaded.config, encoder_pooling(loaded))
    prepared = replace(prepare(resolved, part, loaded)[0], stopping=trials.stop)
    model, _ = train_seed(prepared, trials.settings.seed, None)
    found = evaluate(prepared, model, prepared.splits["dev"]).predictions
    return dict(zip(trials.dataset.held_out(fold), found, strict=True))


def hold_out(dataset: Dataset, fold: int) -> Dataset:
    """Returns the training examples without a fold as train, and its different texts, each once, as dev."""
    train = dataset.splits["train"]
    rest = tuple(example for example, of in zip(train, dataset.folds, strict=True) if of != fold)
    return replace(dataset, splits={"train": rest, "dev": tuple(train[i] for i in dataset.held_out(fold))})
