"""Reads what annotation tools add to rows: marks that void an answer, and Label Studio's annotations."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from electra.data.tables.lines import Place
from electra.data.tables.table import DEFAULT_OPTIONS, ReadOptions, Row, Table, open_table
from electra.data.tables.table_files import Data
from electra.foundation.terminal_text import plural

_TRUTH = ({"true", "1", "yes"}, {"false", "0", "no"})
_REVIEW = (
    {"rejected", "discarded", "ignored", "skipped"},
    set(str.split("accepted approved submitted completed validated reviewed done default draft pending")),
)
# Columns of marks: the values that void the answer of their row, and those that do not. A column with any
# other value has data.
MARKS: dict[str, tuple[set[str], set[str]]] = {
    "answer": ({"reject", "ignore"}, {"accept"}),  # Prodigy
    "was_cancelled": _TRUTH,  # Label Studio
    "skipped": _TRUTH,  # Labelbox
    "discarded": _TRUTH,
    "status": ({"discarded"}, _REVIEW[1] - {"accepted", "approved", "done"}),  # Argilla
    "AssignmentStatus": _REVIEW,  # Mechanical Turk
    "annotation_status": _REVIEW,
    "review_status": _REVIEW,
}
_ANNOTATIONS = ("annotations", "completions")  # names of Label Studio's lists of them
_VALUES = ("choices", "rating", "number", "selected")  # of the results that answer for a whole text


def open_annotated(source: Data, options: ReadOptions = DEFAULT_OPTIONS, label: Sequence[str] = ()) -> Table:
    """Opens labelled data like `open_table`; Label Studio's answers for whole texts become columns.

    Each has the name of its control, or the first of the names `label` if there is one control and the table
    has none of these columns. Rows all of whose annotations were cancelled are marked `was_cancelled`.
    """
    table = open_table(source, options)
    name = table.first_column(_ANNOTATIONS)
    if table.headed or name is None:
        return table
    rows, answers, num_others = list(table.rows), list[dict[str, Any]](), 0
    for _, row in rows:
        annotation, others = chosen_annotation(row.get(name))
        answers.append({} if annotation is None else _answers(annotation))
        num_others += others
        if annotation == {}:
            row["was_cancelled"] = True
    controls = list(dict.fromkeys(control for each in answers for control in each))
    added = {control: control for control in controls}
    if len(controls) == 1 and label and table.first_column(label) is None:
        added = {controls[0]: label[0]}
    for (_, row), answer in zip(rows, answers, strict=True):
        row.update({added[control]: value for control, value in answer.items()})
    fields = dict.fromkeys([*table.fields, *added.values()])
    columns = dict.fromkeys(each for each in table.columns if not (added and each == name))
    columns |= dict.fromkeys(added.values())
    if any("was_cancelled" in row for _, row in rows):
        columns["was_cancelled"] = None
    if added and num_others:
        note = f"{num_others:,} further annotations of the same texts left out"
        table.notes = (*table.notes, note)
    return replace(table, columns=tuple(columns), rows=iter(rows), fields=tuple(fields))


def chosen_annotation(cell: Any) -> tuple[dict[str, Any] | None, int]:
    """Returns Label Studio's ground truth or first annotation, and the number of others that are valid.

    The annotation is {} if all were cancelled, and None if the cell has none of Label Studio's.
    """
    if not isinstance(cell, list) or not any(isinstance(item, dict) and "result" in item for item in cell):
        return None, 0
    valid = [item for item in cell if isinstance(item, dict) and not item.get("was_cancelled")]
    first, *others = sorted(valid, key=lambda item: not item.get("ground_truth")) or [{}]
    return first, len(others)


def _answers(annotation: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    results = annotation.get("result")
    for result in results if isinstance(results, list) else []:
        match result:
            case {"value": {**value}} if "start" not in value:
                for key in [key for key in _VALUES if key in value]:
                    found[str(result.get("from_name", key))] = value[key]
    return found


def voided(
    table: Table, rows: Sequence[tuple[Place, Row]], used: Collection[str | None], labelled: bool
) -> tuple[frozenset[int], frozenset[str], list[str]]:
    """Returns the indices of rows whose answers an annotation tool marks as rejected, ignored or cancelled.

    Also returns the columns of such marks, and notes; columns that are `used` as data have none. `labelled`:
    whether the rows are left out, rather than read without their answers.
    """
    indices, columns, notes = set[int](), set[str](), list[str]()
    for name, (voiding, valid) in MARKS.items():
        column = table.find_column(name)
        if column is None or column in used:
            continue
        values = ["" if row.get(column) is None else str(row[column]).strip().casefold() for _, row in rows]
        found = {index for index, value in enumerate(values) if value in voiding}
        if not {*values} <= {*voiding, *valid, ""} or not any(values):
            continue
        columns.add(column)
        if found:
            counts = Counter(values[index] for index in sorted(found))
            listed = ", ".join(f"{value} {count:,}" for value, count in counts.most_common())
            verb = "left out" if labelled else "read without an answer"
            notes.append(f"{plural(len(found), 'row')} {verb}, as column {column} says ({listed})")
            indices |= found
    return frozenset(indices), frozenset(columns), notes
