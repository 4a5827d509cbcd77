"""The page of an analysis: all probes whose JSON files lie in a folder, with their tables and figures. Runs
without torch.

Every number comes from the files `NAME.probe.json`; nothing is computed here. Figures also go to `figures/`
as standalone SVG.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from electra import durable
from electra.errors import ConfigError
from electra.report import charts, svg
from electra.report.page import Block, Fold, Interval, Number, Panel, Section, Table, Text, render, write

ENDING = ".probe.json"
PAGE = "analysis.html"
FORMAT = 1


def write_page(folder: Path) -> Path:
    """Draw everything that lies in `folder` and write its page; returns the page's path."""
    records = read_records(folder)
    drawn: dict[str, str] = {}
    sections = [section(record, drawn) for record in records]
    svg.write_all(folder, drawn)
    names = list(dict.fromkeys(str(model["name"]) for record in records for model in record["models"]))
    summary = "What the model knows, one question at a time. Brackets are 95 % intervals."
    opening: list[Block] = [] if svg.available() else [Text(svg.INSTALL, "quiet")]
    html = render(", ".join(names), sections, kicker="electra analyze", summary=summary, opening=opening)
    write(folder / PAGE, html)
    return folder / PAGE


def read_records(folder: Path) -> list[dict[str, Any]]:
    paths = sorted(folder.glob(f"*{ENDING}"))
    if not paths:
        raise ConfigError(
            f"no probe has been run into this folder (*{ENDING})", where=folder, fix="Run electra analyze"
        )
    return [
        {"stem": path.name.removesuffix(ENDING)}
        | durable.read_record(path, FORMAT, ConfigError, "a probe's record", fix="Run its probe again")
        for path in paths
    ]


def section(record: Mapping[str, Any], drawn: dict[str, str]) -> Section:
    """One probe. Its figures go to `drawn` as standalone SVG."""
    blocks: list[Block] = [_headline(record)] if record["headline"] else []
    blocks += [Text(note) for note in record["notes"]]
    blocks += charts.side_by_side(_panel(record, figure, drawn) for figure in record["figures"])
    for table in record["tables"]:
        first = int(
            len(record["models"]) == 1 and table["columns"][0] == "model"
        )  # one model's name need not stand in every row
        rows = [[_cell(cell) for cell in row[first:]] for row in table["rows"]]
        made: list[Block] = [Table(table["columns"][first:], rows, table["title"])]
        if table["note"]:
            made.append(Text(table["note"], "quiet"))
        blocks += made if len(rows) <= 40 else [Fold(f"{table['title']} ({len(rows)} rows)", made)]
    blocks.append(Fold("What was measured, and with which settings", [_settings(record)]))
    return Section(record["title"], blocks, f"{record['question']} {record['source']}")


def _headline(record: Mapping[str, Any]) -> Block:
    """The numbers that say most, of the first model."""
    return Table(
        ("", record["models"][0]["name"]),
        [(name, _cell(estimate)) for name, estimate in record["headline"].items()],
    )


def _panel(record: Mapping[str, Any], figure: Mapping[str, Any], drawn: dict[str, str]) -> Panel | None:
    name = f"{record['stem']}-{figure['name']}".replace("_", "-")
    return charts.panel(name, figure, figure["title"], figure["note"], drawn)


def _cell(cell: Any) -> object:
    if isinstance(cell, Mapping):
        return Interval(cell["value"], "score", cell["low"], cell["high"])
    if isinstance(cell, bool) or cell is None or isinstance(cell, str):
        return cell if cell is None else str(cell)
    return Number(cell, "score" if isinstance(cell, float) else "plain")


def _settings(record: Mapping[str, Any]) -> Table:
    rows: list[Sequence[object]] = [("probe", f"{record['probe']}, version {record['version']}")]
    for model in record["models"]:
        training = model.get("training")
        at = "" if training is None else f", {training['objective']}, seed {training['seed']}"
        at += "" if model["step"] is None else f", step {model['step']}"
        shapes = "; ".join(
            f"{kind}: {shape['layers']} layers of {shape['hidden_size']}"
            for kind, shape in model["networks"].items()
        )
        rows.append((f"model {model['name']}", f"{model['source']}{at} ({shapes})"))
    rows += [
        (f"data: {key}", ", ".join(f"{file['folder']}/{file['file']}" for file in files))
        for key, files in record["data"].items()
    ]
    rows += [(f"option {key}", str(value)) for key, value in record["options"].items()]
    return Table(("", ""), rows)
