"""Answers in the cells of tables: missing values, spellings of a label, several labels in one cell."""

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from reprlib import repr as shortened
from statistics import median
from typing import Any

from electra.data.tables.characters import latin, strange_character, visible
from electra.data.tables.delimited import SEPARATORS
from electra.data.tables.table import MARKS, MISSING, printed_list
from electra.foundation.errors import DataError
from electra.foundation.terminal_text import one_line, plural

NO_CLASS = (-1, -100)  # beside classes from 0: no label in data sets of the hub, and in torch
_INTEGER = re.compile(r"([+-]?(?:0|[1-9][0-9]*))(?:\.0*)?")  # 007 is a code, not a number, and so is 1.10
_SEPARATORS = ("\n", "\t", "|", ";", ",")  # in this order: later ones occur in names
SIGNS = tuple("#+/&~\u00b7\u3001\uff0c\uff1b")  # which separate labels if the data prove it
_STYLES = re.compile("[\ufe0e\ufe0f]")  # of emoji
_BREAKS = re.compile(r"[\t\n\v\f\r\x85\u2028\u2029]")
_FLAGS = {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}
_LISTS = re.compile(r"^[({<].*[)}>]$|[\[\]]", re.DOTALL)
# By the identity of the labels, which are kept with it, because the hash of a tuple reads all of it.
_FINDERS: dict[int, tuple[tuple[str, ...], Callable[[str], int | None]]] = {}
MAX_FINDERS = 8
_QUOTED = re.compile(r"""b?[\[({]*\s*['"]""")
_BRACKETS = re.compile(r"""\[[^\[\],"']+\]|\{[^{},"':]+\}""")
_CODES = re.compile(r"#?\d+(\s+#?\d+)*|#\w+(\s+#\w+)*")  # numbers or hashtags, which need no separator


