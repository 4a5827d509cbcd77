"""Reads the n-best lists of a speech recogniser.

The format is JSON Lines with one utterance per line, {"ref": a transcript, "hyps": [{"text": a hypothesis,
NAME: a score, ...}, ...]}. The recogniser's best hypothesis is the first. All hypotheses in a file have
scores with the same names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from electra.data.tables import read_rows
from electra.foundation.errors import DataError


@dataclass(frozen=True)
class Utterance:
    """A reference transcript and its n-best list."""

    reference: str
    hypotheses: tuple[str, ...]
    scores: dict[str, tuple[float, ...]]  # by name, one score per hypothesis


def read_utterances(path: Path, hypotheses: int = 0) -> list[Utterance]:
    """Returns the utterances of a file, each with its first `hypotheses` (0: all).

    Raises DataError if a line is not in the format of the module's docstring, or no reference has words.
    """
    utterances: list[Utterance] = []
    names: list[str] = []
    for where, row in read_rows(path):
        try:
            entries = [dict(entry) for entry in row["hyps"]]
            texts = [entry.pop("text") for entry in entries]
            names = names or list(entries[0])
            scores = {name: tuple(_finite(entry.pop(name)) for entry in entries) for name in names}
            if any(entries) or not all(isinstance(text, str) for text in [row["ref"], *texts]):
                raise ValueError
        except (KeyError, IndexError, TypeError, ValueError):
            fix = (
                'Write {"ref": TEXT, "hyps": [{"text": TEXT, NAME: SCORE}]}, with the same scores everywhere'
            )
            raise DataError("not an n-best list", where=where, fix=fix) from None
        kept = slice(hypotheses or None)
        scores = {name: values[kept] for name, values in scores.items()}
        utterances.append(Utterance(row["ref"], tuple(texts[kept]), scores))
    if not any(utterance.reference.split() for utterance in utterances):
        raise DataError("every reference is empty", where=path)
    return utterances


def _finite(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError
    return float(value)
