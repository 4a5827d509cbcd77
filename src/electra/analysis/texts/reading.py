"""Data files of the probes: CoNLL-U, columns between blank lines, tables and JSON lines,
compressed or not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from electra.analysis.contract import ProbeDataError
from electra.data import readers
from electra.data.sources import COMPRESSIONS, Source
from electra.errors import ConfigError, CorpusError
from electra.seeds import key, permute


@dataclass(frozen=True)
class Sentence:
    """Words with what the file says of each."""

    words: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]  # the file's other columns, each as long as the words

    def __len__(self) -> int:
        return len(self.words)


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without their ends."""
    compression = path.suffix.lower() if path.suffix.lower() in COMPRESSIONS else ""
    try:
        for number, line in enumerate(
            readers.read(Source(str(path), "file", path, "txt", compression), "line", ""), 1
        ):
            yield number, line.text.removesuffix("\n")
    except CorpusError as problem:
        raise ProbeDataError(problem.what, where=problem.where, fix=problem.fix) from None


def objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """JSON objects, one a line, each with its file:line."""
    for number, line in lines(path):
        if line.strip():
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                found = None
            if not isinstance(found, dict):
                raise ProbeDataError(
                    "not a JSON object", where=f"{path}:{number}", fix="Write one object a line"
                )
            yield f"{path}:{number}", found


def cells(path: Path, columns: int) -> Iterator[tuple[str, list[str]]]:
    """The cells between tabs of each line that is not empty, with file:line. Quotes are plain characters."""
    for number, line in lines(path):
        if line:
            row = line.split("\t")
            if len(row) < columns:
                raise ProbeDataError(
                    f"{len(row)} columns between tabs where {columns} are needed", where=f"{path}:{number}"
                )
            yield f"{path}:{number}", row


def sentences(
    path: Path, columns: Sequence[int], word: int = 0, separator: str | None = None
) -> list[Sentence]:
    """Sentences given one word a line, blank lines between. `columns`: which columns to keep, counted from 0,
    beside the `word`.

    CoNLL-U is such a file: its comments, its ranges (1-2) and its empty words (1.1) are skipped.
    """
    conllu = ".conllu" in path.name
    found: list[Sentence] = []
    rows: list[list[str]] = []
    for number, line in [*lines(path), (0, "")]:
        if not line.strip():
            if rows:
                found.append(
                    Sentence(
                        tuple(row[word] for row in rows),
                        tuple(tuple(row[c] for row in rows) for c in columns),
                    )
                )
            rows = []
        elif not (conllu and line.startswith("#")):
            row = line.split("\t" if conllu else separator)
            if len(row) <= max(word, *columns):
                raise ProbeDataError(
                    f"{len(row)} columns where {max(word, *columns) + 1} are needed", where=f"{path}:{number}"
                )
            if not conllu or row[0].isdecimal():
                rows.append(row)
    if not found:
        raise ProbeDataError("no sentences in this file", where=path)
    return found


def universal_dependencies(path: Path) -> list[Sentence]:
    """CoNLL-U as words with (universal part of speech, number of the head word counted from 1; 0 for the
    root).
    """
    return sentences(path, columns=(3, 6), word=1)


def sample(items: Sequence[Any], limit: int, seed: int = 0) -> list[Any]:
    """At most `limit` of the items (0: all), by a keyed draw that does not depend on the limit; in their
    order.
    """
    if limit < 0:
        raise ConfigError(
            f"{limit} is no number of items", where="sentences", fix="Give a number, or 0 for all"
        )
    if not 0 < limit < len(items):
        return list(items)
    chosen = permute(np.arange(limit), len(items), key(seed, "analysis/sample"))
    return [items[i] for i in sorted(chosen.astype(int).tolist())]