def clean_answer(value: Any) -> Any:
    """Returns a cell's value without surrounding white space; None if it is None or NaN."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return [visible(item) if isinstance(item, str) else item for item in value]
    return value


def note_invisible(cells: Sequence[Any], cleaned: Sequence[Any]) -> list[str]:
    """Returns a note on the cells in which `clean_answer` found invisible characters."""
    pairs = zip(cells, cleaned, strict=True)
    num_changed = sum(isinstance(cell, str | list) and _bare(cell) != _bare(clean) for cell, clean in pairs)
    problem = "with invisible characters or no-break spaces, which are removed"
    return [f"{plural(num_changed, 'answer')} {problem}"] if num_changed else []


def _bare(cell: Any) -> Any:
    return [str(item).strip() for item in (cell if isinstance(cell, list) else [cell])]


def unwrapped(cells: Sequence[Any], has_flags: bool = True) -> tuple[list[Any], tuple[str, ...]]:
    """Returns cells of one answer each, of those that hold it in a list, in printed bytes or as flags.

    Lists may be printed; one of numbers, such as [1], is a label by itself unless all cells are. Lists of
    several answers stay, for the caller to refuse. Also returns a note on what was read.
    """
    given = [cell for cell in cells if not is_missing(cell)]
    bare = [isinstance(cell, str) and _BRACKETS.fullmatch(cell) for cell in given]
    if given and all(bare):  # [good] or {good}
        inner = [cell if is_missing(cell) else cell[1:-1].strip() for cell in cells]
    else:
        inner = [_inner(cell, has_flags) for cell in cells]
    pairs = list(zip(cells, inner, strict=True))
    if any(value is cell for cell, value in pairs if not is_missing(cell)):
        is_plain = [isinstance(cell, str) and not _QUOTED.match(cell) for cell in cells]
        inner = [cell if plain else value for (cell, value), plain in zip(pairs, is_plain, strict=True)]
    changed = [(cell, value) for cell, value in zip(cells, inner, strict=True) if cell is not value]
    if not (changed := [(cell, value) for cell, value in changed if isinstance(value, str)]):
        return inner, ()
    example = f"such as {one_line(str(changed[0][0]))[:40]}, read as {changed[0][1]}"
    return inner, (f"{plural(len(changed), 'answer')} in lists, flags or printed bytes, {example}",)


def _inner(cell: Any, has_flags: bool) -> Any:
    """Returns the one answer in a list, bytes or flags, None for an empty list, or the cell."""
    value = printed_list(cell) if isinstance(cell, str) and cell[:1] in tuple("[({ab") else cell
    if isinstance(value, Mapping):
        flags = {name: _FLAGS.get(str(flag).strip().lower()) for name, flag in value.items()}
        if [*value] == ["choices"]:  # Label Studio
            value = value["choices"]
        elif has_flags and len(flags) > 1 and None not in flags.values():
            value = [name for name, flag in flags.items() if flag]
    if isinstance(value, set | tuple):
        value = sorted(value, key=str)
    if not isinstance(value, list) or (len(value) > 1 and not isinstance(value[0], str)):
        return cell
    if len(value) > 1:
        return value
    inner = _inner(value[0], has_flags) if value else None
    return str(inner) if isinstance(inner, int | float) else inner


def is_missing(answer: Any) -> bool:
    """Whether a cell means that there is no answer."""
    return answer is None or (isinstance(answer, str) and (answer in MISSING or answer in MARKS))


def unanswered(
    cells: Sequence[Any], known: Collection[str], *, skip: bool, are_numbers: bool = False
) -> tuple[frozenset[str], tuple[str, ...]]:
    """Returns the cells of a column that mean "no answer", and notes on marks that are read as answers.

    They are MISSING, those of MARKS that do not look like labels (see `_is_label`), and -1 below classes;
    None is not among them. Labels of the training data (`known`) never mean it; if there are any, all other
    marks do. `skip`: whether the user expects rows without an answer. A -1 is a number if `are_numbers`,
    unless `skip`.
    """
    counts = Counter(str(cell) for cell in cells if isinstance(cell, str | int | float))
    labels = [name for name in counts if not is_missing(name) and as_number(name) not in NO_CLASS]
    has_classes = bool(known) or (len(labels) > 1 and all(as_number(name) >= 0 for name in labels))
    marks = {name for name in counts if is_missing(name) or (has_classes and as_number(name) in NO_CLASS)}
    marks -= set(known)
    usual = median(counts[name] for name in labels) if labels else 0

    def is_answer(mark: str) -> bool:
        if as_number(mark) == -1:
            return not skip and (are_numbers or len(labels) == 2)
        return _is_label(mark, labels, not skip and 4 * counts[mark] >= usual)

    kept = [mark for mark in sorted(marks) if not known and is_answer(mark)]
    advice = "" if skip else "; if it means no answer, pass --skip-unlabelled"
    notes = [f"{mark!r} ({plural(counts[mark], 'row')}) is read as an answer{advice}" for mark in kept]
    return frozenset(marks.difference(kept)), tuple(notes)


def _is_label(mark: str, labels: Sequence[str], is_usual: bool) -> bool:
    # A sign among signs (+ and -), a code among codes (the country NA, the language nan), or, if it is as
    # usual as the others, a word whose capitals are as in most of them.
    if not any(map(str.isalnum, mark)):
        return bool(mark) and any(not any(map(str.isalnum, name)) for name in labels)
    forms = [(name.isupper(), name[:1].isupper(), name[:1].islower()) for name in (mark, *labels)]
    num_alike = forms[1:].count(forms[0])
    if mark in {"NA", "nan"} and len(labels) > 2 and {*map(len, labels)} == {len(mark)}:
        return num_alike == len(labels)
    return mark in MARKS and is_usual and 2 * num_alike > len(labels)


def as_number(name: str) -> float:
    """Returns the value of a number; NaN for anything else."""
    try:
        return float(name)
    except ValueError:
        return math.nan


def as_integer(name: str) -> int | None:
    """Returns the value of an integer (1, +1, 1.0); None for anything else."""
    match = _INTEGER.fullmatch(name)
    return int(match[1]) if match else None


def _key(name: str, are_integers: bool) -> Hashable:
    """Returns a key of all spellings: of truth values, integers, white space, the composition of accents."""
    if are_integers or name.lower() in {"true", "false"}:
        number = as_integer(name)
        return name.lower() if number is None else number
    return " ".join(unicodedata.normalize("NFC", _STYLES.sub("", name)).split())


def label_finder(labels: tuple[str, ...]) -> Callable[[str], int | None]:
    """Returns a function that finds the index of a label in any of its spellings; None if it is unknown.

    Called again for the same tuple, it takes the same time for any number of labels.
    """
    if id(labels) not in _FINDERS:
        are_integers = None not in map(as_integer, labels)
        index_of = {_key(name, are_integers): index for index, name in enumerate(labels)}
        if len(_FINDERS) >= MAX_FINDERS:
            _FINDERS.clear()
        _FINDERS[id(labels)] = labels, lambda name: index_of.get(_key(name, are_integers))
    return _FINDERS[id(labels)][1]


def spellings(names: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Maps each name to the shortest spelling of its label, on one line; also returns notes on the others.

    Labels are text, unless all are integers: 1.1 and 1.10 are two.
    """
    counts = Counter(names)
    are_integers = None not in map(as_integer, counts)
    by_key: dict[Hashable, list[str]] = {}
    for name in counts:
        by_key.setdefault(_key(name, are_integers), []).append(name)
    spelling_of: dict[str, str] = {}
    notes = []
    for variants in by_key.values():
        shortest = min(variants, key=lambda name: (len(name), -counts[name], name))
        spelling = one_line(shortest) if _BREAKS.search(shortest) else shortest
        spelling_of |= dict.fromkeys(variants, spelling)
        if {*variants} != {spelling}:
            verb = "are one label" if len(variants) > 1 else "has a line break or tab"
            notes.append(f"{' and '.join(map(one_line, sorted(variants)))} {verb}, read as {spelling}")
    by_shape: dict[str, str] = {}
    for name in sorted({*spelling_of.values()}, key=lambda name: (not name.isascii(), name)):
        if (other := by_shape.setdefault(latin(name), name)) != name:
            notes.append(f"the labels {other} and {name} look alike, and differ ({strange_character(name)})")
    return spelling_of, tuple(notes)


