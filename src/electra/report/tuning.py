"""The page of a fine-tuning: scores over its seeds, loss curves, settings. Runs without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from electra import durable
from electra.artifacts.tuning import TuningFolder
from electra.errors import RunFolderError
from electra.report import charts, dev_set, svg
from electra.report.page import Block, Facts, Interval, Number, Section, Table, Text, render, write

SPLIT_NAMES = {"eval": "dev"}
OVER_SEEDS = "_by_seed"


def write_page(path: Path) -> Path:
    """Draw the page of a fine-tuning, finished or not; returns the page's path."""
    folder = TuningFolder.open(path)
    record = folder.record
    results = folder.read_results() if folder.results.is_file() else None
    seeds = {number: read_seed(seed.results) for number, seed in folder.seeds()}
    drawn: dict[str, str] = {}
    sections = [
        Section("Scores", scores(results) if results else unfinished(seeds)),
        *(dev_set.sections(folder.read_dev(), results.get("labels", {})) if results else ()),
        Section("Training", curves(seeds, drawn), "The mean loss of the steps since the point before."),
        Section("Settings", [settings(record)]),
    ]
    title = f"{record.get('task', 'fine-tuning')}: {folder.path.resolve().name}"
    opening = [headline(results)] if results else []
    html = render(
        title, sections, kicker="electra finetune", summary=summary(record, results), opening=opening
    )
    svg.write_all(folder.path, drawn)
    write(folder.page, html)
    return folder.page


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
    for key, label in (("train_samples", "trained on"), ("eval_samples", "scored on")):
        items.append((label, Number(results.get(key)), "examples"))
    return Facts([*items, ("time", Number(results.get("seconds"), "seconds"))], large=True)


def scores(results: Mapping[str, Any]) -> list[Block]:
    rows: list[tuple[object, ...]] = []
    for key, values in results.items():
        if key.endswith(OVER_SEEDS):
            plain = key.removesuffix(OVER_SEEDS)
            split, _, metric = plain.partition("_")
            low, high = interval(values)
            middle = Interval(results.get(plain), "score", low, high)
            numbers = [middle, *(Number(results.get(f"{plain}{end}"), "score") for end in ("_sd", "_median"))]
            by_seed = ", ".join("undefined" if value is None else f"{value:.4f}" for value in values)
            rows.append((SPLIT_NAMES.get(split, split), metric.replace("_", " "), *numbers, by_seed))
    note = (
        "In brackets: the 95 % interval of the mean over seeds." if len(results.get("seeds", ())) > 1 else ""
    )
    blocks: list[Block] = [Table(("split", "metric", "mean", "sd", "median", "each seed"), rows)]
    blocks += [Text(note, "quiet")] if note else []
    together = [
        (key.removeprefix("ensemble_").replace("eval_", "dev ").replace("_", " "), Number(value, "score"))
        for key, value in results.items()
        if key.startswith("ensemble_")
    ]
    blocks += [Table(("all seeds together", ""), together)] if together else []
    return [*blocks, *(Text(str(note), "quiet") for note in results.get("notes", ()))]


def interval(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    """95 %, of the mean over seeds (Student's t); None for a single seed."""
    known = [value for value in values if value is not None]
    if len(known) < 2 or len(known) < len(values):
        return None, None
    from scipy.stats import t

    half = float(t.ppf(0.975, len(known) - 1)) * stdev(known) / len(known) ** 0.5
    return mean(known) - half, mean(known) + half


def unfinished(seeds: Mapping[int, Mapping[str, Any]]) -> list[Block]:
    rows = [
        (f"seed {number}", metric.replace("_", " "), Number(value, "score"))
        for number, found in seeds.items()
        for metric, value in found.get("eval", {}).items()
        if metric != "reasons"
    ]
    if not rows:
        return [Text("No seed has finished yet.")]
    return [Table(("", "dev metric", ""), rows)]


def curves(seeds: Mapping[int, Mapping[str, Any]], drawn: dict[str, str]) -> list[Block]:
    series = [
        {
            "label": f"seed {number}",
            "x": [step for step, _ in found.get("losses", ())],
            "y": [loss for _, loss in found.get("losses", ())],
            "low": [],
            "high": [],
            "style": "line",
        }
        for number, found in seeds.items()
    ]
    figure = {"kind": "lines", "x": "step", "y": "training loss", "x_range": None, "y_range": None}
    if not svg.available():
        return [Text(svg.INSTALL, "quiet")]
    title, note = "Training loss", "One line a seed."
    panels = charts.side_by_side(
        [charts.panel("training-loss", {**figure, "series": series}, title, note, drawn)]
    )
    return [*panels] or [Text("No seed has finished yet.", "quiet")]


def settings(record: Mapping[str, Any]) -> Block:
    rows: list[Sequence[object]] = []
    for part in ("settings", "environment"):
        for name, value in record.get(part, {}).items():
            if value is not None and value != []:
                rows.append((name.replace("_", " "), str(value)))
    labels = record.get("identity", {}).get("labels", ())
    return Table(("", ""), [("labels", ", ".join(map(str, labels))), *rows] if labels else rows)
