"""Pairs of sentences that people have judged for likeness: GLUE's STS-B."""

from __future__ import annotations

from pathlib import Path

from electra.analysis.parts.interface import Input, ProbeDataError
from electra.analysis.parts.reading import cells

INPUT = Input("pairs", "STS-B dev file", ("sts-b/dev.tsv*", "STS-B/dev.tsv*", "*sts*dev*.tsv*", "dev.tsv*"))
COLUMNS = ("sentence1", "sentence2", "score")


def read_pairs(path: Path) -> list[tuple[str, str, float]]:
    """(sentence, sentence, score) of GLUE's file, whose first line names the columns."""
    rows = cells(path, 3)
    where, names = next(rows, (str(path), []))
    if not set(COLUMNS) <= set(names):
        raise ProbeDataError(f"its first line does not name the columns {', '.join(COLUMNS)}", where=where, fix="Give GLUE's STS-B dev.tsv")
    places = [names.index(column) for column in COLUMNS]
    found = []
    for where, row in rows:
        try:
            first, second, score = (row[place] for place in places)
            found.append((first, second, float(score)))
        except (IndexError, ValueError):
            raise ProbeDataError("not two sentences and a number", where=where) from None
    if len(found) < 2:
        raise ProbeDataError("fewer than two pairs of sentences", where=path)
    return found
