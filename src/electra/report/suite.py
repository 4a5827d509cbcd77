"""The page of an evaluation: models beside each other and beside published numbers. Drawn from evaluation.json; runs without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from electra import durable
from electra.errors import ConfigError
from electra.report import charts, figures
from electra.report.page import Block, Fold, Number, Panel, Panels, Section, Table, Text, render, write

RECORD, PAGE = "evaluation.json", "evaluation.html"
FORMAT = 1
HOW_TO_READ = (
    "Each number of ours is the median over seeds, in points: percent, or 100 times a correlation. Published numbers in parentheses were "
    "measured on other data than ours, for the reason under the table, and must not be compared. Those without parentheses share the "
    "examples, not the conditions: other pre-training text, other sizes of model, dev medians over many seeds."
)


class Points(Number):
    """A share, shown in points; in parentheses when it must not be compared."""

    def __html__(self) -> str:
        if self.value is None:
            return super().__html__()
        return Markup('<data value="{}">{}</data>').format(repr(self.value), f"{100 * self.value:.1f}")


@dataclass(frozen=True)
class Spread(Points):
    """With its standard deviation or interval after it."""

    after: str = ""

    def __html__(self) -> str:
        return Markup('{}<span class="none">{}</span>').format(Markup(super().__html__()), self.after)


class Incomparable(Points):
    def __html__(self) -> str:
        shown = super().__html__()
        return shown if self.value is None else Markup('<span class="none">({})</span>').format(shown)


def write_page(folder: Path) -> Path:
    """Draw OUT/evaluation.html from OUT/evaluation.json; returns the page's path."""
    record = durable.read_json(folder / RECORD, ConfigError, fix="Run electra evaluate")
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise ConfigError("not an evaluation's record of this version", where=folder / RECORD, fix="Run electra evaluate again")
    drawn: dict[str, str] = {}
    html = page(record, drawn)
    for name, svg in drawn.items():
        durable.commit_file(folder / "figures" / f"{name}.svg", svg.encode())
    write(folder / PAGE, html)
    return folder / PAGE


def page(record: Mapping[str, Any], drawn: dict[str, str]) -> str:
    """Figures also go to `drawn`, as standalone SVG."""
    sections = [
        Section("Results", [_ours(record), *_remarks(record), *_panels(record, drawn), Text(HOW_TO_READ, "quiet")]),
        Section("Beside published numbers", _published(record)),
        Section("Each task", [Fold("Seeds, times, sizes and settings", [_details(record, model["name"]) for model in record["models"]])]),
        Section("Models", [_models(record)]),
    ]
    names = ", ".join(model["name"] for model in record["models"])
    return render(f"{record['title']}: {names}", sections, kicker="electra evaluate", summary=record["about"])


def _ours(record: Mapping[str, Any]) -> Table:
    models = [model["name"] for model in record["models"]]
    rows = [(row["title"], row["split"], *(_cell(row["scores"][model]) for model in models)) for row in record["rows"]]
    for average in record["averages"]:
        if average["over"]:
            rows.append((_average_title(average), "", *(Points(average["scores"][model]) for model in models)))
    return Table(("Task", "scored on", *models), rows)


def _average_title(average: Mapping[str, Any]) -> str:
    done, of = len(average["over"]), len(average["tasks"])
    return average["title"] if done == of else f"Mean of {done} of {of} tasks ({', '.join(average['over'])})"


def _cell(score: Mapping[str, Any]) -> object:
    if score["status"] != "done":
        return str(score["status"])
    if score["median"] is None:
        return "undefined"
    if "low" in score:
        ends = f" [{100 * score['low']:.1f}, {100 * score['high']:.1f}]" if score["low"] is not None else ""
        return Spread(score["median"], after=ends)
    return Spread(score["median"], after=f" ± {100 * score['sd']:.1f}" if score["sd"] is not None else "")


def _remarks(record: Mapping[str, Any]) -> list[Block]:
    said = [(row["title"], "; ".join(row["remarks"])) for row in record["rows"] if row["remarks"]]
    blocks: list[Block] = [Table(("Task", "what to know"), said, noted=True)] if said else []
    for row in record["rows"]:
        for model, score in row["scores"].items():
            if score.get("reason") and score["status"] in ("failed", "done"):
                blocks.append(Text(f"{row['title']}, {model}: {score['status']}, {score['reason']}", "warning"))
    return blocks


def _published(record: Mapping[str, Any]) -> list[Block]:
    """As papers lay it out: a row for each model, ours first; a column for each number that somebody published."""
    shown = [row for row in [*record["rows"], *record["averages"]] if row["published"]]
    if not shown:
        return [Text("Nothing published is known for these tasks.", "quiet")]
    rows: list[Sequence[object]] = []
    for model in record["models"]:
        ours = [row["scores"][model["name"]] for row in shown]
        values = [score.get("median") if isinstance(score, Mapping) else score for score in ours]
        rows.append((model["name"], *map(Points, values), "this evaluation"))
    for column in record["published"]:
        theirs = [(Points if row["comparable"] else Incomparable)(row["published"].get(column["title"])) for row in shown]
        rows.append((column["title"], *theirs, f"{column['how']}. {column['source']}"))
    return [Table(("Model", *_short_names(shown), "how, and where it is printed"), rows, noted=True)]


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
            seeds = ", ".join("undefined" if value is None else f"{100 * value:.1f}" for value in score["by_seed"])
            counts = [Number(score.get(f"{split}_samples")) for split in ("train", "eval", "test")]
            settings = [Number(score.get(name)) for name in ("epochs", "learning_rate", "max_length")]
            mean, sd = Points(score["mean"]), Points(score["sd"])
            rows.append((row["title"], mean, sd, seeds, Number(score.get("seconds_per_seed"), "seconds"), *counts, *settings))
    names = ("Task", "mean", "sd", "seeds", "time per seed", "train", "dev", "test", "epochs", "learning rate", "tokens at most")
    return Table(names, rows, model)


def _models(record: Mapping[str, Any]) -> Table:
    rows = [
        (
            model["name"],
            model["source"],
            "fresh weights of its shape, anew for each seed" if model["init"] == "random" else "as pre-trained",
            Number(model["parameters"], "large"),
            f"{model['layers']} layers of {model['hidden_size']}",
        )
        for model in record["models"]
    ]
    return Table(("Model", "from", "weights", "parameters", "shape"), rows)


def _panels(record: Mapping[str, Any], drawn: dict[str, str]) -> list[Block]:
    """One mark for each task and model: the median, from the lowest to the highest seed."""
    if not figures.available():
        return [Text(figures.INSTALL, "quiet")]
    series = []
    for model in record["models"]:
        scores = {row["title"]: row["scores"][model["name"]] for row in record["rows"]}
        known = {title: score for title, score in scores.items() if score.get("median") is not None}
        ends = {
            end: [pick(score["by_seed"]) if score.get(end) is None else score[end] for score in known.values()]
            for end, pick in (("low", min), ("high", max))
        }
        values = [score["median"] for score in known.values()]
        series.append({"label": model["name"], "x": list(known), "y": values, **ends, "style": "points"})
    figure = {"kind": "categories", "x": "score", "y": "", "x_range": None, "y_range": None, "series": series}
    svg = charts.draw("evaluation", figure)
    if svg is None:
        return []
    drawn["evaluation"] = svg
    return [Panels({"": [Panel("Scores", "Medians; lines from the lowest to the highest seed, or 95 % intervals.", figures.inline(svg))]})]
