"""Learning rate, epochs and layer-wise decay chosen on a part of the training data, before the seeds. Dev and
test are not looked at.

The search climbs: it starts at the defaults, and tries the neighbours of the best training so far, one step
in one setting each (twice or half the rate, twice or half the epochs, a tenth more or less decay), until no
neighbour is better or the budget is spent. So a search of n trainings is the beginning of one of more, and
the same wherever it runs; a budget of time only decides how many trainings there are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from electra.artifacts.tuning import TuningFolder
from electra.finetuning.labelled.splits import split_by_hash
from electra.finetuning.runner.counted import counted
from electra.finetuning.runner.dataset import Dataset
from electra.finetuning.runner.one_seed import train_seed
from electra.finetuning.runner.tuning import Tuning, evaluate
from electra.finetuning.settings import Settings, search_budget, searched
from electra.finetuning.tasks.parts.task import file_of
from electra.foundation import durable
from electra.foundation.errors import ConfigError, DataError, RunFailed
from electra.foundation.progress import quiet

SHARE = 0.2  # of the training data, on which the search scores,
MOST = 2000  # of them at most
FEWEST = 20  # training examples
COMPARED = 3  # trainings at least that a budget of time must hold
MEASURED = 20  # steps after which the first training knows how long it takes
FARTHEST = 16.0  # times the default, or a part of it
DECAYS = (0.5, 1.0)

Values = dict[str, float]  # of the settings that are searched
Prepare = Callable[[Dataset], Tuning]  # the same settings for other examples


def search(
    settings: Settings, tuning: Tuning, dataset: Dataset, folder: TuningFolder, prepare: Prepare
) -> dict[str, Any]:
    """The record of the search, whose `chosen` is the best training's settings; it resumes what lies there.

    Raises ConfigError where a budget of time is too small, DataError where there are too few examples, and
    Stopped when asked to stop.
    """
    assert settings.search is not None
    record, begun = folder.read_search(), bool(folder.seeds()) or folder.seed_in_progress()
    if record.get("chosen") and (begun or record["budget"] == settings.search):
        tuning.say(f"search: {described(record['chosen'])}, chosen before")
        return record  # another budget goes on, unless seeds rest on what was chosen
    part = parted(dataset)
    trial = replace(prepare(part), say=quiet)
    open_ = searched(settings)
    start: Values = {name: getattr(tuning.settings, name) for name in open_}
    sizes = {name: len(part.splits[name]) for name in ("train", "dev")}
    trials: list[dict[str, Any]] = record.get("trainings", [])
    metric = tuning.task.metrics[0]
    found: dict[str, Any] = {
        "budget": settings.search,
        "metric": metric,
        "trained_on": sizes["train"],
        "scored_on": sizes["dev"],
        "settings": list(open_),
        "trainings": trials,
    }
    held = f"{sizes['dev']:,} of the {sum(sizes.values()):,} training examples"
    tuning.say(f"search, {settings.search}: {told(open_)}, scored on {held}")
    while (values := next_values(trials, start, str(settings.search), trial)) is not None:
        limited = trial if trials else with_guard(trial, tuning, str(settings.search))
        checkpoints = folder.trial("-".join(f"{value:g}" for value in values.values()))
        trials.append(one_training(limited.with_settings(**values), values, checkpoints))
        durable.commit_json(folder.search, found)
        if checkpoints.exists():
            durable.remove_directory(checkpoints)
        tuning.say(f"search {len(trials)}: {line(trials, metric)}")
    chosen = best(trials)["values"]
    tuning.say(f"search: {described(chosen)}, the best of {counted(len(trials), 'training')}")
    found |= {"chosen": chosen, "seconds": round(sum(one["seconds"] for one in trials), 3)}
    durable.commit_json(folder.search, found)
    return found


def parted(dataset: Dataset) -> Dataset:
    """The training examples, as a training and a dev set of their own. The labels stay those of all."""
    examples = dataset.splits["train"]
    if len(examples) < FEWEST:
        what = f"{counted(len(examples), 'training example')} are too few to search with"
        raise DataError(what, where=file_of(examples), fix="Leave out `search`")
    if any(example.gold is None for example in examples):
        what = "these texts have no answers, and so no score to search by"
        raise DataError(what, where=file_of(examples), fix="Leave out `search`")
    train, dev = split_by_hash(
        examples, dataset.task.side, file_of(examples), min(SHARE, MOST / len(examples))
    )
    return replace(dataset, splits={"train": train, "dev": dev}, notes=())


def next_values(
    trials: Sequence[Mapping[str, Any]], start: Values, budget: str, tuning: Tuning
) -> Values | None:
    """What to try next: the first neighbour of the best so far that is new and still fits the budget."""
    if not trials:
        return start
    amount, unit = search_budget(budget)
    tried = [one["values"] for one in trials]
    spent = sum(one["seconds"] for one in trials)
    pace = spent / sum(one["steps"] for one in trials)
    for values in neighbours(best(trials)["values"], start):
        if values in tried:
            continue
        steps = tuning.with_settings(**values).total_steps
        if (len(trials) < amount) if unit == "trainings" else (spent + pace * steps <= amount):
            return values
    return None


def neighbours(values: Values, start: Values) -> Iterator[Values]:
    """One step from `values` in one setting, the most telling first."""
    for name in ("learning_rate", "epochs"):
        for factor in (2.0, 0.5):
            if name in values and 1 / FARTHEST <= (moved := values[name] * factor) / start[name] <= FARTHEST:
                yield {**values, name: moved}
    for step in (0.1, -0.1):
        name = "layer_decay"
        if name in values and DECAYS[0] <= (moved := round(values[name] + step, 6)) <= DECAYS[1]:
            yield {**values, name: moved}


def best(trials: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """By the score, of equal ones by the loss; the earlier of two alike."""

    def rank(one: Mapping[str, Any]) -> tuple[bool, float, float]:
        known = one["score"] is not None
        return known, one["score"] if known else 0.0, -(one["loss"] or 0.0)

    return max(trials, key=rank)


def one_training(tuning: Tuning, values: Values, checkpoints: Path) -> dict[str, Any]:
    """Train with the first seed and score; without a score where the training failed."""
    began, told = time.monotonic(), {"values": values, "steps": tuning.total_steps}
    try:
        model, state = train_seed(tuning, tuning.settings.seed, checkpoints)
        began = time.monotonic() - state.seconds  # which may have been interrupted
        scored = evaluate(tuning, model, tuning.splits["dev"])
        found: dict[str, Any] = {"score": scored.scores[tuning.task.metrics[0]].value, "loss": scored.loss}
    except RunFailed as error:
        found = {"score": None, "loss": None, "failed": error.what}
    return {**told, "seconds": round(time.monotonic() - began, 3), **found}


def with_guard(trial: Tuning, tuning: Tuning, budget: str) -> Tuning:
    """The tuning, which notices after a few steps that the budget does not hold several trainings."""
    amount, unit = search_budget(budget)
    began, steps = time.monotonic(), 0

    def stopping() -> bool:
        nonlocal steps
        steps += 1
        needed = (time.monotonic() - began) / steps * trial.total_steps
        if unit == "seconds" and steps == MEASURED and needed * COMPARED > amount:
            what = f"one training takes about {duration(needed)}, too long to compare several in {budget}"
            fix = f"Use {duration(COMPARED * 2 * needed)} or more, a number of trainings, or `limit_train`"
            raise ConfigError(what, key="search", fix=fix)
        return tuning.stopping()

    return replace(trial, stopping=stopping)


def duration(seconds: float) -> str:
    """As `search` takes it, rounded up."""
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds > 1.5 * size:
            return f"{-(-seconds // size):.0f}{unit}"
    return f"{-(-seconds // 1):.0f}s"


def told(names: Sequence[str]) -> str:
    words = [name.replace("_", " ") for name in names]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def described(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in values.items())


def line(trials: Sequence[Mapping[str, Any]], metric: str) -> str:
    """What the last training came to."""
    one = trials[-1]
    score = "no score" if one["score"] is None else f"{metric} {one['score']:.4f}"
    mark = ", the best so far" if len(trials) > 1 and best(trials) is one else ""
    why = f" ({one['failed']})" if "failed" in one else ""
    return f"{described(one['values'])}: {score}{why}{mark}"
