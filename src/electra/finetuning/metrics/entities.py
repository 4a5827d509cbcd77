"""Entities in tag sequences, and their F1 as conlleval and seqeval compute it.

A tag is a prefix (B, I; E and S in BIOES; L and U, their names in BILOU; M, that of I in BMES; O for none)
and a type, joined by "-" or "_", in capitals or not, the prefix first or last (B-PER, B_PER, b-per, PER-B).
Sequences that break the rules are read as conlleval reads them: an I- that follows no part of its own type
begins an entity. So nothing is repaired in predictions or data: the count of such tags is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise

from electra.finetuning.metrics.scores import Score, f_score

OUTSIDE = "O"
_SAME = {"L": "E", "U": "S", "M": "I"}
_TAG = re.compile(r"([BIESLUM])(?:([-_])(.+))?|(.+)([-_])([BIESLUM])", re.DOTALL | re.IGNORECASE)
Entity = tuple[int, int, str]  # first word, last word, type


def is_entity_tag(tag: str) -> bool:
    return is_outside(tag) or bool(_TAG.fullmatch(tag))


def is_outside(tag: str) -> bool:
    return tag in ("O", "o")


@cache
def _parts(tag: str) -> tuple[str, str]:
    """(B, I, E, S or O; the type)."""
    match = _TAG.fullmatch(tag)
    if is_outside(tag) or match is None:
        return OUTSIDE, "_"
    prefix = (match[1] or match[6]).upper()
    return _SAME.get(prefix, prefix), match[3] or match[4] or "_"


def completed(tags: Iterable[str]) -> tuple[str, ...]:
    """The tags, and each type with each prefix that occurs anywhere, spelled alike: O first, then by type."""
    found = set(tags)
    matches = [match for tag in found if not is_outside(tag) and (match := _TAG.fullmatch(tag))]
    kinds = {tag: tag[2:] for tag in found}
    for first in matches:
        for other in matches:
            if first[3] and other[3]:
                kinds[f"{other[1]}{first[2]}{first[3]}"] = first[3]
            elif first[4] and other[4]:
                kinds[f"{first[4]}{first[5]}{other[6]}"] = first[4]
    return tuple(sorted(kinds, key=lambda tag: (not is_outside(tag), kinds[tag], tag)))


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of one sentence."""
    found: list[Entity] = []
    begun = -1
    for place, (before, here) in enumerate(pairwise([OUTSIDE, *tags, OUTSIDE])):
        (last, last_kind), (prefix, kind) = _parts(before), _parts(here)
        other = last_kind != kind
        if last != OUTSIDE and (last in ("E", "S") or prefix in (OUTSIDE, "B", "S") or other):
            found.append((begun, place - 1, last_kind))
        if prefix != OUTSIDE and (prefix in ("B", "S") or last in (OUTSIDE, "E", "S") or other):
            begun = place
    return found


def broken(tags: Sequence[str]) -> int:
    """How many tags may not follow the one before: I- or E- after nothing of their type; open entities."""
    count = 0
    ends = {_parts(tag)[0] for tag in tags} & {"E", "S"}
    for before, here in pairwise([OUTSIDE, *tags, OUTSIDE]):
        (last, last_kind), (prefix, kind) = _parts(before), _parts(here)
        inside = last in ("B", "I") and last_kind == kind
        count += (prefix in ("I", "E") and not inside) or bool(
            ends and last in ("B", "I") and not (prefix in ("I", "E") and inside)
        )
    return count


def entity_scores(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> dict[str, Score]:
    """F1, precision and recall of whole entities: the words and the type must be right."""
    right = said = there = 0
    for ours, theirs in zip(predicted, gold, strict=True):
        found, wanted = set(entities(ours)), set(entities(theirs))
        right, said, there = right + len(found & wanted), said + len(found), there + len(wanted)
    return {
        "f1": f_score(right, said, there, 1.0, "entity"),
        "precision": f_score(right, said, there, 0.0, "entity"),
        "recall": f_score(right, said, there, float("inf"), "entity"),
    }
