"""Writes the page of an analysis: the tables and figures of all probes whose JSON files are in a folder.

Every number comes from the files `NAME.probe.json`; nothing is computed here. Records of format 1 contain
complete tables and figures; those of format 2 contain numbers in long form, and declare how to show them
(`electra.laboratory.analysis.contract.findings`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from electra.artifacts.evaluation import AnalysisFolder
from electra.foundation import durable
from electra.foundation.errors import ConfigError
from electra.pages.figures import Figure, Series
from electra.pages.page import Block, Figures, Fold, Number, Page, Section, Table, Text, publish
from electra.pages.verdicts import format_interval, value_of, verdict

FORMATS = (1, 2)
MAX_IN_LINE = 4  # headline numbers in one line
MAX_ROWS = 40  # longer tables are folded


def write_page(folder: Path) -> Path:
    """Writes the page of all probe records in a folder and returns its path.

    Raises ConfigError if there are none.
    """
    records = read_records(folder)
    names = dict.fromkeys(str(model["name"]) for record in records for model in record["models"])
    page = Page(
        f"Analysis of {', '.join(names)}",
        [section(record) for record in records],
        kicker="electra analyze",
        summary="What the model has learned, one question per section. Brackets show 95 % intervals.",
        opening=_verdicts(records),
    )
    return publish(page, AnalysisFolder(folder).page, folder)


def _verdicts(records: Sequence[Mapping[str, Any]]) -> list[Block]:
    """Returns every probe's result in one sentence, for the first screen."""
    rows = [
        (record["title"], result.sentence) for record in records if (result := verdict(record)) is not None
    ]
    how = "Above: the whole interval is above the best baseline (chance, a rule or random initialization)."
    table = Table(("Probe", "Main result"), rows, noted=True)
    return [table, Text(how, "quiet")] if rows else []


def read_records(folder: Path) -> list[dict[str, Any]]:
    """Reads all probe records in a folder. Raises ConfigError if there are none."""
    probes = AnalysisFolder(folder).probes()
    if not probes:
        problem = f"no probe results here ({AnalysisFolder.RECORD})"
        raise ConfigError(problem, where=folder, fix="Run electra analyze")
    return [{"stem": name} | read_record(path) for name, path in probes.items()]


def read_record(path: Path) -> dict[str, Any]:
    """Reads a probe's record, with `tables` and `figures` filled in. Raises ConfigError if it is not one."""
    fix = "Rerun its probe"
    record = durable.read_json(path, ConfigError, fix)
    if not isinstance(record, dict) or record.get("format") not in FORMATS:
        raise ConfigError("not a probe record of this version", where=path, fix=fix)
    return record if record["format"] == 1 else {**record, **arrange(record)}


def headline(record: Mapping[str, Any]) -> str:
    """Returns the headline numbers of a record with their intervals, in one line; empty if it has none."""
    known = [
        (name, estimate) for name, estimate in record["headline"].items() if value_of(estimate) is not None
    ]
    shown = [
        f"{name} {value_of(estimate):z.3f}{format_interval(estimate)}"
        for name, estimate in known[:MAX_IN_LINE]
    ]
    more = [f"{len(known) - MAX_IN_LINE} more on the page"] if len(known) > MAX_IN_LINE else []
    return "; ".join([*shown, *more])


