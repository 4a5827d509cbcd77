"""The page of an evaluation: models beside each other and beside published numbers. Drawn from
evaluation.json; runs without torch.
"""

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
    "random": "fresh weights of its shape, anew for each seed",
    "floor": "no network: fitted to the same training examples by counting",
}
SCORES = (
    "Median \u00b1 standard deviation over seeds, in points: percent, or 100 times a correlation."
    " Brackets are 95 % intervals. Bold: the best of its row."
)
HOW_TO_READ = (
    "Published numbers in parentheses were measured on other data than ours, for the reason under the"
    " table, and must not be compared. Those without parentheses share the examples, not the conditions:"
    " other pre-training text, other sizes of model, dev medians over many seeds."
)


def write_page(folder: Path) -> Path:
    """Draw OUT/evaluation.html from OUT/evaluation.json; returns the page's path."""
    path, fix = folder / EvaluationFolder.RECORD, "Run electra evaluate"
    record = durable.read_record(path, FORMAT, ConfigError, "an evaluation's record", fix=fix)
    return publish(page(record), EvaluationFolder(folder).page, folder)


def page(record: Mapping[str, Any]) -> Page:
    groups, names = _groups(record), [model["name"] for model in record["models"]]
    results = [block for group in groups for block in (_ours(record, group), _remarks(group))]
    notes = Text(SCORES, "quiet"), Text(HOW_TO_READ, "quiet")
    figures = Figures.of(*(_figure(group, number, names) for number, group in enumerate(groups)))
    details = Fold("Seeds, times, sizes and settings", [_details(record, name) for name in names])
    return Page(
        f"{record['title']}: {', '.join(names)}",
        [
            Section("Results", [notes[0], *results, *_problems(record), figures, notes[1]]),
            Section("Beside published numbers", _published(record, groups)),
            Section("Each task", [details]),
            Section("Models", [_models(record)]),
        ],
        kicker="electra evaluate",
        summary=record["about"],
    )


@dataclass(frozen=True)
class Group:
    """What stands under one heading: the tasks of a suite."""

    title: str
    rows: Sequence[Mapping[str, Any]]
    averages: Sequence[Mapping[str, Any]]


def _groups(record: Mapping[str, Any]) -> list[Group]:
    def under(title: str, kind: str) -> list[Mapping[str, Any]]:
        return [entry for entry in record[kind] if entry["group"] == title]

    titles = dict.fromkeys(row["group"] for row in record["rows"])
    return [Group(title, under(title, "rows"), under(title, "averages")) for title in titles]


def _ours(record: Mapping[str, Any], group: Group) -> Table:
    models = [model["name"] for model in record["models"]]
    rows = [
        (row["title"], row["split"], *_marked([_cell(row["scores"][model]) for model in models]))
        for row in group.rows
    ]
    for average in group.averages:
        if average["over"]:
            means = [Number(average["scores"][model], "points") for model in models]
            rows.append((_average_title(average), "", *_marked(means)))
    return Table(("Task", "scored on", *models), rows, group.title)


def _marked(cells: Sequence[str | Number]) -> list[str | Number]:
    """A row's scores, the best of them marked, floors among them; those that look equal are equally good."""
    looks = [None if isinstance(cell, str) or cell.value is None else f"{cell.value:.3f}" for cell in cells]
    known = [look for look in looks if look is not None]
    best = max(known, key=float) if len(known) > 1 else None
    return [
        replace(cell, best=look == best) if isinstance(cell, Number) and look is not None else cell
        for cell, look in zip(cells, looks, strict=True)
    ]


def _average_title(average: Mapping[str, Any]) -> str:
    done, of = len(average["over"]), len(average["tasks"])
    return str(average["title"]) if done == of else f"Mean of {done} of {of} tasks"


def _cell(score: Mapping[str, Any]) -> str | Number:
    if score["status"] != "done":
        return str(score["status"])
    if score["median"] is None:
        return "undefined"
    sd = score.get("sd") if "low" not in score else None
    after = "" if sd is None else f" \u00b1 {100 * sd:.1f}"
    return Number(score["median"], "points", score.get("low"), score.get("high"), after)


