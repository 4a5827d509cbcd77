"""Parses the answers in tables: missing values, spellings of a label, and lists of labels in a cell."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Any

from electra.foundation.errors import DataError

# Marks of missing values, in upper or lower case: dashes, the marks that C, pandas and databases print, and
# spreadsheet errors. AMBIGUOUS_MARKS may also be labels (North America, none of the classes): a mark is read
# as a label if it is at least half as frequent as the mean of the other labels.
MISSING = re.compile(
    r"|[-\u2010-\u2015\u2212]+|\?|-?nan|nat|<na>|n\.?/?a\.|n/a|-?1\.#\w+|\\n|\((?:null|none)\)"
    r"|#(?:na|n/a|n/a n/a|null!|value!|ref!|div/0!|name\?|num!)",
    re.IGNORECASE,
)
AMBIGUOUS_MARKS = ("NA", "None", "null", "NULL", ".", "_")
_NUMBER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)?(?:\.[0-9]*)?")  # numeric labels; 007 is a code, not a number
_ITEM = re.compile(
    r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^,;|'"\[\](){}]+))\s*(?:[,;|]\s*|(?=['"])|$)"""
)
_BRACKETS = {"[": "]", "(": ")", "{": "}"}
_CALL = re.compile(r"[A-Za-z][\w.]*\(.*\)", re.DOTALL)  # array([...]), as a program prints it
_SEPARATOR = re.compile(r"[,;|]")  # between labels in a cell without brackets
_VECTOR = re.compile(r"(?:[01]\.?0*|True|False)(?:\s+(?:[01]\.?0*|True|False))+")
_NOT_LABELS = ("...", "None", "nan", "NaN", "null")  # not labels if they are unquoted in a list


