"""Searches for the learning rate, epochs and layer-wise decay on a part of the training data.

The search runs before the seeds are trained, and does not use dev or test. It is a hill climb: it starts at
the defaults and tries the neighbours of the best trial so far, which change one setting by one step (twice or
half the learning rate, twice or half the epochs, 0.1 more or less decay), until no neighbour is better or the
budget is spent. The order of trials does not depend on the budget or the machine; a time budget only limits
their number.

Each trial depends on the best one before it. Processes that share a folder therefore train the next trial
and, at the same time, those that would follow if it did not become the best. The record contains only the
trials that a single process would run, in the same order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from electra.artifacts.finetuning import FinetuningFolder
from electra.finetuning.labelled.splits import split_by_hash
from electra.finetuning.runner.dataset import Dataset
from electra.finetuning.runner.prepared import Finetuning, evaluate
from electra.finetuning.runner.train_seed import Stopped, train_seed
from electra.finetuning.settings import Settings, search_budget, settings_to_search
from electra.finetuning.tasks.parts.task import file_of
from electra.foundation import durable
from electra.foundation.errors import ConfigError, DataError, Interrupted, RunFailed, RunFolderError
from electra.foundation.jobs import SharedWork
from electra.foundation.leases import Leases
from electra.foundation.progress import Say, quiet
from electra.foundation.signals import Stop
from electra.foundation.visible import plural

DEV_SHARE = 0.2  # the fraction of the training data that trials are scored on
MAX_DEV = 2000  # the maximum number of examples that trials are scored on
MIN_EXAMPLES = 20  # training examples that a search needs
MIN_TRIALS = 3  # trials that must fit a time budget
TIMING_STEPS = 20  # steps after which the duration of the first trial is estimated
MAX_FACTOR = 16.0  # the maximum factor between a value and its default
TRIAL_PREFIX = "trial "  # a trial's lease has a name such as "trial 0.001-3-0.9"
LAYER_DECAY_RANGE = 0.5, 1.0
TRIALS = "trainings"  # the key of the trials in search.json; older folders have it too

Values = dict[str, float]  # the values of the searched settings, by name
Prepare = Callable[[Dataset], Finetuning]  # tokenises other examples for the same settings


def search(  # noqa: PLR0917
    settings: Settings,
    tuning: Finetuning,
    dataset: Dataset,
    folder: FinetuningFolder,
    prepare: Prepare,
    shared: SharedWork,
    lock_search: Callable[[], AbstractContextManager[None]],
) -> dict[str, Any]:
    """Runs a search, or resumes the one in the folder.

    Args:
        settings: as the user passed them.
        tuning: the fine-tuning, with defaults for the settings that are searched.
        dataset: the data; only its training split is used.
        folder: the folder of the fine-tuning, for search.json and checkpoints.
        prepare: tokenises other examples for the same settings.
        shared: divides the trials among the processes that share the folder.
        lock_search: returns a context in which no other process writes search.json.

    Returns:
        The contents of search.json, whose `chosen` are the settings of the best trial.

    Raises:
        ConfigError: the time budget is too small.
        DataError: there are too few examples, or they have no answers.
        RunFolderError: other processes are searching with another budget, or search.json is damaged.
        CheckpointError: all checkpoints of a trial are damaged.
        Interrupted: a stop was requested.
        HeldElsewhere: other processes run all trials that are left, and `shared` does not wait for them.
    """
    budget = str(settings.search)
    with lock_search():
        previous_record, has_seeds = folder.read_search(), bool(folder.seeds()) or folder.seed_in_progress()
        if previous_record.get("chosen") and (has_seeds or previous_record["budget"] == budget):
            tuning.say(f"search: {describe_values(previous_record['chosen'])}, from the finished search")
            return previous_record  # another budget extends the search, unless seeds were trained after it
        if previous_record and previous_record["budget"] != budget:
            require_same_budget(folder, previous_record["budget"], budget, shared.leases)
        trials: list[dict[str, Any]] = previous_record.get(TRIALS, [])
        durable.commit_json(folder.search, {"budget": budget, TRIALS: trials})
    search_dataset = split_for_search(dataset)
    trial_tuning = replace(prepare(search_dataset), say=quiet)
    setting_names = settings_to_search(settings)
    start_values: Values = {name: getattr(tuning.settings, name) for name in setting_names}
    sizes = {name: len(search_dataset.splits[name]) for name in ("train", "dev")}
    metric = tuning.task.metrics[0]
    record: dict[str, Any] = {
        "budget": budget,
        "metric": metric,
        "trained_on": sizes["train"],
        "scored_on": sizes["dev"],
        "settings": list(setting_names),
        TRIALS: trials,
    }
    dev_note = f"{sizes['dev']:,} of the {sum(sizes.values()):,} training examples"
    tuning.say(f"search, {budget}: {list_names(setting_names)}, scored on {dev_note}")

    def complete_trial(values: Values, is_first: bool, *, say: Say, stop: Stop) -> None:
        timed_tuning = replace(trial_tuning, stopping=stop)
        if is_first:  # the others report only their results
            timed_tuning = replace(timed_tuning, say=lambda line: say(f"first trial, {line}"))
            timed_tuning = with_budget_check(timed_tuning, budget)
        checkpoints = folder.trial(trial_name(values))
        try:
            result_record = train_and_score(timed_tuning.with_settings(**values), values, checkpoints)
        except Stopped:
            raise Interrupted(folder.path) from None
        durable.commit_json(result_of(checkpoints), result_record)
        if checkpoints.exists():
            durable.remove_directory(checkpoints)

    def is_done(piece: str) -> bool:
        name, search_trials = piece.removeprefix(TRIAL_PREFIX), folder.read_search()[TRIALS]
        return any(trial_name(result_record["values"]) == name for result_record in search_trials) or (
            result_of(folder.trial(name)).is_file()
        )

    while queue := list(upcoming(trials, start_values, budget, trial_tuning)):
        result_file = result_of(folder.trial(trial_name(queue[0])))
        with lock_search():
            recorded_trials = folder.read_search()[TRIALS]
            if len(recorded_trials) == len(trials) and result_file.is_file():
                recorded_trials.append(durable.read_json(result_file, RunFolderError))
                durable.commit_json(folder.search, record | {TRIALS: recorded_trials})
                result_file.unlink()
        for result_record in recorded_trials[len(trials) :]:
            trials.append(result_record)
            tuning.say(f"search, trial {len(trials)}: {describe_last(trials, metric)}")
        if trials and trials[-1]["values"] == queue[0]:
            continue
        pieces = {
            f"{TRIAL_PREFIX}{trial_name(values)}": partial(complete_trial, values, not trials)
            for values in queue
        }
        next(shared.run(pieces, is_done), None)
    best_values = best_trial(trials)["values"]
    tuning.say(f"search: {describe_values(best_values)}, the best of {plural(len(trials), 'trial')}")
    record |= {"chosen": best_values, "seconds": round(sum(trial["seconds"] for trial in trials), 3)}
    with lock_search():
        durable.commit_json(folder.search, record)
        remove_trials(folder, shared.leases)
    return record


def split_for_search(dataset: Dataset) -> Dataset:
    """Splits the training examples into a training and a dev set; the task keeps the labels of all examples.

    Raises:
        DataError: there are too few examples, or they have no answers.
    """
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
    trials: Sequence[Mapping[str, Any]], start: Values, budget: str, tuning: Finetuning
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
        steps = tuning.with_settings(**values).total_steps
        if (len(trials) < amount) if unit == "trials" else (seconds + seconds_per_step * steps <= amount):
            return values
    return None


def upcoming(
    trials: Sequence[Mapping[str, Any]], start: Values, budget: str, tuning: Finetuning
) -> Iterator[Values]:
    """Yields the values of the next trial, then of those that would follow if none becomes the best."""
    trials = list(trials)
    is_timed = search_budget(budget)[1] == "seconds"
    while (values := next_values(trials, start, budget, tuning)) is not None:
        yield values
        if is_timed and not trials:
            return  # the number of trials depends on the time of the first
        trials.append({"values": values, "score": None, "loss": None, "steps": 1, "seconds": 0.0})


def trial_name(values: Values) -> str:
    """Returns the name of the trial with these values."""
    return "-".join(f"{value:g}" for value in values.values())


def result_of(checkpoints: Path) -> Path:
    """Returns the file that holds the result of a trial until search.json contains it."""
    return checkpoints.with_name(f"{checkpoints.name}.json")


def require_same_budget(folder: FinetuningFolder, old: str, new: str, leases: Leases) -> None:
    """Raises RunFolderError if other processes are searching with another budget."""
    for name, holder in leases.held().items():
        problem = f"{holder} is working here ({name}) with search {old}, not {new}"
        fix = f"Use the same `search`, or wait; if that process has died, remove {leases.folder}"
        raise RunFolderError(problem, where=folder.path, fix=fix)


def remove_trials(folder: FinetuningFolder, leases: Leases) -> None:
    """Removes the files of trials that are not part of the search, unless a process is running them."""
    held = leases.held()
    for path in folder.trial("").parent.glob(f"{folder.trial('').name}*"):
        if path.is_dir() and TRIAL_PREFIX + path.name.removeprefix(folder.trial("").name) not in held:
            durable.remove_directory(path)
        elif path.is_file():
            path.unlink(missing_ok=True)


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


def train_and_score(tuning: Finetuning, values: Values, checkpoints: Path) -> dict[str, Any]:
    """Trains with these values and the first seed, and returns a record of the trial.

    If the training fails, the score and the loss are None, and `failed` says why.

    Raises:
        Stopped: a stop was requested; the state is saved in `checkpoints`.
        ConfigError: the time budget is too small (see `with_budget_check`).
        CheckpointError: all checkpoints are damaged.
    """
    start = time.monotonic()
    try:
        model, state = train_seed(tuning, tuning.settings.seed, checkpoints)
        start = time.monotonic() - state.seconds  # count the time before an interruption
        evaluation = evaluate(tuning, model, tuning.splits["dev"])
        score = evaluation.scores[tuning.task.metrics[0]].value
        outcome: dict[str, Any] = {"score": score, "loss": evaluation.loss}
    except RunFailed as error:
        outcome = {"score": None, "loss": None, "failed": error.what}
    seconds = round(time.monotonic() - start, 3)
    return {"values": values, "steps": tuning.total_steps, "seconds": seconds, **outcome}


def with_budget_check(trial: Finetuning, budget: str) -> Finetuning:
    """Returns the trial; after `TIMING_STEPS`, its `stopping` raises ConfigError unless `MIN_TRIALS` fit.

    A budget that is a number of trials is not checked.
    """
    amount, unit = search_budget(budget)
    start, steps = time.monotonic(), 0

    def stopping() -> bool:
        nonlocal steps
        steps += 1
        trial_seconds = (time.monotonic() - start) / steps * trial.total_steps
        if unit == "seconds" and steps == TIMING_STEPS and trial_seconds * MIN_TRIALS > amount:
            problem = (
                f"a trial takes about {duration(trial_seconds)}, too long to compare several in {budget}"
            )
            at_least = duration(MIN_TRIALS * 2 * trial_seconds)
            fix = f"Raise `search` to {at_least} or more, set it to a number of trials, or set `limit_train`"
            raise ConfigError(problem, key="search", fix=fix)
        return trial.stopping()

    return replace(trial, stopping=stopping)


def duration(seconds: float) -> str:
    """Formats a time in the format of `search`, rounded up: 90s, 5m, 2h."""
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds > 1.5 * size:
            return f"{-(-seconds // size):.0f}{unit}"
    return f"{-(-seconds // 1):.0f}s"


def list_names(names: Sequence[str]) -> str:
    """Lists names of settings: "learning rate, epochs and layer decay"."""
    words = [name.replace("_", " ") for name in names]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def describe_values(values: Mapping[str, float]) -> str:
    """Lists settings with their values: "learning rate 0.001, epochs 3"."""
    return ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in values.items())


def describe_last(trials: Sequence[Mapping[str, Any]], metric: str) -> str:
    """Returns a line on the last trial: its settings, its score, and whether it is the best so far."""
    trial = trials[-1]
    score = "no score" if trial["score"] is None else f"{metric} {trial['score']:.4f}"
    best_note = ", the best so far" if len(trials) > 1 and best_trial(trials) is trial else ""
    failure = f" ({trial['failed']})" if "failed" in trial else ""
    return f"{describe_values(trial['values'])}: {score}{failure}{best_note}"
