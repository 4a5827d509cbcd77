"""The page of an evaluation, from evaluation.json: models and baselines."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from electra.artifacts.evaluation_files import EvaluationFolder
from electra.foundation import durable
from electra.foundation.errors import ConfigError
from electra.pages.figures import Figure, Series
from electra.pages.page import Number, Page, PageTable, Section, publish

FORMAT = 1
BASELINE = "no network: a baseline fitted to the same training examples"
LEAD = (
    "Median \u00b1 standard deviation over seeds, in points: percent, or 100 times a correlation. Brackets"
    " and lines are 95 % intervals; without brackets, lines go from the lowest to the highest seed. Bold: the"
    " best of its row."
)
Record = Mapping[str, Any]


def write_page(path: Path) -> Path:
    """Writes the page of an evaluation. Raises ConfigError if there is no record of this version."""
    folder, what, fix = EvaluationFolder(path), "an evaluation's record", "Run electra evaluate"
    record = durable.read_record(path / folder.RECORD, FORMAT, ConfigError, what, fix=fix)
    return publish(page(record, folder.commands), folder.page)


def page(record: Record, commands: Sequence[str] = ()) -> Page:
    """Returns the page of an evaluation."""
    models = [str(model["name"]) for model in record["models"]]
    series = [_series(record["rows"], model) for model in models]
    figure = Figure("scores-", "Scores", "", series, "categories", x="points")
    shapes = []
    for model in record["models"]:
        shape = f"{model['layers']} layers of {model['hidden_size']}" if "layers" in model else ""
        weights = "as pre-trained" if model["init"] == "pretrained" else BASELINE
        shapes.append({**model, "weights": weights, "shape": shape})
    columns = {"Model": ("name",), "from": ("source",), "weights": ("weights",), "shape": ("shape",)}
    model_table = PageTable.of(shapes, {**columns, "parameters": ("parameters", "large")})
    return Page(
        str(record["title"]),
        f"{verdict(record)} {record['about']}".strip(),
        [
            Section("Results", LEAD, figures=[figure], tables=[_results(record, models), _notes(record)]),
            Section("Models", tables=[model_table]),
        ],
        kicker="electra evaluate",
        warnings=[
            f"{row['title']}, {model}: {score['status']}, {score['reason']}"
            for row in record["rows"]
            for model, score in row["scores"].items()
            if score.get("reason") and score["status"] in ("failed", "done")
        ],
        commands=commands,
    )


def verdict(record: Record) -> str:
    """Returns a sentence that compares the best model with the best baseline; empty without an average."""
    average: Record = next((each for each in record["averages"] if each["over"]), {"scores": {}})
    scores = {name: score for name, score in average["scores"].items() if score is not None}
    pretrained = [model["name"] for model in record["models"] if model["init"] == "pretrained"]
    ours, others = ([n for n in scores if (n in pretrained) == own] for own in (True, False))
    if not ours:
        return ""
    best = max(ours, key=scores.__getitem__)
    sentence = f"{best} scores {100 * scores[best]:.1f} on average over {len(average['over'])} tasks"
    if not others:
        return f"{sentence}."
    baseline = max(others, key=scores.__getitem__)
    lead = 100 * (scores[best] - scores[baseline])
    return f"{sentence}, {abs(lead):.1f} {'above' if lead > 0 else 'below'} the best baseline, {baseline}."


def _results(record: Record, models: Sequence[str]) -> PageTable:
    shown = [(row["title"], row["split"], row) for row in record["rows"]]
    shown += [(_average_title(each), "", each) for each in record["averages"] if each["over"]]
    cells = []
    for title, split, row in shown:
        ours = [_cell(row["scores"][model]) for model in models]
        values = {i: cell.value for i, cell in enumerate(ours) if isinstance(cell, Number)}
        known = {i: round(value, 3) for i, value in values.items() if value is not None}
        best = [i for i, value in known.items() if value == max(known.values()) and len(known) > 1]
        ours = [replace(cell, is_best=True) if i in best else cell for i, cell in enumerate(ours)]  # type: ignore[type-var]
        cells.append((title, split, *ours))
    return PageTable(("Task", "split", *models), cells)


def _average_title(average: Record) -> str:
    done, tasks = len(average["over"]), len(average["tasks"])
    return str(average["title"]) if done == tasks else f"Mean of {done} of {tasks} tasks"


def _cell(score: Any) -> str | Number:
    if not isinstance(score, Mapping):
        return Number(score, "points")  # an average
    if score["status"] != "done":
        return str(score["status"])
    if score["median"] is None:
        return "undefined"
    sd = score.get("sd") if "low" not in score else None
    after = "" if sd is None else f" \u00b1 {100 * sd:.1f}"
    return Number(score["median"], "points", score.get("low"), score.get("high"), after)


def _notes(record: Record) -> PageTable | None:
    notes = {row["title"]: "; ".join(row["remarks"]) for row in record["rows"]}
    for average in record["averages"]:
        partly = len(average["over"]) < len(average["tasks"])
        over = f" Here, over {', '.join(average['over'])}." if partly else ""
        notes[_average_title(average)] = f"{average['about']}{over}".strip()
    rows = [(title, text) for title, text in notes.items() if text]
    return PageTable(("", "Notes"), rows, noted=True) if rows else None


def _series(rows: Sequence[Record], model: str) -> Series:
    """Returns the first score of each task and all of a probe, with intervals or extremes of seeds."""
    first: dict[str, Record] = {}
    points = []
    for row in rows:
        score = row["scores"][model]
        is_shown = row["split"] == "all" or first.setdefault(row["task"], row) is row
        if is_shown and score.get("median") is not None:
            ends = min(score["by_seed"]), max(score["by_seed"])
            low, high = ends if score.get("low") is None else (score["low"], score["high"])
            numbers = {"mean": score["median"], "low": low, "high": high}
            points.append((row["title"], {end: 100 * value for end, value in numbers.items()}))
    return Series.through(model, points)
