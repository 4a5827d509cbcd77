"""Which pages, lines or texts need a correction first, by how many of their words look wrong.

A word counts by how rare it is among clean words to look as wrong, so the worst words count most, and a line
counts by its page as well: better orders than the share of marked words (results/wrong-words).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple

import numpy as np

from electra.data.tables.passages import Passage
from electra.data.tables.scanned import Box, Line, box_around
from electra.inference.detection import Detection, Span
from electra.inference.detector import Curve

LOOSE = 0.1  # the share of clean words that look wrong, of which wrong words are estimated: .01 misses more
By = Literal["page", "line", "text", "word"]


class Part(NamedTuple):
    """A page, a line or a text, with the words that have a letter or a digit."""

    place: dict[str, Any]
    page: tuple[str, int]
    text: str
    words: list[Span]


def parts(found: Iterable[tuple[Passage, Detection]], by: By) -> Iterator[Part]:
    """Yields the parts of scans or texts, one file of text being a page."""
    for page, members in groupby(found, key=lambda each: (each[0].file, _page(each[0]))):
        if by == "page":
            texts, words = [], list[Span]()
            for passage, detection in members:
                texts.append(passage.text)
                words += detection.words
            yield _part({"file": page[0], "page": page[1] or None}, page, "\n".join(texts), words)
            continue
        for passage, detection in members:
            lines = passage.lines or ((0, Line(str(passage.line))),)
            if by == "text":
                lines = ((0, Line(lines[0][1].name, box_around([line.box for _, line in lines]))),)
            ends = [start for start, _ in lines[1:]] + [len(passage.text)]
            for (start, line), end in zip(lines, ends, strict=True):
                within = [word for word in detection.words if start <= word.start < end]
                place = {"file": page[0], "page": page[1] or None, "line": line.name, "box": _shown(line.box)}
                yield _part(place, page, passage.text[start:end].rstrip(), within)


def _part(place: dict[str, Any], page: tuple[str, int], text: str, words: list[Span]) -> Part:
    return Part(place, page, text, [word for word in words if any(map(str.isalnum, word.text))])


def _page(passage: Passage) -> int:
    return passage.line if passage.lines else 0


def _shown(box: Box) -> str | None:
    return " ".join(map(str, box)) or None


class Ranking:
    """Rows with their keys, on the disk until they are read in order, so that memory has the keys alone."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        self._keys, self._sizes, self._pages = list[float](), list[int](), list[int]()
        self._starts = list[int]()
        self._last_page: Any = None

    def add(self, row: dict[str, Any], key: float, size: int = 1, page: Any = None) -> None:
        """Adds a row of `size` words."""
        self._pages.append(self._pages[-1] + (page != self._last_page) if self._pages else 0)
        self._keys.append(key)
        self._sizes.append(size)
        self._last_page = page
        self._starts.append(self._file.tell())
        self._file.write(json.dumps(row, default=str).encode() + b"\n")

    def __del__(self) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._keys)

    def rows(self, budget: float, with_pages: bool) -> Iterator[dict[str, Any]]:
        """Yields the rows, highest key first, and fills in their columns `suspicion` and `send`.

        `send` says whether a row is among the first that have the share `budget` of all words. `with_pages`
        adds the mean of its page's words to each key.
        """
        keys, sizes = np.array(self._keys), np.array(self._sizes)
        if with_pages and len(keys):
            totals, words = (np.bincount(self._pages, each) for each in (keys * sizes, sizes))
            keys = keys + (totals / np.maximum(words, 1))[self._pages]
        order = np.argsort(-keys, kind="stable")
        sent = np.cumsum(sizes[order]) <= budget * sizes.sum() + 1e-9
        for i, is_sent in zip(order.tolist(), sent.tolist(), strict=True):
            self._file.seek(self._starts[i])
            row = json.loads(self._file.readline())
            values = {"suspicion": float(f"{keys[i]:.4g}"), "send": is_sent}
            yield row | {name: value for name, value in values.items() if name in row}


def suspicion(words: Sequence[Span], curve: Curve | None) -> float:
    """Returns the mean over words of how rare it is among clean words to look as wrong, as a logarithm.

    Without a curve of clean words it is the mean P(replaced).
    """
    p = np.array([word.p_replaced for word in words])
    if not len(p) or curve is None or not curve.thresholds:
        return float(p.mean()) if len(p) else 0.0
    rates = np.log(curve.false_alarms)
    return float((rates[-1] - np.interp(-p, -np.array(curve.thresholds), rates)).mean())


def reaching(words: Sequence[Span], threshold: float) -> int:
    """Returns how many words have at least this P(replaced)."""
    return sum(word.p_replaced >= threshold for word in words)


def counts(part: Part, threshold: float, wrong: tuple[float, float, float] | None) -> dict[str, Any]:
    """Returns the columns on words: all, marked, the share, and the estimate of the wrong ones."""
    size, marked = len(part.words), reaching(part.words, threshold)
    columns = {"words": size, "marked": marked, "share": float(f"{marked / max(size, 1):.4g}")}
    names = ("wrong", "wrong_low", "wrong_high")
    return columns | dict(zip(names, [None] * 3 if wrong is None else wrong, strict=True))