def clean_answer(value: Any) -> Any:
    """Returns a cell's value without surrounding white space; None if it is None or NaN."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        return value.strip().strip("\u200b\ufeff")  # zero-width characters
    return value


def missing_marks(answers: Sequence[Any], labels: Sequence[str] = ()) -> frozenset[str]:
    """Returns the marks of `AMBIGUOUS_MARKS` that mean a missing answer in this file.

    Args:
        answers: the cells of the column.
        labels: the known labels (() to infer them from the answers).
    """
    if labels:
        return frozenset(AMBIGUOUS_MARKS) - frozenset(labels)
    counts = Counter(str(answer) for answer in answers if not is_missing(answer))
    other_counts = [count for name, count in counts.items() if name not in AMBIGUOUS_MARKS]
    mean_count = sum(other_counts) / len(other_counts) if other_counts else 0
    return frozenset(name for name in AMBIGUOUS_MARKS if 2 * counts[name] < mean_count)


def is_missing(answer: Any, marks: frozenset[str] = frozenset()) -> bool:
    """Whether a cell means that there is no answer; `marks` come from `missing_marks`."""
    return answer is None or (isinstance(answer, str) and bool(MISSING.fullmatch(answer) or answer in marks))


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
    """Maps each name to the shortest spelling of its label.

    Also returns notes on labels with several spellings and on labels that differ only in case.
    """
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
    labels = {*spelling_of.values()}
    folded_counts = Counter(name.casefold() for name in labels)
    if mixed_case := sorted(name for name in labels if folded_counts[name.casefold()] > 1):
        notes.append(
            f"{', '.join(map(repr, mixed_case[:6]))} differ only in case: read as {len(mixed_case)} labels"
        )
    return spelling_of, tuple(notes)


def parse_labels(value: Any, where: str) -> list[str]:
    """Returns the labels in a cell; duplicates and empty names are not removed.

    The cell may be a list; an object with 0 or 1 for each label; a string with commas, semicolons or bars
    between labels; or a list as Python, JSON, numpy or a database writes it.

    Raises:
        DataError: the cell is none of these, or has fractions in place of 0 and 1.
    """
    if isinstance(value, Mapping):
        flags = {name: _FLAGS.get(label_key(str(flag).strip())) for name, flag in value.items()}
        if invalid_names := [name for name, flag in flags.items() if flag is None]:
            problem = (
                f"the value of label {invalid_names[0]!r} must be 0 or 1, not {value[invalid_names[0]]!r}"
            )
            raise DataError(problem, where=where)
        return [str(name) for name, flag in flags.items() if flag]
    names = _parse_text(value, where) if isinstance(value, str) else _parse_list(value, where)
    keys = [label_key(name) for name in names]
    if keys and all(isinstance(key, Decimal) for key in keys) and any(0 < key < 1 for key in keys):  # type: ignore[operator]
        problem = f"{value!r} contains fractions instead of labels"
        raise DataError(problem, where=where, fix="Write 1 for each label that applies, and 0 for the others")
    return names


def _parse_list(value: Any, where: str) -> list[str]:
    value = [value] if isinstance(value, int) else value
    if not isinstance(value, list | tuple) or not all(isinstance(item, str | int | float) for item in value):
        raise DataError(f"{value!r} is not a list of labels", where=where)
    return [str(item).strip() for item in value]


def _parse_text(cell: str, where: str) -> list[str]:
    text = cell.strip()
    if _VECTOR.fullmatch(text):
        return text.split()
    if re.fullmatch("(?:<[^<>]+>)+", text):
        return text[1:-1].split("><")
    error = DataError(f"{cell!r} is not a valid list of labels", where=where, fix='Write ["a", "b"], or a|b')
    closing = _BRACKETS.get(text[:1], "")
    if _CALL.fullmatch(text) or (text[:1] == "[" and text[-1] != "]"):
        raise error
    if not closing or not text.endswith(closing):  # "(USA) film"
        return [name.strip() for name in _SEPARATOR.split(text)]
    inner, position, names = text[1:-1].strip().rstrip(","), 0, []
    if _VECTOR.fullmatch(inner):
        return inner.split()
    while position < len(inner):
        item = _ITEM.match(inner, position)
        if item is None or item.end() == position:
            raise error
        single, double, bare = item.groups()
        ambiguous = not _SEPARATOR.search(inner) and bare is not None and len(bare.split()) > 1  # [new york]
        if bare is not None and (":" in bare or bare.strip() in _NOT_LABELS or ambiguous):
            raise error
        names.append((bare if bare is not None else re.sub(r"\\(.)", r"\1", single or double or "")).strip())
        position = item.end()
    return names


def as_vectors(answers: Sequence[Sequence[str]]) -> list[list[bool]] | None:
    """Returns the answers as vectors of flags if all are vectors of 0 and 1 or strings like 0110; else None.

    Raises:
        DataError: the answers are vectors of different lengths.
    """
    if any(len(answer) == 1 and re.fullmatch("0[01]+", answer[0]) for answer in answers):
        answers = [tuple(answer[0]) if len(answer) == 1 else answer for answer in answers]
    flags = [
        [flag for name in answer if (flag := _FLAGS.get(label_key(name))) is not None] for answer in answers
    ]
    widths = {*map(len, flags)}
    if [*map(len, flags)] != [*map(len, answers)]:
        return None
    # A list of labels called 0 and 1 would not repeat one of them.
    if len(widths) > 1 and any(len({*row}) < len(row) for row in flags):
        problem = f"the answers are vectors of different lengths, {min(widths)} to {max(widths)}"
        raise DataError(problem, fix="Write one number for each label in every row")
    return flags if len(widths) == 1 and min(widths) > 1 else None


def combined_labels(names: Collection[str]) -> list[str]:
    """Returns the labels that consist of several other labels: "joy film", "joy/film", "<joy><film>"."""
    words_of = {name: re.findall(r"[\w.-]+", name) for name in {*names}}
    all_labels = {" ".join(words) for words in words_of.values()}
    return sorted(name for name, words in words_of.items() if len(words) > 1 and all_labels.issuperset(words))
