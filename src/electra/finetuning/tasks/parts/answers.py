"""Answers as people's tables have them: marks that there is none, one label in several spellings, and the
many ways to write several labels in a cell.
"""

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

# What tables write where there is no answer, in any case: dashes, what C, pandas and databases print, and a
# spreadsheet's errors. NA, None and null also name things (North America, none of the classes), and marks may
# be answers: they are labels where they are about as frequent as the others are.
MISSING = re.compile(
    r"|[-\u2010-\u2015\u2212]+|\?|-?nan|nat|<na>|n\.?/?a\.|n/a|-?1\.#\w+|\\n|\((?:null|none)\)"
    r"|#(?:na|n/a|n/a n/a|null!|value!|ref!|div/0!|name\?|num!)",
    re.IGNORECASE,
)
OFTEN_MISSING = ("NA", "None", "null", "NULL", ".", "_")
_NUMBER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)?(?:\.[0-9]*)?")  # as labels: 007 is a code
_ITEM = re.compile(
    r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^,;|'"\[\](){}]+))\s*(?:[,;|]\s*|(?=['"])|$)"""
)
_BRACKETS = {"[": "]", "(": ")", "{": "}"}
_CALL = re.compile(
    r"(?:array|set|frozenset|list|tuple|WrappedArray|Array|List)\((.*?)(?:,\s*dtype=[\w<>'.]+)?\)"
    r"|[A-Za-z][\w.]*\((\[.*\])(?:,\s*\w+=[^,]+)*\)",  # Index([...], dtype=...), tensor([...])
    re.S,
)
_BETWEEN = re.compile(r"[,;|]")  # labels in a cell without brackets
_VECTOR = re.compile(r"(?:[01]\.?0*|True|False)(?:\s+(?:[01]\.?0*|True|False))+")
_HOLES = ("...", "None", "nan", "NaN", "null")  # no names where they stand in a list without quotes


def as_answer(value: Any) -> Any:
    """A cell's value without spaces around it; None where it is empty or no number."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        return value.strip().strip("\u200b\ufeff")  # what stands there and is not seen
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
    return answer is None or (isinstance(answer, str) and bool(MISSING.fullmatch(answer) or answer in marks))


@cache
def label_key(name: str) -> Hashable:
    """Equal for spellings of one label: a number is one however it is written, and so is true or false; an
    accent may be part of its letter or follow it.
    """
    if _NUMBER.fullmatch(name) and any(map(str.isdigit, name)):
        return Decimal(name).normalize()
    return name.lower() if name.lower() in ("true", "false") else unicodedata.normalize("NFC", name)


_FLAGS = {label_key(name): name in ("1", "true") for name in ("0", "1", "false", "true")}


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
    labels = {*kept.values()}
    folded = Counter(name.casefold() for name in labels)
    if alike := sorted(name for name in labels if folded[name.casefold()] > 1):
        notes.append(
            f"{', '.join(map(repr, alike[:6]))} differ by capitals alone: read as {len(alike)} labels"
        )
    return kept, tuple(notes)


def labels_in(value: Any, where: str) -> list[str]:
    """The labels in a cell, with those that are there twice; DataError where it cannot be told.

    A list; an object of 0 and 1 by label; a text with commas, semicolons or bars between; or a list as
    Python, JSON, numpy, Spark and databases print it.
    """
    if isinstance(value, Mapping):
        flags = {name: _FLAGS.get(label_key(str(flag).strip())) for name, flag in value.items()}
        if unclear := [name for name, flag in flags.items() if flag is None]:
            what = f"the label {unclear[0]!r} has {value[unclear[0]]!r}, which is neither 0 nor 1"
            raise DataError(what, where=where)
        return [str(name) for name, flag in flags.items() if flag]
    names = _in_text(value, where) if isinstance(value, str) else _in_list(value, where)
    keys = [label_key(name) for name in names]
    if keys and all(isinstance(key, Decimal) for key in keys) and any(0 < key < 1 for key in keys):  # type: ignore[operator]
        what = f"{value!r} has shares instead of labels"
        raise DataError(what, where=where, fix="Write 1 for each label that is right, and 0 for others")
    return names


def _in_list(value: Any, where: str) -> list[str]:
    value = [value] if isinstance(value, int) else value
    if not isinstance(value, list | tuple) or not all(isinstance(item, str | int | float) for item in value):
        raise DataError(f"{value!r} is not a list of labels", where=where)
    return [str(item).strip() for item in value]


def _in_text(cell: str, where: str) -> list[str]:
    text = cell.strip()
    while call := _CALL.fullmatch(text):
        text = (call[1] or call[2] or "").strip()
    if _VECTOR.fullmatch(text):
        return text.split()
    if re.fullmatch("(?:<[^<>]+>)+", text):
        return text[1:-1].split("><")
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
        if bare is not None and (":" in bare or bare.strip() in _HOLES or (one and len(bare.split()) > 1)):
            raise refused
        names.append((bare if bare is not None else re.sub(r"\\(.)", r"\1", single or double or "")).strip())
        place = item.end()
    return names


def as_vectors(answers: Sequence[Sequence[str]]) -> list[list[bool]] | None:
    """Where all answers are vectors of 0 and 1 (or texts such as 0110), as long as each other: what they
    say. Else None; a DataError where their lengths differ.
    """
    if any(len(answer) == 1 and re.fullmatch("0[01]+", answer[0]) for answer in answers):
        answers = [tuple(answer[0]) if len(answer) == 1 else answer for answer in answers]
    flags = [
        [flag for name in answer if (flag := _FLAGS.get(label_key(name))) is not None] for answer in answers
    ]
    widths = {*map(len, flags)}
    if [*map(len, flags)] != [*map(len, answers)]:
        return None
    if len(widths) > 1 and any(len({*row}) < len(row) for row in flags):
        what = f"its answers are vectors of {min(widths)} to {max(widths)} numbers"
        raise DataError(what, fix="Give each row one number for each label")
    return flags if len(widths) == 1 and min(widths) > 1 else None


def joined(names: Collection[str]) -> list[str]:
    """Those of the labels that are others, one after the other: "joy film", "joy/film", "<joy><film>"."""
    parts = {name: re.findall(r"[\w.-]+", name) for name in {*names}}
    known = {" ".join(words) for words in parts.values()}
    return sorted(name for name, words in parts.items() if len(words) > 1 and known.issuperset(words))
