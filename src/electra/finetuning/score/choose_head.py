"""Chooses between the linear heads and fine-tuning (`--head auto`), on the training examples alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from electra.exchange.load import Loaded
from electra.finetuning.heads import load_head
from electra.finetuning.heads.counts import SCALES, CountedHead, frozen_states
from electra.finetuning.heads.frozen import read_rows
from electra.finetuning.linear_fit import Problem, choose, out_of_fold
from electra.finetuning.score import baselines
from electra.finetuning.score.evaluate import evaluate
from electra.finetuning.settings import AUTO, Settings
from electra.finetuning.train.dataset import FOLDS, Dataset
from electra.finetuning.train.one_seed import build_model, train_seed
from electra.finetuning.train.prepared import COUNTS, FROZEN, TUNED_COUNTS, encoder_pooling, prepare, resolve
from electra.foundation.arrays import Ints
from electra.foundation.errors import Interrupted
from electra.foundation.progress import Say, doing, quiet
from electra.foundation.terminal_text import when

FEW = {"classifier": 2_000, "tagger": 25_000}  # labelled texts or words: with more there is no choice
VERY_FEW = {"classifier": 300, "tagger": 3_000}  # with more, a network is tried on one fold alone
NARROW = 384  # the width of an encoder above which it is, too
FIRST = FOLDS // 2  # the fold on which networks are tried first
TRAINED = {
    TUNED_COUNTS: "counts, fine-tuned",
    AUTO: "fine-tuned",
}  # the heads that train the network, from the cheapest, with their titles
TITLES = {FROZEN: FROZEN, COUNTS: COUNTS, **TRAINED}
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

    def difference(self, head: str, other: str) -> tuple[float, float]:
        """Returns by how much a head is better on the examples that both answered, and the error of that."""
        both = sorted(self.answers[head].keys() & self.answers[other].keys())
        return jackknife(lambda some: self.score(head, some) - self.score(other, some), both)

    def describe(self, head: str) -> str:
        """Returns a head with its score and standard error."""
        rows = sorted(self.answers[head])
        value, error = jackknife(lambda some: self.score(head, some), rows)
        shown = "undefined" if math.isnan(value) else f"{value:.3f} +- {error:.3f}"
        is_part = len(rows) < len(self.dataset.different_texts)
        return f"{TITLES[head]} {shown}{when(is_part, f' (on {len(rows)} of them)')}"

    def chance(self, head: str) -> tuple[float, float]:
        """Returns the score of the most frequent answer on a head's examples, and what may be chance."""
        task, train, rows = self.dataset.task, self.dataset.splits["train"], sorted(self.answers[head])
        majority = baselines.fit(baselines.MAJORITY, task, train)
        examples = [train[i] for i in rows]
        value = task.score(majority(examples), examples)[task.metrics[0]].value if majority else None
        if value is None:
            return math.nan, -math.inf
        error = math.sqrt(value * (1 - value) / len(rows)) if task.metrics[0] == "accuracy" else 0.0
        return value, min(1.0, value + 2 * error)


def jackknife(statistic: Callable[[Ints], float], rows: Sequence[int]) -> tuple[float, float]:
    """Returns a statistic of some rows, and its standard error: how it varies without a part of them."""
    order = np.random.default_rng(0).permutation(rows)
    parts = np.array_split(order, min(PARTS, len(rows)))
    found = np.array([statistic(np.setdiff1d(order, part)) for part in parts if len(part) < len(rows)])
    found = found[np.isfinite(found)]
    error = math.sqrt((len(found) - 1) * found.var()) if len(found) > 1 else 0.0
    return statistic(np.sort(order)), error


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
    trials = Trials(settings, dataset, loaded, stop)
    trials.answers.update(linear_answers(trials))
    metric, count = dataset.task.metrics[0], len(dataset.different_texts)
    said = f"{metric} on {count:,} held-out training texts (+- standard error)"
    listed = [trials.describe(head) for head in (FROZEN, COUNTS)]
    say(f"{said}: {', '.join(listed)}")
    best = FROZEN
    for head in (COUNTS, *TRAINED):
        if head in TRAINED:
            trials.answers[head] = {}
            for fold in folds_to_train(dataset, loaded):
                if stop():
                    raise Interrupted(settings.out)
                trials.answers[head] |= try_head(head, trials, fold)
            listed.append(trials.describe(head))
        gain, error = trials.difference(head, best)
        best = head if gain > error or math.isnan(trials.score(best, sorted(trials.answers[best]))) else best
    note = f"{said}: {', '.join(listed)}"
    limits = {head: trials.chance(head) for head in trials.answers}
    if not any(trials.score(h, sorted(trials.answers[h])) > limit for h, (_, limit) in limits.items()):
        majority, limit = limits[best := FROZEN]
        shown = f"; the most frequent answer has {majority:.3f}, and up to {limit:.3f} may be chance"
        note += when(not math.isnan(majority), shown) + ": too few labels for this task, or nothing to learn"
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


def folds_to_train(dataset: Dataset, loaded: Loaded) -> list[int]:
    """Returns the folds that a network is tried on: all where that is cheap, else one."""
    is_cheap = has_at_most(dataset, VERY_FEW) and loaded.config.hidden_size <= NARROW
    return [FIRST, *(fold for fold in range(FOLDS) if is_cheap and fold != FIRST)]


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
    rows = read_rows(head.states, model.encoder, data, np.arange(len(windows)))
    head.learn(data)
    of_frozen = [frozen_states(head, rows)], ((1.0,),)
    answers = {}
    for name, (blocks, scales) in {
        FROZEN: of_frozen,
        COUNTS: ([rows.states, head.count(windows)], SCALES),
    }.items():
        doing(f"choosing the head: {name}")
        problem = Problem.of(task, blocks, rows.targets)
        choice = choose(problem, rows.folds, scales)
        outputs = rows.by_window(out_of_fold(problem, rows.folds, choice), windows)
        found = task.predict(outputs, windows, dataset.splits["train"])
        answers[name] = {i: found[i] for i in dataset.different_texts}
    return answers


def hold_out(dataset: Dataset, fold: int = FIRST) -> Dataset:
    """Returns the training examples as train and dev: of a fold's different texts each once.

    Examples with equal texts (`text_key`) are on one side.
    """
    train = dataset.splits["train"]
    rest = tuple(example for example, of in zip(train, dataset.folds, strict=True) if of != fold)
    return replace(dataset, splits={"train": rest, "dev": tuple(train[i] for i in held_out(dataset, fold))})


def held_out(dataset: Dataset, fold: int) -> list[int]:
    """Returns the indices of the different texts of a fold."""
    return [i for i in sorted(dataset.different_texts) if dataset.folds[i] == fold]


def try_head(head: str, trials: Trials, fold: int) -> dict[int, Any]:
    """Returns what a head that is trained on the other folds predicts for the different texts of a fold."""
    doing(f"choosing the head on held-out training examples: {TITLES[head]}")
    part, loaded = hold_out(trials.dataset, fold), trials.loaded
    resolved = resolve(replace(trials.settings, head=head), part, loaded.config, encoder_pooling(loaded))
    prepared = replace(prepare(resolved, part, loaded)[0], stopping=trials.stop)
    model, _ = train_seed(prepared, trials.settings.seed, None)
    found = evaluate(prepared, model, prepared.splits["dev"]).predictions
    return dict(zip(held_out(trials.dataset, fold), found, strict=True))
