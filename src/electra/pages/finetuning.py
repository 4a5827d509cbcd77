"""Writes the page of a fine-tuning run: the verdict, scores over seeds, errors, loss curves and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from electra.artifacts.finetuning import FinetuningFolder, baseline_results, chance_note
from electra.foundation import durable
from electra.foundation.errors import RunFolderError
from electra.pages import dev_set
from electra.pages.figures import Figure, Series
from electra.pages.glossary import clip_interval
from electra.pages.page import Block, Facts, Figures, Kind, Number, Page, Section, Table, Text, publish

SPLIT_NAMES = {"eval": "dev"}
BY_SEED = "_by_seed"  # the suffix of keys whose values are one score per seed
PERCENT_METRICS = ("accuracy", "f1", "macro_f1", "exact_match", "micro_f1")


def write_page(path: Path) -> Path:
    """Writes the page of a fine-tuning run, finished or not, and returns its path.

    Raises RunFolderError if the folder is not one, or a file in it is damaged.
    """
    folder = FinetuningFolder.open(path)
    record = folder.record
    results = folder.read_results() if folder.results.is_file() else None
    seeds = {i: read_seed(seed.results) for i, seed in folder.seeds()}
    search_record = folder.read_search()
    page = Page(
        f"{record.get('task', 'fine-tuning')}: {folder.path.resolve().name}",
        [
            Section("Scores", scores(results) if results else unfinished(seeds)),
            *(dev_set.sections(folder.read_dev(), results.get("labels", {})) if results else ()),
            Section("Training", [losses(seeds)], "Each point is the mean loss since the previous point."),
            Section("Search", search(search_record), search_lead(search_record)) if search_record else None,
            Section("Settings", [settings(record, results or {})]),
        ],
        kicker="electra finetune",
        summary=summary(record, results),
        opening=[headline(results) if results else None],
    )
    return publish(page, folder.page, folder.path)


def read_seed(path: Path) -> dict[str, Any]:
    """Reads the results of a seed. Raises RunFolderError if they are missing or damaged."""
    results = durable.read_json(path, RunFolderError)
    if not isinstance(results, dict):
        raise RunFolderError("not the results of a seed", where=path, fix="Rerun electra finetune")
    return results


def summary(record: Mapping[str, Any], results: Mapping[str, Any] | None) -> str:
    """Returns the page's summary: the verdict, the model that was fine-tuned, and a note if unfinished."""
    init = (
        "random initialization in the shape of " if record.get("settings", {}).get("init") == "random" else ""
    )
    unfinished = "" if results else " Not finished: rerun the command to resume."
    result = f"{verdict(results)} " if results and baseline_results(results) else ""
    return f"{result}Fine-tuned from {init}{record.get('model', 'a model')}.{unfinished}"


def headline(results: Mapping[str, Any]) -> Block:
    """Returns the primary metric, the best baseline, the sizes of the data and the time."""
    name = str(results.get("primary_metric"))
    count = len(results.get("seeds", ()))
    sd = results.get(f"eval_{name}_sd")
    spread = f"mean of {count} seeds, sd {sd:.3f}" if sd is not None else "one seed"
    kind: Kind = "percent" if name in PERCENT_METRICS else "score"
    items: list[tuple[object, ...]] = [
        (f"dev {name.replace('_', ' ')}", Number(results.get(f"eval_{name}"), kind), spread)
    ]
    if best := best_baseline(results):
        items.append((best[0], Number(best[1], kind), "best baseline"))
    for key, label in (("train_samples", "trained on"), ("eval_samples", "scored on")):
        items.append((label, Number(results.get(key)), "examples"))
    return Facts([*items, ("time", Number(results.get("seconds"), "seconds"))], large=True)


def scores(results: Mapping[str, Any]) -> list[Block | None]:
    """Returns the scores over seeds, with those of the baselines."""
    others = baseline_results(results)
    rows: list[tuple[object, ...]] = []
    for key, values in results.items():
        if key.endswith(BY_SEED):
            score_key = key.removesuffix(BY_SEED)
            split, _, metric = score_key.partition("_")
            if metric == "loss" and all(value is None for value in values):
                continue  # no held-out loss: the task's loss compares the rows of a training batch
            low, high = clip_interval(metric, *interval(values))
            mean_score = Number(results.get(score_key), "score", low, high)
            numbers = [
                mean_score,
                *(Number(results.get(f"{score_key}{suffix}"), "score") for suffix in ("_sd", "_median")),
            ]
            by_seed = ", ".join("undefined" if value is None else f"{value:.4f}" for value in values)
            baselines = (Number(other.get(score_key), "score") for other in others.values())
            name = (SPLIT_NAMES.get(split, split), metric.replace("_", " "))
            rows.append((*name, *numbers, *baselines, by_seed))
    ensemble = [
        (key.removeprefix("ensemble_").replace("eval_", "dev ").replace("_", " "), Number(value, "score"))
        for key, value in results.items()
        if key.startswith("ensemble_")
    ]
    return [
        Table(("split", "metric", "mean", "sd", "median", *others, "each seed"), rows),
        Text("Brackets: 95 % interval of the mean over seeds.", "quiet")
        if results.get("seeds", ())[1:]
        else None,
        Figures.of(comparison(results)) if others else None,
        Table(("ensemble of all seeds", ""), ensemble) if ensemble else None,
        *(Text(str(note), "quiet") for note in results.get("notes", ())),
    ]