def parse_labels(value: Any, where: str, separator: str = ",") -> list[str]:
    """Returns the labels in a cell; duplicates and empty names are not removed.

    The cell is a list, which may be printed in a string; a string with labels between separators; or an
    object with 0 or 1 for each label. Raises DataError if the cell is none of these, or has fractions in
    place of 0 and 1.
    """
    if isinstance(value, str) and value.lstrip()[:1] in ("b", "{") and (printed := printed_list(value)):
        value = printed
    if isinstance(value, Mapping) and isinstance(value.get("choices"), list):  # Label Studio
        value = value["choices"]
    if isinstance(value, Mapping):
        flags = {name: _FLAGS.get(str(flag).strip().lower()) for name, flag in value.items()}
        if (name := next((name for name, flag in flags.items() if flag is None), None)) is not None:
            problem = f"the value of label {name!r} must be 0 or 1, not {value[name]!r}"
            raise DataError(problem, where=where)
        return [str(name) for name, flag in flags.items() if flag]
    if isinstance(value, str) and not _LISTS.search(value.strip()):
        return [name.strip() for name in (value.split() if separator == " " else value.split(separator))]
    items = [value] if isinstance(value, int) else printed_list(value) if isinstance(value, str) else value
    items = sorted(items, key=str) if isinstance(items, set) else items
    if not isinstance(items, list | tuple) or not all(isinstance(item, str | int | float) for item in items):
        fix = 'Write ["a", "b"], or a|b'
        raise DataError(f"{shortened(value)} is not a list of labels", where=where, fix=fix)
    if any(isinstance(item, float) and item not in (0, 1) for item in items):
        fix = "Write 1 for each label that applies, and 0 for the others"
        raise DataError(f"{shortened(value)} contains fractions instead of labels", where=where, fix=fix)
    return [str(item).strip() for item in items]


def joined(labels: Sequence[str]) -> str:
    """Returns labels in one cell: separated by |, or as a JSON list if one of them contains that."""
    if any("|" in each for each in labels):
        return json.dumps([*labels], ensure_ascii=False)
    return "|".join(labels)


