"""Reads n-best lists of a speech recogniser.

The format is jsonl with one utterance per line: {"ref": text, "hyps": [{"text": ..., and named scores, the
same names everywhere}, ...]}, the recogniser's best hypothesis first.
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
    scores: dict[str, tuple[float, ...]]  # name: one number for each hypothesis


def read_utterances(path: Path, hypotheses: int = 0) -> list[Utterance]:
    """Returns the utterances of a file, each with its first `hypotheses` (0: all)."""
    utterances: list[Utterance] = []
    names: list[str] = []
    for where, row in read_rows(path):
        entries = row.get("hyps")
        if not isinstance(row.get("ref"), str):
            raise DataError("no reference", where=where, fix="Give each line `ref` and `hyps`")
        if not isinstance(entries, list) or not entries or not all(map(_has_text, entries)):
            fix = "Write hyps as a list of objects with text and scores"
            raise DataError("no hypotheses", where=where, fix=fix)
        names = names or [name for name in entries[0] if name != "text"]
        if not all(
            set(entry) == {"text", *names} and all(_is_number(entry[name]) for name in names)
            for entry in entries
        ):
            problem = "the scores of a hypothesis differ from those of the first, or are not numbers"
            raise DataError(problem, where=where, fix=f"Give each hypothesis {', '.join(names)}")
        chosen = entries[: hypotheses or None]
        scores = {name: tuple(float(entry[name]) for entry in chosen) for name in names}
        utterances.append(Utterance(row["ref"], tuple(entry["text"] for entry in chosen), scores))
    if not any(utterance.reference.split() for utterance in utterances):
        raise DataError("every reference is empty", where=path)
    return utterances


def _has_text(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("text"), str)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