def comparison(results: Mapping[str, Any]) -> Figure | None:
    """Plots the dev scores of the model and the baselines on the primary metric."""
    metric = str(results.get("primary_metric"))
    key = f"eval_{metric}"
    baseline_scores = {
        name: other[key] for name, other in baseline_results(results).items() if other.get(key) is not None
    }
    if results.get(key) is None or not baseline_scores:
        return None
    low, high = clip_interval(metric, *interval(results.get(f"{key}{BY_SEED}", ())))
    has_interval = low is not None
    ends = {"mean": results[key], "low": low, "high": high}
    model = Series.through("model", [("this model", ends)], "points")
    baselines = Series("baselines", list(baseline_scores), list(baseline_scores.values()), style="points")
    title = f"dev {metric.replace('_', ' ')}"
    note = "The line is the 95 % interval over seeds." if has_interval else "One seed: no interval."
    return Figure("comparison", title, note, [model, baselines], "categories", x=title)


def verdict(results: Mapping[str, Any]) -> str:
    """Returns a sentence that says whether the model beats the best baseline on dev."""
    model_score, best = results.get(f"eval_{results.get('primary_metric')}"), best_baseline(results)
    if best is None or model_score is None:
        return "The model cannot be compared with baselines: a score is undefined."
    name, baseline_score = best
    if model_score > baseline_score:
        difference = f"better than the best baseline, {name}, by {model_score - baseline_score:.3f}"
        return f"On dev, the model is {difference}{chance_note(results)}."
    return f"On dev, the model does not beat the best baseline, {name}{chance_note(results)}."


def best_baseline(results: Mapping[str, Any]) -> tuple[str, float] | None:
    """Returns the best baseline and its primary metric on dev; None if there is none."""
    key = f"eval_{results.get('primary_metric')}"
    baseline_scores = [
        (name, other[key]) for name, other in baseline_results(results).items() if other.get(key) is not None
    ]
    return max(baseline_scores, key=lambda entry: entry[1], default=None)


def search_lead(record: Mapping[str, Any]) -> str:
    """Returns the budget and the data of a hyperparameter search, in sentences."""
    sizes = f"{record['trained_on']:,} training examples, scored on the other {record['scored_on']:,}"
    return f"Budget: {record['budget']}. Trained on {sizes}. Dev and test were not used."


def search(record: Mapping[str, Any]) -> list[Block]:
    """Returns a table of the trials of a hyperparameter search, in order."""
    names, chosen_values, rows = record["settings"], record.get("chosen"), []
    for i, trial in enumerate(record["trainings"], 1):
        values = [f"{trial['values'][name]:g}" for name in names]
        outcome: object = trial.get("failed") or Number(trial["score"], "score")
        mark = "chosen" if trial["values"] == chosen_values else ""
        rows.append((str(i), *values, outcome, Number(trial["seconds"], "seconds"), mark))
    columns = (
        "",
        *(name.replace("_", " ") for name in names),
        record["metric"].replace("_", " "),
        "time",
        "",
    )
    unfinished = [] if chosen_values else [Text("Not finished: rerun the command to resume.", "quiet")]
    return [Table(columns, rows), *unfinished]


def interval(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Returns the 95 % interval of the mean over seeds (Student's t); (None, None) if it is undefined."""
    known = [value for value in values if value is not None]
    if len(known) < 2 or len(known) < len(values):
        return None, None
    from scipy.stats import t

    half_width = float(t.ppf(0.975, len(known) - 1)) * stdev(known) / len(known) ** 0.5
    return mean(known) - half_width, mean(known) + half_width


def unfinished(seeds: Mapping[int, Mapping[str, Any]]) -> list[Block | None]:
    """Returns a table of the dev scores of the seeds that have finished."""
    rows = [
        (f"seed {seed}", metric.replace("_", " "), Number(value, "score"))
        for seed, results in seeds.items()
        for metric, value in results.get("eval", {}).items()
        if metric != "reasons"
    ]
    if not rows:
        return [Text("No seed has finished yet.")]
    return [Table(("", "dev metric", ""), rows)]


def losses(seeds: Mapping[int, Mapping[str, Any]]) -> Figures:
    """Plots the training loss of each seed."""
    series = []
    for seed, results in seeds.items():
        points = results.get("losses", ())
        series.append(Series(f"seed {seed}", [step for step, _ in points], [loss for _, loss in points]))
    figure = Figure(
        "training-loss", "Training loss", "One line per seed.", series, x="step", y="training loss"
    )
    return Figures.of(figure, empty="No seed has finished yet.")


def settings(record: Mapping[str, Any], results: Mapping[str, Any]) -> Table:
    """Returns a table of the labels, settings and environment."""
    labels = record.get("identity", {}).get("labels", ())
    chosen_values = results.get("search", {}).get("chosen", {})
    rows = {
        **({"labels": list(labels)} if labels else {}),
        **record.get("settings", {}),
        **chosen_values,
        **record.get("environment", {}),
    }
    return Table.pairs({name: value for name, value in rows.items() if value is not None and value != []})
