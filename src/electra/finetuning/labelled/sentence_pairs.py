"""Reads minimal pairs of sentences, as in BLiMP and BabyLM."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from electra.data.tables import read_rows
from electra.foundation.errors import DataError


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

    Raises DataError if a row lacks one of the sentences, or no pair has different sentences.
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
