"""Writes the page of an evaluation from evaluation.json: models, baselines and published scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from electra.artifacts.evaluation import EvaluationFolder
from electra.foundation import durable
from electra.foundation.errors import ConfigError
from electra.pages.figures import Figure, Series
from electra.pages.page import Block, Figures, Fold, Number, Page, Section, Table, Text, publish

FORMAT = 1
WEIGHTS = {
    "pretrained": "as pre-trained",
    "frozen": "a linear model on the states of the encoder, which is not trained",
    "random": "random initialization in its shape, drawn for each seed",
    "floor": "no network: a baseline fitted to the same training examples",
}
SCORES_NOTE = (
    "Median \u00b1 standard deviation over seeds, in points: percent, or 100 times a correlation."
    " Brackets show 95 % intervals. Bold: the best of its row."
)
HOW_TO_READ = (
    "Published scores in parentheses are not comparable: they were measured on other data, for the reason"
    " under the table. The others were measured on the same examples, but with other pre-training text and"
    " model sizes, and are often medians over many seeds."
)


def write_page(folder: Path) -> Path:
    """Writes the page of an evaluation from its record and returns the page's path.

    Raises ConfigError if there is no record of this version.
    """
    path, fix = folder / EvaluationFolder.RECORD, "Run electra evaluate"
    record = durable.read_record(path, FORMAT, ConfigError, "an evaluation's record", fix=fix)
    return publish(page(record), EvaluationFolder(folder).page, folder)


def page(record: Mapping[str, Any]) -> Page:
    """Returns the page of an evaluation."""
    groups, names = _groups(record), [model["name"] for model in record["models"]]
    results = [block for group in groups for block in (_results_table(record, group), _remarks(group))]
    notes = Text(SCORES_NOTE, "quiet"), Text(HOW_TO_READ, "quiet")
    figures = Figures.of(*(_figure(group, i, names) for i, group in enumerate(groups)))
    details = Fold("Seeds, times, sizes and settings", [_details(record, name) for name in names])
    published = _published(record, groups)
    return Page(
        str(record["title"]),
        [
            Section("Results", [notes[0], *results, *_problems(record), figures]),
            Section("Published scores", [*published, notes[1]]) if published else None,
            Section("Tasks", [details]),
            Section("Models", [_models(record)]),
        ],
        kicker="electra evaluate",
        summary=" ".join(filter(None, (verdict(record, groups), record["about"]))),
    )


@dataclass(frozen=True)
class Group:
    """The tasks under one heading."""

    title: str
    rows: Sequence[Mapping[str, Any]]
    averages: Sequence[Mapping[str, Any]]


def verdict(record: Mapping[str, Any], groups: Sequence[Group]) -> str:
    """Returns a sentence that compares the best model with the best baseline; empty without an average."""
    average = next((each for group in groups for each in group.averages if each["over"]), None)
    if average is None:
        return ""
    pretrained = [model["name"] for model in record["models"] if model["init"] == "pretrained"]
    scores = {name: score for name, score in average["scores"].items() if score is not None}
    ours = {name: score for name, score in scores.items() if name in pretrained}
    others = {name: score for name, score in scores.items() if name not in pretrained}
    if not ours:
        return ""
    best = max(ours, key=ours.__getitem__)
    sentence = f"{best} scores {100 * ours[best]:.1f} on average over {len(average['over'])} tasks"
    if not others:
        return f"{sentence}."
    baseline = max(others, key=others.__getitem__)
    lead = 100 * (ours[best] - others[baseline])
    return f"{sentence}, {abs(lead):.1f} {'above' if lead > 0 else 'below'} the best baseline, {baseline}."


def _groups(record: Mapping[str, Any]) -> list[Group]:
    def under(title: str, kind: str) -> list[Mapping[str, Any]]:
        return [entry for entry in record[kind] if entry["group"] == title]

    titles = dict.fromkeys(row["group"] for row in record["rows"])
    return [Group(title, under(title, "rows"), under(title, "averages")) for title in titles]


def _results_table(record: Mapping[str, Any], group: Group) -> Table:
    models = [model["name"] for model in record["models"]]
    rows = [
        (row["title"], row["split"], *_mark_best([_cell(row["scores"][model]) for model in models]))
        for row in group.rows
    ]
    for average in group.averages:
        if average["over"]:
            means = [Number(average["scores"][model], "points") for model in models]
            rows.append((_average_title(average), "", *_mark_best(means)))
    return Table(("Task", "split", *models), rows, group.title)


def _mark_best(cells: Sequence[str | Number]) -> list[str | Number]:
    """Returns a row with its best scores marked, baselines included. Scores that look equal are ties."""
    looks = [None if isinstance(cell, str) or cell.value is None else f"{cell.value:.3f}" for cell in cells]
    known = [look for look in looks if look is not None]
    best = max(known, key=float) if len(known) > 1 else None
    return [
        replace(cell, best=look == best) if isinstance(cell, Number) and look is not None else cell
        for cell, look in zip(cells, looks, strict=True)
    ]


def _average_title(average: Mapping[str, Any]) -> str:
    num_done, num_tasks = len(average["over"]), len(average["tasks"])
    return str(average["title"]) if num_done == num_tasks else f"Mean of {num_done} of {num_tasks} tasks"


def _cell(score: Mapping[str, Any]) -> str | Number:
    if score["status"] != "done":
        return {"not asked": "not run"}.get(score["status"], str(score["status"]))  # in old records
    if score["median"] is None:
        return "undefined"
    sd = score.get("sd") if "low" not in score else None
    after = "" if sd is None else f" \u00b1 {100 * sd:.1f}"
    return Number(score["median"], "points", score.get("low"), score.get("high"), after)


def _remarks(group: Group) -> Table | None:
    remarks = {
        (row["task"], "; ".join(row["remarks"])): row["title"]
        for row in reversed(group.rows)
        if row["remarks"]
    }
    rows = [(title, text) for (_, text), title in reversed(remarks.items())]
    for average in group.averages:
        over_note = (
            f" Here, over {', '.join(average['over'])}."
            if len(average["over"]) < len(average["tasks"])
            else ""
        )
        if text := f"{average['about']}{over_note}".strip():
            rows.append((_average_title(average), text))
    return Table(("Task", "Notes"), rows, noted=True) if rows else None


def _problems(record: Mapping[str, Any]) -> list[Block]:
    status_labels = {"failed": "failed", "done": "undefined"}
    return [
        Text(f"{row['title']}, {model}: {status_labels[score['status']]}, {score['reason']}", "warning")
        for row in record["rows"]
        for model, score in row["scores"].items()
        if score.get("reason") and score["status"] in status_labels
    ]


def _published(record: Mapping[str, Any], groups: Sequence[Group]) -> list[Block]:
    """Returns tables with a row for each model, ours first, and a column for each published task."""
    tables = [table for group in groups if (table := _with_published(record, group)) is not None]
    if not tables:
        return []
    sources = [(column["title"], f"{column['how']}. {column['source']}") for column in record["published"]]
    return [
        *tables,
        Table(("Published", "How and where"), sources, noted=True),
    ]


def _with_published(record: Mapping[str, Any], group: Group) -> Table | None:
    compared = [
        row
        for row in [*group.rows, *group.averages]
        if row["published"] and any(_median(score) is not None for score in row["scores"].values())
    ]
    rows: list[Sequence[object]] = []
    for model in record["models"]:
        scores = (_median(row["scores"][model["name"]]) for row in compared)
        rows.append((model["name"], *(Number(score, "points") for score in scores)))
    for column in record["published"]:
        other_examples, name = column.get("other_examples", False), column["title"]
        if any(row["published"].get(name) is not None for row in compared):
            parenthesized = [other_examples or not row["comparable"] for row in compared]
            cells = [
                Number(row["published"].get(name), "points", parenthesized=parenthesized)
                for row, parenthesized in zip(compared, parenthesized, strict=True)
            ]
            rows.append((name, *cells))
    return Table(("Model", *_short_names(compared)), rows, group.title) if compared else None


def _median(score: object) -> Any:
    """Returns the median of a row's score; an average's score is a number already."""
    return score.get("median") if isinstance(score, Mapping) else score


def _short_names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the names of tasks, with the metric added from a task's second score on."""
    names: list[str] = []
    for row in rows:
        name = row.get("task", "average")
        names.append(name if name not in names else f"{name} {row['metric']}")
    return names


