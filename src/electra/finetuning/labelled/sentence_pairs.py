"""Sentences and pairs that people have judged, in the layouts of their benchmarks: STS-B's scored pairs,
CoLA's acceptable and unacceptable sentences, the minimal pairs of BLiMP and the BabyLM supplement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from electra.data.rows import cell_text, open_table, read_rows
from electra.foundation.errors import DataError

ScoredPair = tuple[str, str, float]
"""Two sentences and their score."""
SCORED = ("sentence1", "sentence2", "score")
COLA = ("source", "label", "mark", "sentence")


def read_scored_pairs(path: Path) -> list[ScoredPair]:
    """The pairs of STS-B, as GLUE distributes it: a table whose header names the columns."""
    table = open_table(path)
    if not set(SCORED) <= set(table.columns):
        what = f"the header does not name the columns {', '.join(SCORED)}"
        raise DataError(what, where=path, fix="Pass GLUE's STS-B dev.tsv")
    found = []
    for where, row in table.rows:
        first, second = (cell_text(row, column, where) for column in SCORED[:2])
        try:
            score = float(row[SCORED[2]])
        except (TypeError, ValueError, KeyError):
            score = math.nan
        if not math.isfinite(score):
            raise DataError("not two sentences and a number", where=where)
        found.append((first, second, score))
    if len(found) < 2:
        raise DataError("fewer than two pairs of sentences", where=path)
    return found


def read_cola(path: Path) -> list[tuple[str, int]]:
    """(sentence, 1 for acceptable) of CoLA's file, which has no header."""
    found = []
    for where, row in open_table(path, header=COLA, wanted=(COLA,)).rows:
        if row["label"] not in ("0", "1"):
            what = f"the label is {row['label']!r}, not 0 or 1"
            raise DataError(what, where=where, fix="Pass CoLA's own file, with labels")
        found.append((str(row["sentence"]), int(row["label"])))
    if len({label for _, label in found}) < 2:
        raise DataError("all sentences have the same label; both are needed", where=path)
    return found


@dataclass(frozen=True)
class MinimalPairs:
    """A paradigm: a file of pairs that differ in one respect."""

    name: str
    phenomenon: str  # as its rows say (BLiMP), else its folder
    benchmark: str  # its folder
    good: tuple[str, ...]
    bad: tuple[str, ...]
    equal: int  # pairs left out because their sentences are equal (BLiMP has a few by mistake)


def read_minimal_pairs(path: Path, limit: int | None = None) -> MinimalPairs:
    """The pairs of a file, or its first `limit` that are not of equal sentences."""
    good, bad, equal, phenomenon = [], [], 0, ""
    for where, row in read_rows(path):
        pair = [row.get(f"sentence_{which}") for which in ("good", "bad")]
        if not all(isinstance(sentence, str) and sentence.strip() for sentence in pair):
            fix = "Write an object with the texts sentence_good and sentence_bad"
            raise DataError("not a minimal pair", where=where, fix=fix)
        phenomenon = phenomenon or str(row.get("linguistics_term", ""))
        if pair[0] == pair[1]:
            equal += 1
            continue
        good.append(str(pair[0]))
        bad.append(str(pair[1]))
        if len(good) == limit:
            break
    if not good:
        raise DataError("no minimal pairs in this file", where=path)
    folder = path.parent.name
    return MinimalPairs(path.name.split(".")[0], phenomenon or folder, folder, tuple(good), tuple(bad), equal)
