"""The page of an analysis: results, figures and tables of all probes whose records are in a folder.

Every number comes from the files `NAME.probe.json`, which contain numbers in long form, and say how to show
them (`electra.laboratory.analysis.contract.findings`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from electra.artifacts.evaluation_files import AnalysisFolder
from electra.foundation import durable
from electra.foundation.errors import ConfigError
from electra.pages.figures import Figure, Series
from electra.pages.page import Number, Page, PageTable, Section, publish

FORMAT = 2
MAX_IN_LINE = 4  # headline numbers in one line
MAX_ROWS = 40  # longer tables are folded
Record = Mapping[str, Any]


def write_page(path: Path) -> Path:
    """Writes the page of all probe records in a folder. Raises ConfigError if there are none."""
    folder = AnalysisFolder(path)
    if not folder.probes():
        raise ConfigError(f"no probe results here ({folder.RECORD})", where=path, fix="Run electra analyze")
    records = {name: read_record(file) for name, file in folder.probes().items()}
    models = dict.fromkeys(str(model["name"]) for record in records.values() for model in record["models"])
    results = [(record["title"], text) for record in records.values() if (text := headline(record))]
    lead = "Of the first model, with 95 % intervals in brackets."
    summary = Section("Main results", lead, tables=[PageTable(("Probe", "Main result"), results, noted=True)])
    page = Page(
        f"Analysis of {', '.join(models)}",
        f"{len(records)} probes.",
        [summary if results else None, *(section(name, record) for name, record in records.items())],
        kicker="electra analyze",
        commands=folder.commands,
    )
    return publish(page, folder.page)


def read_record(path: Path) -> dict[str, Any]:
    """Reads a probe's record. Raises ConfigError if it is not one of this version."""
    return durable.read_record(path, FORMAT, ConfigError, "a probe's record", fix="Rerun its probe")


def headline(record: Record) -> str:
    """Returns the headline numbers of a record with their intervals, in one line; empty if it has none."""
    known = []
    for name, number in record["headline"].items():
        found = number if isinstance(number, Mapping) else {"value": number}
        if isinstance(found["value"], float):
            ends = [f"{found[end]:z.3f}" for end in ("low", "high") if found.get(end) is not None]
            interval = f" [{', '.join(ends)}]" if len(ends) == 2 else ""
            known.append(f"{name} {found['value']:z.3f}{interval}")
    more = [f"{len(known) - MAX_IN_LINE} more on the page"] if len(known) > MAX_IN_LINE else []
    return "; ".join([*known[:MAX_IN_LINE], *more])


def _cells(numbers: Sequence[Any], view: Record, down: Sequence[str]) -> tuple[dict[Any, Any], list[Any], list[Any]]:
    """Returns the numbers of a view by (places down, place across), and these places in the view's order."""
    keep = {axis: kept if isinstance(kept, list) else [kept] for axis, kept in view["keep"].items()}
    across = view.get("across") or view["x"]
    wanted = {*down, across, *keep}
    axes, rows = next(((f["axes"], f["rows"]) for f in numbers if {*f["axes"]} == wanted), ([], []))
    found = {}
    for row in rows:
        at, values = dict(zip(axes, row, strict=False)), row[len(axes) :]
        if all(at[axis] in kept for axis, kept in keep.items()):
            interval = dict(zip(("value", "low", "high"), values, strict=False))
            found[tuple(at[axis] for axis in down), at[across]] = interval if len(values) > 1 else values[0]

    def rank(axis: str, place: Any) -> int:
        return keep[axis].index(place) if axis in keep else 0

    places = sorted(dict.fromkeys(place for place, _ in found), key=lambda place: [*map(rank, down, place)])
    columns = sorted(dict.fromkeys(place for _, place in found), key=lambda place: rank(across, place))
    return found, places, columns


def table_of(table: Record, numbers: Sequence[Any]) -> tuple[list[Any], list[list[Any]]]:
    """Returns the columns and rows of a table that a record declares, from its numbers."""
    cells, down, across = _cells(numbers, table, table["down"])
    rows = [[*place, *(cells.get((place, column)) for column in across)] for place in down]
    return [*table["down"], *across], rows


def figure_of(figure: Record, numbers: Sequence[Any], name: str = "") -> Figure:
    """Returns a figure that a record declares, from its numbers."""
    cells, down, across = _cells(numbers, figure, [figure["series"]])
    kind, series = figure["kind"], list[Series]()
    across = sorted(across) if kind == "lines" else across
    for (label,) in down:
        x = [place for place in across if kind == "matrix" or ((label,), place) in cells]
        found = [cells.get(((label,), place)) for place in x]
        known = [cell if isinstance(cell, Mapping) else {"value": cell} for cell in found]
        y, low, high = ([cell.get(end) for cell in known] for end in ("value", "low", "high"))
        if kind == "matrix" or not any(end is not None for end in (*low, *high)):
            low = high = []  # no interval to draw
        has_dots = kind == "categories" or label in figure.get("dots", ())
        series.append(Series(str(label), x, y, low, high, "points" if has_dots else "line"))
    span = figure["x_range"] or [across[0], across[-1]] if kind == "lines" and across else across[:1]
    for label, value in figure["references"].items():
        y = span if value == "diagonal" else [value] * len(span)
        series.append(Series(label, span, y, style="reference"))
    axes = (figure["x"], figure["unit"]) if kind == "lines" else (figure["unit"], "")
    given = {key: figure[key] for key in ("title", "note", "kind", "x_range", "y_range")}
    return Figure(name, series=series, x=axes[0], y=axes[1], **given)


def section(name: str, record: Record) -> Section:
    """Returns the section of the probe whose record is called `name`."""
    first = record["models"][0]["name"]  # the headline numbers are those of the first model
    rows = [(label, _cell(number)) for label, number in record["headline"].items()]
    tables, notes = [PageTable(("", first), rows)] if rows else [], [*record["notes"]]
    for each in record["tables"]:
        columns, table = table_of(each, record["numbers"])
        # With a single model, its name is not repeated in every row.
        start = int(len(record["models"]) == 1 and columns[0] == "model")
        cells = [[_cell(cell) for cell in row[start:]] for row in table]
        caption = each["title"] + (f" ({each['note'].rstrip('.')})" if each["note"] else "")
        tables.append(PageTable(columns[start:], cells, caption, folded=len(cells) > MAX_ROWS))
    settings = {key: record[key] for key in ("probe", "version", "models", "data", "options")}
    tables.append(PageTable.pairs("Models, data and settings", settings))
    figures = [figure_of(each, record["numbers"], f"{name}-{each['name']}") for each in record["figures"]]
    return Section(record["title"], f"{record['question']} {record['source']}", notes, figures, tables)


def _cell(cell: Any) -> object:
    if isinstance(cell, Mapping):
        return Number(cell["value"], ".3f", cell["low"], cell["high"])
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        return cell if cell is None else str(cell)
    return Number(cell, ".3f" if isinstance(cell, float) else "")