def arrange(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the tables and figures that a record of format 2 declares, with its numbers."""
    frames = {frozenset(frame["axes"]): frame for frame in record["numbers"]}
    return {
        "tables": [_arrange_table(table, Cells(frames, table, table["down"])) for table in record["tables"]],
        "figures": [
            _arrange_figure(figure, Cells(frames, figure, [figure["series"]])) for figure in record["figures"]
        ],
    }


class Cells:
    """The numbers of a table or figure; `by_place` maps (places down, place across) to a cell.

    They come from the frame whose axes are `down`, the axis across, and those that `view` keeps, at the
    places that the view keeps.
    """

    def __init__(
        self, frames: Mapping[frozenset[str], Any], view: Mapping[str, Any], down: Sequence[str]
    ) -> None:
        keep, across = view["keep"], view.get("across") or view["x"]
        frame = frames.get(frozenset({*down, across, *keep}), {"axes": [], "rows": []})
        axes = frame["axes"]
        self.by_place: dict[tuple[tuple[Any, ...], Any], Any] = {}
        for row in frame["rows"]:
            place_on = dict(zip(axes, row, strict=False))
            if all(place_on[axis] in _listed(places) for axis, places in keep.items()):
                self.by_place[tuple(place_on[axis] for axis in down), place_on[across]] = _cell_of(
                    row[len(axes) :]
                )
        self.down = _ordered([places for places, _ in self.by_place], [keep.get(axis) for axis in down])
        self.across = [
            place for (place,) in _ordered([(place,) for _, place in self.by_place], [keep.get(across)])
        ]


def _listed(places: Any) -> list[Any]:
    return places if isinstance(places, list) else [places]


def _cell_of(values: Sequence[Any]) -> Any:
    return values[0] if len(values) == 1 else dict(zip(("value", "low", "high"), values, strict=True))


def _ordered(places: Sequence[tuple[Any, ...]], orders: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Returns distinct places: on each axis in its declared order, or else in order of first appearance."""

    def rank(place: tuple[Any, ...]) -> list[int]:
        pairs = zip(place, orders, strict=True)
        return [order.index(each) if isinstance(order, list) else 0 for each, order in pairs]

    return sorted(dict.fromkeys(places), key=rank)


def _arrange_table(table: Mapping[str, Any], cells: Cells) -> dict[str, Any]:
    rows = [[*down, *(cells.by_place.get((down, place)) for place in cells.across)] for down in cells.down]
    return {
        "title": table["title"],
        "columns": [*table["down"], *cells.across],
        "rows": rows,
        "note": table["note"],
    }


def _arrange_figure(figure: Mapping[str, Any], cells: Cells) -> dict[str, Any]:
    kind, series = figure["kind"], []
    across = sorted(cells.across) if kind == "lines" else cells.across
    for (label,) in cells.down:
        line = {x: cells.by_place[(label,), x] for x in across if ((label,), x) in cells.by_place}
        known = [cell if isinstance(cell, dict) else {"value": cell} for cell in line.values()]
        y, low, high = ([cell.get(end) for cell in known] for end in ("value", "low", "high"))
        if kind == "matrix" or not any(end is not None for end in (*low, *high)):
            low = high = []  # no interval to draw
        style = "points" if kind == "categories" or label in figure["dots"] else "line"
        series.append(
            {"label": str(label), "x": list(line), "y": y, "low": low, "high": high, "style": style}
        )
    span = figure["x_range"] or [across[0], across[-1]] if kind == "lines" and across else across[:1]
    for label, value in figure["references"].items():
        y = span if value == "diagonal" else [value] * len(span)
        series.append({"label": label, "x": span, "y": y, "low": [], "high": [], "style": "reference"})
    labels = {"x": figure["x"], "y": figure["unit"]} if kind == "lines" else {"x": figure["unit"], "y": ""}
    return {**figure, **labels, "series": series}


def section(record: Mapping[str, Any]) -> Section:
    """Returns the section of a probe."""
    tables: list[Block | None] = []
    for table in record["tables"]:
        # With a single model, its name is not repeated in every row.
        first_column = int(len(record["models"]) == 1 and table["columns"][0] == "model")
        rows = [[_cell(cell) for cell in row[first_column:]] for row in table["rows"]]
        note = Text(table["note"], "quiet") if table["note"] else None
        blocks = [Table(table["columns"][first_column:], rows, table["title"]), note]
        tables += blocks if len(rows) <= MAX_ROWS else [Fold(f"{table['title']} ({len(rows)} rows)", blocks)]
    # The headline numbers are those of the first model.
    headline_rows = [(name, _cell(estimate)) for name, estimate in record["headline"].items()]
    return Section(
        record["title"],
        [
            Table(("", record["models"][0]["name"]), headline_rows) if headline_rows else None,
            *map(Text, record["notes"]),
            Figures.of(*(_figure(record["stem"], figure) for figure in record["figures"])),
            *tables,
            Fold("Models, data and settings", [_settings(record)]),
        ],
        f"{record['question']} {record['source']}",
    )


def _figure(stem: str, figure: Mapping[str, Any]) -> Figure:
    attributes = {key: figure[key] for key in ("title", "note", "kind", "x", "y", "x_range", "y_range")}
    series = [Series(**series) for series in figure["series"]]
    return Figure(f"{stem}-{figure['name']}".replace("_", "-"), series=series, **attributes)


def _cell(cell: Any) -> object:
    if isinstance(cell, Mapping):
        return Number(cell["value"], "score", cell["low"], cell["high"])
    if isinstance(cell, bool) or cell is None or isinstance(cell, str):
        return cell if cell is None else str(cell)
    return Number(cell, "score" if isinstance(cell, float) else "plain")


def _settings(record: Mapping[str, Any]) -> Table:
    rows = {"probe": f"{record['probe']}, version {record['version']}"}
    for model in record["models"]:
        training = model.get("training")
        training_text = "" if training is None else f", {training['objective']}, seed {training['seed']}"
        training_text += "" if model["step"] is None else f", step {model['step']}"
        shapes = "; ".join(
            f"{kind}: {shape['layers']} layers of {shape['hidden_size']}"
            for kind, shape in model["networks"].items()
        )
        rows[f"model {model['name']}"] = f"{model['source']}{training_text} ({shapes})"
    for key, files in record["data"].items():
        rows[f"data: {key}"] = ", ".join(f"{file['folder']}/{file['file']}" for file in files)
    return Table.pairs({**rows, **{f"option {key}": value for key, value in record["options"].items()}})
