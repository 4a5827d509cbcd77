"""Reads benchmarks of sentence pairs: the scored pairs of STS-B, minimal pairs of BLiMP and BabyLM."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from electra.data.tables import cell_text, open_table, read_rows
from electra.foundation.errors import DataError

ScoredPair = tuple[str, str, float]
"""Two sentences and their score."""
STSB_COLUMNS = ("sentence1", "sentence2", "score")


def read_scored_pairs(path: Path) -> list[ScoredPair]:
    """Returns the scored pairs of a table with the header of GLUE's STS-B.

    Raises:
        DataError: a column is missing, a row is invalid, or there are fewer than two pairs.
    """
    table = open_table(path)
    if not set(STSB_COLUMNS) <= set(table.columns):
        problem = f"the header lacks some of the columns {', '.join(STSB_COLUMNS)}"
        raise DataError(problem, where=path, fix="Pass GLUE's STS-B dev.tsv")
    pairs = []
    for where, row in table.rows:
        first, second = (cell_text(row, column, where) for column in STSB_COLUMNS[:2])
        try:
            score = float(row[STSB_COLUMNS[2]])
        except (TypeError, ValueError, KeyError):
            score = math.nan
        if not math.isfinite(score):
            raise DataError("expected two sentences and a number", where=where)
        pairs.append((first, second, score))
    if len(pairs) < 2:
        raise DataError("fewer than two pairs of sentences", where=path)
    return pairs


@dataclass(frozen=True)
class MinimalPairs:
    """A file of minimal pairs: an acceptable sentence and an unacceptable one that differ in one respect."""

    name: str
    phenomenon: str  # as named in the rows (BLiMP), else the folder's name
    benchmark: str  # the folder's name
    good: tuple[str, ...]
    bad: tuple[str, ...]
    num_equal: int  # pairs left out because their sentences are equal (BLiMP has a few by mistake)


def read_minimal_pairs(path: Path, limit: int | None = None) -> MinimalPairs:
    """Returns the pairs of a file, or only the first `limit` pairs of different sentences.

    Raises:
        DataError: a row lacks one of the sentences, or no pair has different sentences.
    """
    pairs: list[tuple[str, str]] = []
    num_equal, phenomenon = 0, ""
    for where, row in read_rows(path):
        good, bad = row.get("sentence_good"), row.get("sentence_bad")
        if not (isinstance(good, str) and isinstance(bad, str) and good.strip() and bad.strip()):
            fix = "Write an object with the texts sentence_good and sentence_bad"
            raise DataError("not a minimal pair", where=where, fix=fix)
        phenomenon = phenomenon or str(row.get("linguistics_term", ""))
        num_equal += good == bad
        if good != bad:
            pairs.append((good, bad))
        if len(pairs) == limit:
            break
    if not pairs:
        raise DataError("no minimal pairs in this file", where=path)
    folder = path.parent.name
    goods, bads = zip(*pairs, strict=True)
    return MinimalPairs(path.name.split(".")[0], phenomenon or folder, folder, goods, bads, num_equal)