def _remarks(group: Group) -> Table | None:
    said = {
        (row["task"], "; ".join(row["remarks"])): row["title"]
        for row in reversed(group.rows)
        if row["remarks"]
    }
    rows = [(title, remarks) for (_, remarks), title in reversed(said.items())]
    for average in group.averages:
        over = (
            f" Here over {', '.join(average['over'])}."
            if len(average["over"]) < len(average["tasks"])
            else ""
        )
        rows.append((_average_title(average), f"{average['about']}{over}"))
    return Table(("Task", "what to know"), rows, noted=True) if rows else None


def _problems(record: Mapping[str, Any]) -> list[Block]:
    told = {"failed": "failed", "done": "not defined"}
    return [
        Text(f"{row['title']}, {model}: {told[score['status']]}, {score['reason']}", "warning")
        for row in record["rows"]
        for model, score in row["scores"].items()
        if score.get("reason") and score["status"] in told
    ]


def _published(record: Mapping[str, Any], groups: Sequence[Group]) -> list[Block]:
    """As papers lay it out: a row for each model, ours first; a column for each number that somebody
    published.
    """
    tables = [table for group in groups if (table := _beside(record, group)) is not None]
    if not tables:
        return [Text("Nothing published is known for these tasks.", "quiet")]
    sources = [(column["title"], f"{column['how']}. {column['source']}") for column in record["published"]]
    return [
        *tables,
        Table(("Published", "how it was measured, and where it is printed"), sources, noted=True),
    ]


def _beside(record: Mapping[str, Any], group: Group) -> Table | None:
    ours = [
        row
        for row in [*group.rows, *group.averages]
        if any(_median(score) is not None for score in row["scores"].values())
    ]
    shown = [row for row in ours if row["published"]]
    rows: list[Sequence[object]] = []
    for model in record["models"]:
        scores = (_median(row["scores"][model["name"]]) for row in shown)
        rows.append((model["name"], *(Number(score, "points") for score in scores)))
    for column in record["published"]:
        other, name = column.get("other_examples", False), column["title"]
        if any(row["published"].get(name) is not None for row in shown):
            asides = [other or not row["comparable"] for row in shown]
            cells = [
                Number(row["published"].get(name), "points", aside=aside)
                for row, aside in zip(shown, asides, strict=True)
            ]
            rows.append((name, *cells))
    return Table(("Model", *_short_names(shown)), rows, group.title) if shown else None


def _median(score: object) -> Any:
    """Of a row's score, or of an average's, which is a number."""
    return score.get("median") if isinstance(score, Mapping) else score


def _short_names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The task; of a task's further numbers also the metric."""
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
        ("tokens at most", "max_length", "plain"),
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


def _figure(group: Group, number: int, models: Sequence[str]) -> Figure:
    """One mark for each task and model: the median, from the lowest to the highest seed."""
    note = "Medians; lines from the lowest to the highest seed, or 95 % intervals."
    name, title = f"evaluation-{number}" if number else "evaluation", f"Scores: {group.title}"
    series = [_series(group, model) for model in models]
    return Figure(name, title if group.title else "Scores", note, series, "categories", x="points")


def _series(group: Group, model: str) -> Series:
    """The first number of each task, and all of a probe."""
    first, points = {row["task"]: row for row in reversed(group.rows)}, []
    for row in group.rows:
        score = row["scores"][model]
        if (row["split"] == "all" or first[row["task"]] is row) and score.get("median") is not None:
            low, high = score.get("low"), score.get("high")
            low = min(score["by_seed"]) if low is None else low
            high = max(score["by_seed"]) if high is None else high
            ends = {"mean": score["median"], "low": low, "high": high}
            points.append((row["title"], {end: 100 * value for end, value in ends.items()}))
    return Series.through(model, points, "points")
