"""N-best lists of a speech recogniser: jsonl, one utterance a line, {"ref": text, "hyps": [{"text": ...,
and the same named scores everywhere}, ...]}, the recogniser's best first.
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
    reference: str
    hypotheses: tuple[str, ...]
    scores: dict[str, tuple[float, ...]]  # name -> one number a hypothesis


def read_utterances(path: Path, hypotheses: int = 0) -> list[Utterance]:
    """The utterances of a file, each with its first `hypotheses` (0: all)."""
    found: list[Utterance] = []
    names: list[str] = []
    for where, row in read_rows(path):
        listed = row.get("hyps")
        if not isinstance(row.get("ref"), str):
            raise DataError(
                "an utterance without its reference", where=where, fix="Each line needs ref and hyps"
            )
        if not isinstance(listed, list) or not listed or not all(_has_text(entry) for entry in listed):
            fix = "hyps is a list of objects with text and scores"
            raise DataError("an utterance without hypotheses", where=where, fix=fix)
        names = names or [name for name in listed[0] if name != "text"]
        if not all(
            set(entry) == {"text", *names} and all(_is_number(entry[name]) for name in names)
            for entry in listed
        ):
            what = "a hypothesis lacks a score that the others have, or has one that is not a number"
            raise DataError(what, where=where)
        kept = listed[: hypotheses or None]
        scores = {name: tuple(float(entry[name]) for entry in kept) for name in names}
        found.append(Utterance(row["ref"], tuple(entry["text"] for entry in kept), scores))
    if not any(utterance.reference.split() for utterance in found):
        raise DataError("no utterance has a reference", where=path)
    return found


def _has_text(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("text"), str)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
