"""Answers as people's tables have them: marks that there is none, one label in several spellings, and the
many ways to write several labels in a cell.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Any

from electra.foundation.errors import DataError

# What tables write where there is no answer, in any case. NA, None and null also name things (North America,
# none of the classes): they are labels where they are about as frequent as the others are.
MISSING = ("", "-", "--", "?", "nan", "<na>", "n/a", "#n/a")
OFTEN_MISSING = ("NA", "None", "null", "NULL")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)?(?:\.[0-9]*)?")  # as labels: 007 is a code
_ITEM = re.compile(
    r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^,;|'"\[\](){}]+))\s*(?:[,;|]\s*|(?=['"])|$)"""
)
_BRACKETS = {"[": "]", "(": ")", "{": "}"}
_CALL = re.compile(
    r"(?:array|set|frozenset|list|tuple|WrappedArray|Array|List)\((.*?)(?:, dtype=[\w<>'.]+)?\)", re.S
)
_BETWEEN = re.compile(r"[,;|]")  # labels in a cell without brackets
_VECTOR = re.compile(r"[01]\.?0*(?:\s+[01]\.?0*)+")


def as_answer(value: Any) -> Any:
    """A cell's value without spaces around it; None where it is empty or no number."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        return value.strip()
    return value


def missing_marks(answers: Sequence[Any], labels: Sequence[str] = ()) -> frozenset[str]:
    """Which of the words that may mean it do say that there is no answer.

    labels: those that are known to be labels (() where only the answers tell).
    """
    if labels:
        return frozenset(OFTEN_MISSING) - frozenset(labels)
    counts = Counter(str(answer) for answer in answers if not is_missing(answer))
    others = [count for name, count in counts.items() if name not in OFTEN_MISSING]
    usual = sum(others) / len(others) if others else 0
    return frozenset(name for name in OFTEN_MISSING if 2 * counts[name] < usual)


def is_missing(answer: Any, marks: frozenset[str] = frozenset()) -> bool:
    return answer is None or (isinstance(answer, str) and (answer.lower() in MISSING or answer in marks))


@cache
def label_key(name: str) -> Hashable:
    """Equal for spellings of one label: a number is one however it is written, and so is true or false."""
    if _NUMBER.fullmatch(name) and any(map(str.isdigit, name)):
        return Decimal(name).normalize()
    return name.lower() if name.lower() in ("true", "false") else name


@cache
def places(labels: tuple[str, ...]) -> Mapping[Hashable, int]:
    """The place of each label by its key."""
    return {label_key(name): place for place, name in enumerate(labels)}


def spellings(names: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Name -> the spelling of that label that is kept, the shortest; a note where there are several."""
    counts = Counter(names)
    together: dict[Hashable, list[str]] = {}
    for name in counts:
        together.setdefault(label_key(name), []).append(name)
    kept: dict[str, str] = {}
    notes = []
    for same in together.values():
        best = min(same, key=lambda name: (len(name), -counts[name], name))
        kept |= dict.fromkeys(same, best)
        if len(same) > 1:
            notes.append(f"{' and '.join(sorted(same))} are one label, read as {best}")
    return kept, tuple(notes)


def labels_in(value: Any, where: str) -> list[str]:
    """The labels in a cell, with those that are there twice; DataError where it cannot be told.

    A list; an object of 0 and 1 by label; a text with commas, semicolons or bars between; or a list as
    Python, JSON, numpy, Spark and databases print it.
    """
    if isinstance(value, Mapping):
        flags = {name: _flag(flag) for name, flag in value.items()}
        if unclear := [name for name, flag in flags.items() if flag is None]:
            what = f"the label {unclear[0]!r} has {value[unclear[0]]!r}, which is neither 0 nor 1"
            raise DataError(what, where=where)
        return [str(name) for name, flag in flags.items() if flag]
    if isinstance(value, str):
        return _in_text(value, where)
    if not isinstance(value, list | tuple) or not all(isinstance(item, str | int | float) for item in value):
        raise DataError(f"{value!r} is not a list of labels", where=where)
    return [str(item).strip() for item in value]


def _flag(value: Any) -> bool | None:
    """Whether a label is right, by what stands for it; None where that is unclear."""
    said = str(value).strip().lower()
    return True if said in ("1", "1.0", "true") else False if said in ("0", "0.0", "false") else None


def _in_text(cell: str, where: str) -> list[str]:
    text = cell.strip()
    while call := _CALL.fullmatch(text):
        text = call[1].strip()
    if _VECTOR.fullmatch(text):
        return text.split()
    closing = _BRACKETS.get(text[:1], "")
    if not closing or (text[0] != "[" and not text.endswith(closing)):  # "(USA) film"
        return [name.strip() for name in _BETWEEN.split(text)]
    refused = DataError(
        f"{cell!r} is not a list of labels that can be read",
        where=where,
        fix='Write ["a", "b"], or a|b',
    )
    if not text.endswith(closing):
        raise refused
    inner, place, names = text[1:-1].strip().rstrip(","), 0, []
    if _VECTOR.fullmatch(inner):
        return inner.split()
    while place < len(inner):
        item = _ITEM.match(inner, place)
        if item is None or item.end() == place:
            raise refused
        single, double, bare = item.groups()
        one = not _BETWEEN.search(inner)  # [new york]: one label or two?
        if bare is not None and (":" in bare or (one and len(bare.split()) > 1)):
            raise refused
        names.append((bare if bare is not None else re.sub(r"\\(.)", r"\1", single or double or "")).strip())
        place = item.end()
    return names


def as_vectors(answers: Sequence[Sequence[str]]) -> list[tuple[str, ...]] | None:
    """Where all answers are vectors of 0 and 1, as long as each other: the places of the ones. Else None."""
    width = len(answers[0]) if answers else 0
    zero, one = label_key("0"), label_key("1")
    if width < 2 or any(len(answer) != width for answer in answers):
        return None
    keys = [[label_key(name) for name in answer] for answer in answers]
    if not all(key in (zero, one) for row in keys for key in row):
        return None
    return [tuple(str(place) for place, key in enumerate(row) if key == one) for row in keys]