def joining_sign(cells: Sequence[Any], known: Collection[str] = (), signs: Sequence[str] = SIGNS) -> tuple[str, str]:
    """Returns the sign that joins labels in the cells of a column, "" if there is none, and a doubtful cell.

    The data prove it if at least half of the parts are labels of other cells or `known`, and the others are
    parts of several cells. Only some of the parts of a doubtful cell are, or all are parts of several.
    """
    texts = {cell for cell in cells if isinstance(cell, str)}
    doubtful: list[str] = []
    for sign in signs:
        joined_parts, single, counts = _split_at(sign, texts, known)
        others = [count for part, count in counts.items() if part not in single]
        are_recurring = not others or min(others) > 1
        if counts and 2 * len(others) <= len(counts) and are_recurring:
            return sign, ""
        doubtful += sorted(text for text, found in joined_parts.items() if are_recurring or found & single)
    return "", next(iter(doubtful), "")


def _split_at(
    sign: str, texts: Collection[str], known: Collection[str]
) -> tuple[dict[str, set[str]], set[str], Counter[str]]:
    """Returns the parts of texts with several, the labels alone, and how many texts have each part."""
    parts = {text: {part.strip() for part in text.split(sign)} - {""} for text in texts if sign in text}
    several = {text: found for text, found in parts.items() if len(found) > 1}
    single = {*known, *texts}.difference(parts).union(*(f for f in parts.values() if len(f) == 1))
    return several, single, Counter(part for found in several.values() for part in found)


def separator_of(cells: Sequence[Any], known: Collection[str] = ()) -> tuple[str, tuple[str, ...]]:
    """Returns the separator between the labels in the cells of a column, and a note if it is not obvious.

    It is the first of line breaks, tabs, |, ; and , that any cell has, unless a later one gives less than
    half as many labels; or spaces between numbers or hashtags; or a `joining_sign`.
    """
    texts = [cell for cell in cells if isinstance(cell, str) and cell and not _LISTS.search(cell)]
    found = [mark for mark in _SEPARATORS if any(mark in text for text in texts)]
    if not found and all(map(_CODES.fullmatch, texts)):
        has_several = any(len(text.split()) > 1 for text in texts)
        return " ", ("labels are separated by spaces",) if has_several else ()
    sign, doubtful = ("", "") if found else joining_sign(texts, known)
    if sign:
        return sign, (f"labels are separated by {sign}, because they also occur by themselves",)
    if doubtful:
        return ",", (f"{doubtful!r} is read as one label; if it is several, write | between them",)
    first, *others = found or [","]
    counts = {mark: len({name.strip() for text in texts for name in text.split(mark)}) for mark in found}
    for mark in [mark for mark in others if 2 * counts[mark] < counts[first]]:  # a stray mark in a name
        first, others = mark, [other for other in found if other != mark]
    several, single, parts = _split_at(first, {*texts}, known)
    num_rare = sum(part not in single and count == 1 for part, count in parts.items())
    if first in ",;" and not others and 2 * num_rare > len(parts):
        example = min(several)
        fix = f"to keep {example!r} whole, write {json.dumps([example], ensure_ascii=False)}"
        return first, (f"labels are separated by {SEPARATORS[first]}; {fix}",)
    if not others:
        return first, ()
    also = " and ".join(SEPARATORS[mark] for mark in others)
    return first, (f"labels are separated by {SEPARATORS[first]}; {also} are part of labels",)


def as_vectors(answers: Sequence[Sequence[str]], source: Any) -> list[list[bool | None]] | None:
    """Returns the answers as vectors of flags if all are, else None; DataError if they differ in length."""
    rows = [[_FLAGS.get(name.lower()) for name in answer] for answer in answers]
    widths, flags = {*map(len, rows)}, [row for row in rows if None not in row]
    are_equal = len(widths) == 1 and len(flags) == len(rows)
    # A list of labels called 0 and 1 would not repeat one of them.
    if not are_equal and 2 * len(flags) > len(rows) and any(len({*row}) < len(row) for row in flags):
        problem = "the answers are vectors of different lengths, or not only of 0 and 1"
        raise DataError(problem, where=source, fix="Write 0 or 1 for each label in every row")
    return rows if are_equal and min(widths) > 1 else None
