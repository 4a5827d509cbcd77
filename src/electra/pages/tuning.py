"""The page of a fine-tuning: scores over its seeds, loss curves, settings. Runs without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from electra.artifacts.tuning import TuningFolder, chance_note
from electra.foundation import durable
from electra.foundation.errors import RunFolderError
from electra.pages import dev_set
from electra.pages.figures import Figure, Series
from electra.pages.page import Block, Facts, Figures, Number, Page, Section, Table, Text, publish

SPLIT_NAMES = {"eval": "dev"}
OVER_SEEDS = "_by_seed"


def write_page(path: Path) -> Path:
    """Draw the page of a fine-tuning, finished or not; returns the page's path."""
    folder = TuningFolder.open(path)
    record = folder.record
    results = folder.read_results() if folder.results.is_file() else None
    seeds = {number: read_seed(seed.results) for number, seed in folder.seeds()}
    searched = folder.read_search()
    page = Page(
        f"{record.get('task', 'fine-tuning')}: {folder.path.resolve().name}",
        [
            Section("Scores", scores(results) if results else unfinished(seeds)),
            *(dev_set.sections(folder.read_dev(), results.get("labels", {})) if results else ()),
            Section("Training", [losses(seeds)], "The mean loss of the steps since the point before."),
            Section("Search", search(searched), lead_of(searched)) if searched else None,
            Section("Settings", [settings(record, results or {})]),
        ],
        kicker="electra finetune",
        summary=summary(record, results),
        opening=[headline(results) if results else None],
    )
    return publish(page, folder.page, folder.path)


def read_seed(path: Path) -> dict[str, Any]:
    found = durable.read_json(path, RunFolderError)
    if not isinstance(found, dict):
        raise RunFolderError("not the results of a seed", where=path, fix="Rerun electra finetune")
    return found


def summary(record: Mapping[str, Any], results: Mapping[str, Any] | None) -> str:
    start = "fresh weights in the shape of " if record.get("settings", {}).get("init") == "random" else ""
    end = "" if results else " Not finished: rerun the command to resume."
    return f"Fine-tuned from {start}{record.get('model', 'a model')}.{end}"


def headline(results: Mapping[str, Any]) -> Block:
    """The primary metric, and on how much it rests."""
    name = str(results.get("primary_metric"))
    count = len(results.get("seeds", ()))
    sd = results.get(f"eval_{name}_sd")
    spread = f"mean of {count} seeds, sd {sd:.3f}" if sd is not None else "one seed"
    items: list[tuple[object, ...]] = [(f"dev {name}", Number(results.get(f"eval_{name}"), "score"), spread)]
    if others := best_beside(results):
        items.append((*others, "to compare"))
    for key, label in (("train_samples", "trained on"), ("eval_samples", "scored on")):
        items.append((label, Number(results.get(key)), "examples"))
    return Facts([*items, ("time", Number(results.get("seconds"), "seconds"))], large=True)


def scores(results: Mapping[str, Any]) -> list[Block | None]:
    others = beside(results)
    rows: list[tuple[object, ...]] = []
    for key, values in results.items():
        if key.endswith(OVER_SEEDS):
            plain = key.removesuffix(OVER_SEEDS)
            split, _, metric = plain.partition("_")
            if metric == "loss" and all(value is None for value in values):
                continue  # of a task whose loss compares the rows of a training batch
            low, high = interval(values)
            if low is not None and high is not None and metric not in ("loss", "mae"):
                # Which no score leaves: correlations alone can be below 0.
                lowest = -1.0 if metric.endswith(("correlation", "pearson", "spearmanr")) else 0.0
                low, high = max(low, lowest), min(high, 1.0)
            middle = Number(results.get(plain), "score", low, high)
            numbers = [middle, *(Number(results.get(f"{plain}{end}"), "score") for end in ("_sd", "_median"))]
            by_seed = ", ".join("undefined" if value is None else f"{value:.4f}" for value in values)
            compared = (Number(found.get(plain), "score") for found in others.values())
            name = (SPLIT_NAMES.get(split, split), metric.replace("_", " "))
            rows.append((*name, *numbers, *compared, by_seed))
    several = len(results.get("seeds", ())) > 1
    together = [
        (key.removeprefix("ensemble_").replace("eval_", "dev ").replace("_", " "), Number(value, "score"))
        for key, value in results.items()
        if key.startswith("ensemble_")
    ]
    return [
        Table(("split", "metric", "mean", "sd", "median", *others, "each seed"), rows),
        Text("In brackets: the 95 % interval of the mean over seeds.", "quiet") if several else None,
        Text(verdict(results)) if others else None,
        Table(("all seeds together", ""), together) if together else None,
        *(Text(str(note), "quiet") for note in results.get("notes", ())),
    ]


