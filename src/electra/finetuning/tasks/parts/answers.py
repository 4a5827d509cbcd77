"""Answers in the cells of tables: missing values, spellings of a label, several labels in one cell."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Any

from electra.foundation.errors import DataError

# Cells without an answer: what pandas reads as missing, dashes, and what spreadsheets and databases write.
MISSING = frozenset(
    {
        *("", "?", "-", "--", "---", "\u2013", "\u2014", "\u2212", "\\N", "NaT", "n.a.", "(null)"),
        *("NA", "N/A", "n/a", "<NA>", "NaN", "nan", "-NaN", "-nan", "None", "NULL", "Null", "null"),
        *("#N/A", "#N/A N/A", "#NA", "#VALUE!", "#REF!", "#DIV/0!", "#NAME?", "#NUM!", "#NULL!"),
        *("1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
    }
)
_NUMBER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)?(?:\.[0-9]*)?")  # numeric labels; 007 is a code, not a number


def clean_answer(value: Any) -> Any:
    """Returns a cell's value without surrounding white space; None if it is None or NaN."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        return value.strip().strip("\u200b\ufeff")  # zero-width characters
    return value


def is_missing(answer: Any, labels: Sequence[str] = ()) -> bool:
    """Whether a cell means that there is no answer; none of the known `labels` does."""
    return answer is None or (isinstance(answer, str) and answer in MISSING and answer not in labels)


@cache
def label_key(name: str) -> Hashable:
    """Returns a key that is the same for all spellings of a label.

    The spellings of a number (1, 1.0) or of a truth value (true, TRUE) share a key, and so do composed and
    decomposed accents.
    """
    if _NUMBER.fullmatch(name) and any(map(str.isdigit, name)):
        return Decimal(name).normalize()
    return name.lower() if name.lower() in ("true", "false") else unicodedata.normalize("NFC", name)


_FLAGS = {label_key(name): name in ("1", "true") for name in ("0", "1", "false", "true")}


@cache
def label_indices(labels: tuple[str, ...]) -> Mapping[Hashable, int]:
    """Maps the `label_key` of each label to its index."""
    return {label_key(name): index for index, name in enumerate(labels)}


def spellings(names: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Maps each name to the shortest spelling of its label; also returns notes on labels with several."""
    counts = Counter(names)
    by_key: dict[Hashable, list[str]] = {}
    for name in counts:
        by_key.setdefault(label_key(name), []).append(name)
    spelling_of: dict[str, str] = {}
    notes = []
    for variants in by_key.values():
        spelling = min(variants, key=lambda name: (len(name), -counts[name], name))
        spelling_of |= dict.fromkeys(variants, spelling)
        if len(variants) > 1:
            notes.append(f"{' and '.join(sorted(variants))} are one label, read as {spelling}")
    return spelling_of, tuple(notes)


def parse_labels(value: Any, where: str) -> list[str]:
    """Returns the labels in a cell; duplicates and empty names are not removed.

    The cell is a list, in a string as JSON; a string with commas, semicolons or bars between labels; or an
    object with 0 or 1 for each label.

    Raises:
        DataError: the cell is none of these, or has fractions in place of 0 and 1.
    """
    if isinstance(value, Mapping):
        flags = {name: _FLAGS.get(label_key(str(flag).strip())) for name, flag in value.items()}
        if (name := next((name for name, flag in flags.items() if flag is None), None)) is not None:
            problem = f"the value of label {name!r} must be 0 or 1, not {value[name]!r}"
            raise DataError(problem, where=where)
        return [str(name) for name, flag in flags.items() if flag]
    items = [value] if isinstance(value, int) else value
    if isinstance(value, str):
        if not re.search(r"^[({<].*[)}>]$|[\[\]]", value.strip()):
            return [name.strip() for name in re.split("[,;|]", value)]
        try:
            items = json.loads(value)
        except (ValueError, RecursionError):
            items = None
    if not isinstance(items, list | tuple) or not all(isinstance(item, str | int | float) for item in items):
        fix = 'Write ["a", "b"], or a|b'
        raise DataError(f"{value!r} is not a list of labels", where=where, fix=fix)
    if any(isinstance(item, float) and item not in (0, 1) for item in items):
        fix = "Write 1 for each label that applies, and 0 for the others"
        raise DataError(f"{value!r} contains fractions instead of labels", where=where, fix=fix)
    return [str(item).strip() for item in items]


def as_vectors(answers: Sequence[Sequence[str]]) -> list[list[bool]] | None:
    """Returns the answers as vectors of flags if all are vectors of 0 and 1; else None.

    Raises:
        DataError: the answers are vectors of different lengths.
    """
    rows = [[_FLAGS.get(label_key(name)) for name in answer] for answer in answers]
    flags = [[bool(flag) for flag in row] for row in rows if None not in row]
    if len(flags) < len(rows):
        return None
    widths = {*map(len, flags)}
    # A list of labels called 0 and 1 would not repeat one of them.
    if len(widths) > 1 and any(len({*row}) < len(row) for row in flags):
        problem = f"the answers are vectors of different lengths, {min(widths)} to {max(widths)}"
        raise DataError(problem, fix="Write one number for each label in every row")
    return flags if len(widths) == 1 and min(widths) > 1 else None
