"""Searches for the learning rate, epochs and layer-wise decay on a part of the training data.

The search runs before the seeds are trained, and does not use dev or test. It is a hill climb: it starts at
the defaults and tries the neighbours of the best trial so far, which change one setting by one step (twice or
half the learning rate, twice or half the epochs, 0.1 more or less decay), until no neighbour is better or the
budget is spent. The order of trials does not depend on the budget or the machine; a time budget only limits
their number.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from electra.artifacts.finetuning import FinetuningFolder
from electra.finetuning.labelled.splits import split_by_hash
from electra.finetuning.runner.dataset import Dataset
from electra.finetuning.runner.prepared import Finetuning, evaluate, prepare
from electra.finetuning.runner.train_seed import train_seed
from electra.finetuning.settings import Settings, search_budget, settings_to_search
from electra.finetuning.tasks.parts.task import file_of
from electra.foundation import durable
from electra.foundation.errors import DataError, RunFailed
from electra.foundation.progress import Say, quiet
from electra.foundation.signals import Stop
from electra.foundation.terminal_text import plural

DEV_SHARE = 0.2  # the fraction of the training data that trials are scored on
MAX_DEV = 2000  # the maximum number of examples that trials are scored on
MIN_EXAMPLES = 20  # training examples that a search needs
MAX_FACTOR = 16.0  # the maximum factor between a value and its default
LAYER_DECAY_RANGE = 0.5, 1.0
TRIALS = "trainings"  # the key of the trials in search.json; older folders have it too

Values = dict[str, float]  # the values of the searched settings, by name


def search(
    settings: Settings,
    prepared: Finetuning,
    dataset: Dataset,
    folder: FinetuningFolder,
    *,
    say: Say,
    stop: Stop,
) -> None:
    """Runs a search, or resumes the one in the folder, and writes search.json with the `chosen` values."""
    budget, metric = str(settings.search), prepared.task.metrics[0]
    trials: list[dict[str, Any]] = folder.read_search().get(TRIALS, [])
    search_dataset = split_for_search(dataset)
    trial_setup = replace(prepare(prepared.settings, search_dataset, prepared.start)[0], stopping=stop)
    names = settings_to_search(settings)
    start_values: Values = {name: getattr(prepared.settings, name) for name in names}
    sizes = {name: len(search_dataset.splits[name]) for name in ("train", "dev")}
    record: dict[str, Any] = {
        "budget": budget,
        "metric": metric,
        "trained_on": sizes["train"],
        "scored_on": sizes["dev"],
        "settings": list(names),
        TRIALS: trials,
    }
    durable.commit_json(folder.search, record)
    dev_note = f"{sizes['dev']:,} of the {sum(sizes.values()):,} training examples"
    say(f"search, {budget}: {', '.join(names).replace('_', ' ')}, scored on {dev_note}")
    while (values := next_values(trials, start_values, budget, trial_setup)) is not None:
        checkpoints = folder.trial("-".join(f"{value:g}" for value in values.values()))
        # The first trial reports its progress, so that its duration is known; the others only their results.
        trial = replace(trial_setup, say=quiet if trials else lambda line: say(f"first trial, {line}"))
        trials.append(train_and_score(trial.with_settings(**values), values, checkpoints))
        durable.commit_json(folder.search, record)
        if checkpoints.exists():
            durable.remove_directory(checkpoints)
        score = trials[-1]["score"]
        outcome = trials[-1].get("failed", "no score") if score is None else f"{metric} {score:.4f}"
        say(f"search, trial {len(trials)}: {describe_values(values)}: {outcome}")
    chosen = best_trial(trials)["values"]
    say(f"search: {describe_values(chosen)}, the best of {plural(len(trials), 'trial')}")
    seconds = round(sum(trial["seconds"] for trial in trials), 3)
    durable.commit_json(folder.search, record | {"chosen": chosen, "seconds": seconds})
    for leftover in folder.trial("").parent.glob(f"{folder.trial('').name}*"):
        if leftover.is_dir():
            durable.remove_directory(leftover)


def split_for_search(dataset: Dataset) -> Dataset:
    """Splits the training examples into train and dev; the task keeps the labels of all examples."""
    examples = dataset.splits["train"]
    if len(examples) < MIN_EXAMPLES:
        problem = f"{plural(len(examples), 'training example')}: too few for a search"
        raise DataError(problem, where=file_of(examples), fix="Omit `search`")
    if any(example.gold is None for example in examples):
        problem = "a search needs labelled examples"
        raise DataError(problem, where=file_of(examples), fix="Omit `search`")
    share = min(DEV_SHARE, MAX_DEV / len(examples))
    train, dev = split_by_hash(examples, dataset.task.hashed_texts, file_of(examples), share)
    return replace(dataset, splits={"train": train, "dev": dev}, notes=())


def next_values(
    trials: Sequence[Mapping[str, Any]], start: Values, budget: str, prepared: Finetuning
) -> Values | None:
    """Returns the values of the next trial; None if the budget is spent or every neighbour was tried.

    The first trial has the values `start`; the others are untried neighbours of the best one that fit the
    budget.
    """
    if not trials:
        return start
    amount, unit = search_budget(budget)
    tried_values = [trial["values"] for trial in trials]
    seconds = sum(trial["seconds"] for trial in trials)
    seconds_per_step = seconds / sum(trial["steps"] for trial in trials)
    for values in neighbours(best_trial(trials)["values"], start):
        if values in tried_values:
            continue
        steps = prepared.with_settings(**values).total_steps
        if (len(trials) < amount) if unit == "trials" else (seconds + seconds_per_step * steps <= amount):
            return values
    return None


def neighbours(values: Values, start: Values) -> Iterator[Values]:
    """Yields values that differ from `values` by one step in one setting, the most important setting first.

    `start` are the defaults, which limit how far a value may move.
    """
    for name in ("learning_rate", "epochs"):
        for factor in (2.0, 0.5):
            if (
                name in values
                and 1 / MAX_FACTOR <= (value := values[name] * factor) / start[name] <= MAX_FACTOR
            ):
                yield {**values, name: value}
    for step in (0.1, -0.1):
        name, (lowest, highest) = "layer_decay", LAYER_DECAY_RANGE
        if name in values and lowest <= (value := round(values[name] + step, 6)) <= highest:
            yield {**values, name: value}


def best_trial(trials: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Returns the trial with the highest score; ties go to the lowest loss, then to the earliest trial."""

    def rank(trial: Mapping[str, Any]) -> tuple[bool, float, float]:
        has_score = trial["score"] is not None
        return has_score, trial["score"] if has_score else 0.0, -(trial["loss"] or 0.0)

    return max(trials, key=rank)


def train_and_score(prepared: Finetuning, values: Values, checkpoints: Path) -> dict[str, Any]:
    """Trains with these values and the first seed, and returns a record of the trial.

    If the training fails, the score and the loss are None, and `failed` says why.
    """
    start = time.monotonic()
    try:
        model, state = train_seed(prepared, prepared.settings.seed, checkpoints)
        start = time.monotonic() - state.seconds  # count the time before an interruption
        evaluation = evaluate(prepared, model, prepared.splits["dev"])
        score = evaluation.scores[prepared.task.metrics[0]].value
        outcome: dict[str, Any] = {"score": score, "loss": evaluation.loss}
    except RunFailed as error:
        outcome = {"score": None, "loss": None, "failed": error.what}
    seconds = round(time.monotonic() - start, 3)
    return {"values": values, "steps": prepared.total_steps, "seconds": seconds, **outcome}


def describe_values(values: Mapping[str, float]) -> str:
    """Lists settings with their values: "learning rate 0.001, epochs 3"."""
    return ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in values.items())
