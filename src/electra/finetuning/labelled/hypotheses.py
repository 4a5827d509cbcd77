"""Reads the n-best lists of a speech recogniser.

The format is JSON Lines with one utterance per line, {"ref": a transcript, "hyps": [{"text": a hypothesis,
NAME: a score, ...}, ...]}. The recogniser's best hypothesis is the first. All hypotheses in a file have
scores with the same names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.data.rows import read_rows
from electra.foundation.errors import DataError


@dataclass(frozen=True)
class Utterance:
    """A reference transcript and its n-best list."""

    reference: str
    hypotheses: tuple[str, ...]
    scores: dict[str, tuple[float, ...]]  # by name, one score per hypothesis


def read_utterances(path: Path, hypotheses: int = 0) -> list[Utterance]:
    """Returns the utterances of a file, each with its first `hypotheses` (0: all).

    Raises:
        DataError: a line is not in the format of the module's docstring, or no reference has words.
    """
    utterances: list[Utterance] = []
    score_names: list[str] = []
    for where, row in read_rows(path):
        entries = row.get("hyps")
        if not isinstance(row.get("ref"), str):
            raise DataError("`ref` must be a string", where=where, fix="Give each line `ref` and `hyps`")
        if not isinstance(entries, list) or not entries or not all(map(_has_text, entries)):
            fix = "Write `hyps` as a list of objects, each with a `text` and scores"
            raise DataError("`hyps` must be a list of hypotheses", where=where, fix=fix)
        score_names = score_names or [name for name in entries[0] if name != "text"]
        if not all(
            set(entry) == {"text", *score_names} and all(_is_number(entry[name]) for name in score_names)
            for entry in entries
        ):
            problem = "the scores of a hypothesis differ from those of the first, or are not numbers"
            raise DataError(problem, where=where, fix=f"Give each hypothesis {', '.join(score_names)}")
        n_best = entries[: hypotheses or None]
        scores = {name: tuple(float(entry[name]) for entry in n_best) for name in score_names}
        utterances.append(Utterance(row["ref"], tuple(entry["text"] for entry in n_best), scores))
    if not any(utterance.reference.split() for utterance in utterances):
        raise DataError("every reference is empty", where=path)
    return utterances


def _has_text(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("text"), str)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