def _details(record: Mapping[str, Any], model: str) -> Table:
    rows = []
    for row in record["rows"]:
        score = row["scores"][model]
        if score["status"] == "done":
            seeds = ["undefined" if value is None else f"{100 * value:.1f}" for value in score["by_seed"]]
            rows.append({**score, "title": row["title"], "seeds": ", ".join(seeds)})
    return Table.of(
        rows,
        ("Task", "title"),
        ("mean", "mean", "points"),
        ("sd", "sd", "points"),
        ("seeds", "seeds"),
        ("time per seed", "seconds_per_seed", "seconds"),
        ("train", "train_samples", "plain"),
        ("dev", "eval_samples", "plain"),
        ("test", "test_samples", "plain"),
        ("epochs", "epochs", "plain"),
        ("learning rate", "learning_rate", "plain"),
        ("max. tokens", "max_length", "plain"),
        caption=model,
    )


def _models(record: Mapping[str, Any]) -> Table:
    rows = []
    for model in record["models"]:
        shape = f"{model['layers']} layers of {model['hidden_size']}" if "layers" in model else ""
        rows.append({**model, "weights": WEIGHTS[model["init"]], "shape": shape})
    return Table.of(
        rows,
        ("Model", "name"),
        ("from", "source"),
        ("weights", "weights"),
        ("parameters", "parameters", "large"),
        ("shape", "shape"),
    )


def _figure(group: Group, i: int, models: Sequence[str]) -> Figure:
    """Draws the median of each task and model, with a line from the lowest to the highest seed."""
    note = "Medians; lines from the lowest to the highest seed, or 95 % intervals."
    name, title = f"evaluation-{i}" if i else "evaluation", f"Scores: {group.title}"
    series = [_series(group, model) for model in models]
    return Figure(name, title if group.title else "Scores", note, series, "categories", x="points")


def _series(group: Group, model: str) -> Series:
    """Returns the first score of each task, and all scores of a probe."""
    first_rows, points = {row["task"]: row for row in reversed(group.rows)}, []
    for row in group.rows:
        score = row["scores"][model]
        if (row["split"] == "all" or first_rows[row["task"]] is row) and score.get("median") is not None:
            low, high = score.get("low"), score.get("high")
            low = min(score["by_seed"]) if low is None else low
            high = max(score["by_seed"]) if high is None else high
            ends = {"mean": score["median"], "low": low, "high": high}
            points.append((row["title"], {end: 100 * value for end, value in ends.items()}))
    return Series.through(model, points, "points")
