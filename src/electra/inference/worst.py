"""Which pages, lines or texts need a correction first, by how many of their words look wrong.

A word counts by how rare it is among clean words to look as wrong, so the worst words count most, and a line
counts by its page as well: better orders than the share of marked words (results/wrong-words).
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from electra.data.tables.corrections import Correction
from electra.data.tables.passages import Passage
from electra.data.tables.scanned import Line, box_around
from electra.inference.detection import Candidate, Detection, Span
from electra.inference.detector import Curve

LOOSE = 0.1  # the share of clean words that look wrong, of which wrong words are estimated: .01 misses more


class Part(NamedTuple):
    """A page, a line or a text, with the words that have a letter or a digit."""

    place: dict[str, Any]
    page: tuple[str, int]
    text: str
    words: list[Span]


class Ranked(NamedTuple):
    """A row of a ranking, as JSON to save memory: what it is ranked by, its number of words, its page."""

    row: str
    key: float
    size: int = 1
    page: Any = None


def parts(found: Iterable[tuple[Passage, Detection]], by: str) -> Iterator[Part]:
    """Yields the parts of scans or texts, one file of text being a page."""
    for page, members in groupby(found, key=lambda each: (each[0].file, each[0].line if each[0].lines else 0)):
        place, texts, all_words = {"file": page[0], "page": page[1] or None}, list[str](), list[Span]()
        for passage, detection in members:
            words = [word for word in detection.words if any(map(str.isalnum, word.text))]
            if by == "page":
                texts.append(passage.text)
                all_words += words
                continue
            lines = passage.lines or ((0, Line(str(passage.line))),)
            if by == "text":
                lines = ((0, Line(lines[0][1].name, box_around(line.box for _, line in lines))),)
            ends = [start for start, _ in lines[1:]] + [len(passage.text)]
            for (start, line), end in zip(lines, ends, strict=True):
                at = place | {"line": line.name, "box": " ".join(map(str, line.box)) or None}
                within = [word for word in words if start <= word.start < end]
                yield Part(at, page, passage.text[start:end].rstrip(), within)
        if by == "page":
            yield Part(place, page, "\n".join(texts), all_words)


def in_order(found: Sequence[Ranked], budget: float, with_pages: bool) -> Iterator[dict[str, Any]]:
    """Yields the rows, highest key first, and fills in their columns `suspicion` and `send`.

    `send`: among the first with the share `budget` of all words. `with_pages` adds each page's mean to keys.
    """
    keys, sizes = np.array([each.key for each in found]), np.array([each.size for each in found])
    if with_pages and found:
        pages = np.unique([str(each.page) for each in found], return_inverse=True)[1]
        totals, words = (np.bincount(pages, each) for each in (keys * sizes, sizes))
        keys = keys + (totals / np.maximum(words, 1))[pages]
    order = np.argsort(-keys, kind="stable")
    sent = np.cumsum(sizes[order]) <= budget * sizes.sum() + 1e-9
    for i, is_sent in zip(order.tolist(), sent.tolist(), strict=True):
        row, values = json.loads(found[i].row), {"suspicion": float(f"{keys[i]:.4g}"), "send": is_sent}
        yield row | {name: value for name, value in values.items() if name in row}


def corrections(detection: Detection) -> list[Correction]:
    """Returns the marked words with their best suggestions, in capitals for a word in capitals."""
    found = []
    suggestions = detection.suggestions or ((),) * len(detection.marked)
    for word, words in zip(detection.marked, suggestions, strict=True):
        if any(map(str.isalnum, word.text)):
            best = words[0] if words else Candidate("", 0.0)
            name = best.token.upper() if word.text.isupper() and len(word.text) > 1 else best.token
            p = word.p_replaced
            found.append(Correction(word.start, word.end, 1 - p, name, p * best.p))
    return found


def suspicion(words: Sequence[Span], curve: Curve | None) -> float:
    """Returns the mean over words of how rare it is among clean words to look as wrong, as a logarithm.

    Without a curve of clean words it is the mean P(replaced).
    """
    p = np.array([word.p_replaced for word in words])
    if not len(p) or curve is None or not curve.thresholds:
        return float(p.mean()) if len(p) else 0.0
    rates = np.log(curve.false_alarms)
    return float((rates[-1] - np.interp(-p, -np.array(curve.thresholds), rates)).mean())