def beside(results: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """What the model is compared with, each with its scores: floors, and the twin with fresh weights."""
    twin = {"fresh weights": results["untrained"]} if results.get("untrained") else {}
    return {**results.get("floors", {}), **twin}


def verdict(results: Mapping[str, Any]) -> str:
    """Whether the model beats what it is compared with on dev."""
    own, best = results.get(f"eval_{results.get('primary_metric')}"), best_beside(results)
    if best is None or own is None:
        return "Nothing can be compared: a score is not defined."
    name, score = best[0], best[1].value
    if own > score:
        return (
            f"On dev the model is {own - score:.3f} ahead of the best of these, {name}{chance_note(results)}."
        )
    told = f"On dev {name} does as well or better: the model has not shown that it is worth its cost"
    return f"{told}{chance_note(results)}."


def best_beside(results: Mapping[str, Any]) -> tuple[str, Number] | None:
    """The best of what the model is compared with, and its score on dev."""
    key = f"eval_{results.get('primary_metric')}"
    known = {n: found[key] for n, found in beside(results).items() if found.get(key) is not None}
    return max(
        ((n, Number(v, "score")) for n, v in known.items()), key=lambda one: one[1].value or 0.0, default=None
    )


def lead_of(found: Mapping[str, Any]) -> str:
    """On what a search was made."""
    sizes = f"{found['trained_on']:,} of the training examples, scored on the {found['scored_on']:,} others"
    return f"Budget: {found['budget']}. Trained on {sizes}. Dev and test were not looked at."


def search(found: Mapping[str, Any]) -> list[Block]:
    """The trainings of a search, in their order."""
    names, chosen, rows = found["settings"], found.get("chosen"), []
    for number, one in enumerate(found["trainings"], 1):
        values = [f"{one['values'][name]:g}" for name in names]
        score: object = one.get("failed") or Number(one["score"], "score")
        mark = "chosen" if one["values"] == chosen else ""
        rows.append((str(number), *values, score, Number(one["seconds"], "seconds"), mark))
    columns = ("", *(name.replace("_", " ") for name in names), found["metric"].replace("_", " "), "time", "")
    unfinished = [] if chosen else [Text("Not finished: rerun the command to resume.", "quiet")]
    return [Table(columns, rows), *unfinished]


def interval(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    """95 %, of the mean over seeds (Student's t); None for a single seed."""
    known = [value for value in values if value is not None]
    if len(known) < 2 or len(known) < len(values):
        return None, None
    from scipy.stats import t

    half = float(t.ppf(0.975, len(known) - 1)) * stdev(known) / len(known) ** 0.5
    return mean(known) - half, mean(known) + half


def unfinished(seeds: Mapping[int, Mapping[str, Any]]) -> list[Block | None]:
    rows = [
        (f"seed {number}", metric.replace("_", " "), Number(value, "score"))
        for number, found in seeds.items()
        for metric, value in found.get("eval", {}).items()
        if metric != "reasons"
    ]
    if not rows:
        return [Text("No seed has finished yet.")]
    return [Table(("", "dev metric", ""), rows)]


def losses(seeds: Mapping[int, Mapping[str, Any]]) -> Figures:
    series = []
    for number, found in seeds.items():
        points = found.get("losses", ())
        series.append(Series(f"seed {number}", [step for step, _ in points], [loss for _, loss in points]))
    figure = Figure("training-loss", "Training loss", "One line a seed.", series, x="step", y="training loss")
    return Figures.of(figure, empty="No seed has finished yet.")


def settings(record: Mapping[str, Any], results: Mapping[str, Any]) -> Table:
    labels = record.get("identity", {}).get("labels", ())
    chosen = results.get("search", {}).get("chosen", {})
    rows = {
        **({"labels": list(labels)} if labels else {}),
        **record.get("settings", {}),
        **chosen,
        **record.get("environment", {}),
    }
    return Table.pairs({name: value for name, value in rows.items() if value is not None and value != []})
