"""The page of an evaluation: models beside each other and beside published numbers. Drawn from
evaluation.json; runs without torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from electra.artifacts.evaluation import EvaluationFolder
from electra.foundation import durable
from electra.foundation.errors import ConfigError
from electra.pages import charts, svg
from electra.pages.page import Block, Fold, Number, Section, Table, Text, render, write

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


class Points(Number):
    """A share, shown in points; in parentheses when it must not be compared."""

    def __html__(self) -> str:
        if self.value is None:
            return super().__html__()
        return Markup('<data value="{}">{}</data>').format(repr(self.value), f"{100 * self.value:.1f}")


@dataclass(frozen=True)
class Spread(Points):
    """With its standard deviation or interval after it, and marked where it is the best of its row."""

    after: str = ""
    best: bool = False

    def __html__(self) -> str:
        shown = Markup(super().__html__())
        if self.best:
            shown = Markup('<b title="the best of this row">{}</b>').format(shown)
        return Markup('{}<span class="none">{}</span>').format(shown, self.after)


class Incomparable(Points):
    def __html__(self) -> str:
        shown = super().__html__()
        return shown if self.value is None else Markup('<span class="none">({})</span>').format(shown)


def write_page(folder: Path) -> Path:
    """Draw OUT/evaluation.html from OUT/evaluation.json; returns the page's path."""
    record = durable.read_record(
        folder / EvaluationFolder.RECORD,
        FORMAT,
        ConfigError,
        "an evaluation's record",
        fix="Run electra evaluate",
    )
    drawn: dict[str, str] = {}
    html = page(record, drawn)
    svg.write_all(folder, drawn)
    page_file = EvaluationFolder(folder).page
    write(page_file, html)
    return page_file


def page(record: Mapping[str, Any], drawn: dict[str, str]) -> str:
    """Figures also go to `drawn`, as standalone SVG."""
    groups = _groups(record)
    results = [block for group in groups for block in (_ours(record, group), *_remarks(group))]
    sections = [
        Section(
            "Results",
            [
                Text(SCORES, "quiet"),
                *results,
                *_problems(record),
                *_panels(record, groups, drawn),
                Text(HOW_TO_READ, "quiet"),
            ],
        ),
        Section("Beside published numbers", _published(record, groups)),
        Section(
            "Each task",
            [
                Fold(
                    "Seeds, times, sizes and settings",
                    [_details(record, model["name"]) for model in record["models"]],
                )
            ],
        ),
        Section("Models", [_models(record)]),
    ]
    names = ", ".join(model["name"] for model in record["models"])
    return render(f"{record['title']}: {names}", sections, kicker="electra evaluate", summary=record["about"])


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
            means = [Spread(average["scores"][model]) for model in models]
            rows.append((_average_title(average), "", *_marked(means)))
    return Table(("Task", "scored on", *models), rows, group.title)


def _marked(cells: Sequence[object]) -> list[object]:
    """A row's scores, the best of them marked, floors among them; those that look equal are equally good."""
    shown = [
        f"{cell.value:.3f}" if isinstance(cell, Spread) and cell.value is not None else None for cell in cells
    ]
    known = [one for one in shown if one is not None]
    best = max(known, key=float) if len(known) > 1 else None
    return [
        replace(cell, best=True) if isinstance(cell, Spread) and best is not None and one == best else cell
        for cell, one in zip(cells, shown, strict=True)
    ]


def _average_title(average: Mapping[str, Any]) -> str:
    done, of = len(average["over"]), len(average["tasks"])
    return str(average["title"]) if done == of else f"Mean of {done} of {of} tasks"


def _cell(score: Mapping[str, Any]) -> object:
    if score["status"] != "done":
        return str(score["status"])
    if score["median"] is None:
        return "undefined"
    if "low" in score:
        ends = f" [{100 * score['low']:.1f}, {100 * score['high']:.1f}]" if score["low"] is not None else ""
        return Spread(score["median"], after=ends)
    return Spread(score["median"], after=f" ± {100 * score['sd']:.1f}" if score["sd"] is not None else "")


def _remarks(group: Group) -> list[Block]:
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
    return [Table(("Task", "what to know"), rows, noted=True)] if rows else []


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
        rows.append((model["name"], *(Points(_median(row["scores"][model["name"]])) for row in shown)))
    for column in record["published"]:
        other = column.get("other_examples", False)
        theirs = [
            (Points if row["comparable"] and not other else Incomparable)(
                row["published"].get(column["title"])
            )
            for row in shown
        ]
        if any(cell.value is not None for cell in theirs):
            rows.append((column["title"], *theirs))
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
            seeds = ", ".join(
                "undefined" if value is None else f"{100 * value:.1f}" for value in score["by_seed"]
            )
            counts = [Number(score.get(f"{split}_samples")) for split in ("train", "eval", "test")]
            settings = [Number(score.get(name)) for name in ("epochs", "learning_rate", "max_length")]
            mean, sd = Points(score["mean"]), Points(score["sd"])
            rows.append(
                (
                    row["title"],
                    mean,
                    sd,
                    seeds,
                    Number(score.get("seconds_per_seed"), "seconds"),
                    *counts,
                    *settings,
                )
            )
    names = (
        "Task",
        "mean",
        "sd",
        "seeds",
        "time per seed",
        "train",
        "dev",
        "test",
        "epochs",
        "learning rate",
        "tokens at most",
    )
    return Table(names, rows, model)


def _models(record: Mapping[str, Any]) -> Table:
    rows = [
        (
            model["name"],
            model["source"],
            WEIGHTS[model["init"]],
            Number(model.get("parameters"), "large"),
            f"{model['layers']} layers of {model['hidden_size']}" if "layers" in model else "",
        )
        for model in record["models"]
    ]
    return Table(("Model", "from", "weights", "parameters", "shape"), rows)


def _panels(record: Mapping[str, Any], groups: Sequence[Group], drawn: dict[str, str]) -> Sequence[Block]:
    """One mark for each task and model: the median, from the lowest to the highest seed."""
    if not svg.available():
        return [Text(svg.INSTALL, "quiet")]
    note = "Medians; lines from the lowest to the highest seed, or 95 % intervals."
    panels = []
    for number, group in enumerate(groups):
        series = [_series(group, model["name"]) for model in record["models"]]
        figure = charts.drawing("categories", "points", "", series)
        name = f"evaluation-{number}" if number else "evaluation"
        panels.append(
            charts.panel(name, figure, f"Scores: {group.title}" if group.title else "Scores", note, drawn)
        )
    return charts.side_by_side(panels)


def _series(group: Group, model: str) -> dict[str, Any]:
    """The first number of each task, and all of a probe."""
    first = {row["task"]: row for row in reversed(group.rows)}
    scores = {
        row["title"]: row["scores"][model]
        for row in group.rows
        if row["split"] == "all" or first[row["task"]] is row
    }
    known = {title: score for title, score in scores.items() if score.get("median") is not None}
    points = [
        (
            title,
            {
                "mean": 100 * score["median"],
                **{
                    end: 100 * (pick(score["by_seed"]) if score.get(end) is None else score[end])
                    for end, pick in (("low", min), ("high", max))
                },
            },
        )
        for title, score in known.items()
    ]
    return charts.series(model, points, "points")
