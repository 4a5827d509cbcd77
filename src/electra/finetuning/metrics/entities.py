"""Entities in tag sequences, and their F1 as conlleval and seqeval compute it.

A tag is a prefix (B, I; E and S in BIOES; L and U for these in BILOU; M for I in BMES; O for none) and a
type, joined by "-" or "_", in either case, the prefix first or last (B-PER, B_PER, b-per, PER-B). Invalid
sequences are read as conlleval reads them: an I- that does not follow its own type begins an entity. Nothing
is repaired in predictions or data; the number of such tags is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise

from electra.finetuning.metrics.scores import Score, f_score

OUTSIDE = "O"
_ALIASES = {"L": "E", "U": "S", "M": "I"}
_TAG = re.compile(r"([BIESLUM])(?:([-_])(.+))?|(.+)([-_])([BIESLUM])", re.DOTALL | re.IGNORECASE)
Entity = tuple[int, int, str]  # first word, last word, type


def is_entity_tag(tag: str) -> bool:
    """Whether a tag is O or a prefix, alone or with a type."""
    return is_outside(tag) or bool(_TAG.fullmatch(tag))


def is_outside(tag: str) -> bool:
    """Whether a tag is that of words outside of entities."""
    return tag in ("O", "o")


@cache
def _parts(tag: str) -> tuple[str, str]:
    """Returns B, I, E, S or O, and the type ("_" if there is none)."""
    match = _TAG.fullmatch(tag)
    if is_outside(tag) or match is None:
        return OUTSIDE, "_"
    prefix = (match[1] or match[6]).upper()
    return _ALIASES.get(prefix, prefix), match[3] or match[4] or "_"


def complete_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Returns the tags, completed by each type with each prefix that occurs; O first, then by type."""
    known = set(tags)
    matches = [match for tag in known if not is_outside(tag) and (match := _TAG.fullmatch(tag))]
    kinds = {tag: tag[2:] for tag in known}
    for first in matches:
        for other in matches:
            if first[3] and other[3]:
                kinds[f"{other[1]}{first[2]}{first[3]}"] = first[3]
            elif first[4] and other[4]:
                kinds[f"{first[4]}{first[5]}{other[6]}"] = first[4]
    return tuple(sorted(kinds, key=lambda tag: (not is_outside(tag), kinds[tag], tag)))


def entities(tags: Sequence[str]) -> list[Entity]:
    """Returns the entities of one sentence."""
    spans: list[Entity] = []
    start = -1
    for position, (previous, tag) in enumerate(pairwise([OUTSIDE, *tags, OUTSIDE])):
        (last, last_kind), (prefix, kind) = _parts(previous), _parts(tag)
        other = last_kind != kind
        if last != OUTSIDE and (last in ("E", "S") or prefix in (OUTSIDE, "B", "S") or other):
            spans.append((start, position - 1, last_kind))
        if prefix != OUTSIDE and (prefix in ("B", "S") or last in (OUTSIDE, "E", "S") or other):
            start = position
    return spans


def count_invalid(tags: Sequence[str]) -> int:
    """Returns the number of tags that may not follow the one before, such as I- after O."""
    count = 0
    ends = {_parts(tag)[0] for tag in tags} & {"E", "S"}
    for previous, tag in pairwise([OUTSIDE, *tags, OUTSIDE]):
        (last, last_kind), (prefix, kind) = _parts(previous), _parts(tag)
        inside = last in ("B", "I") and last_kind == kind
        count += (prefix in ("I", "E") and not inside) or bool(
            ends and last in ("B", "I") and not (prefix in ("I", "E") and inside)
        )
    return count


def entity_scores(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> dict[str, Score]:
    """Returns F1, precision and recall of whole entities: all words and the type must be right."""
    correct = num_predicted = num_gold = 0
    for predicted_tags, gold_tags in zip(predicted, gold, strict=True):
        predicted_spans, gold_spans = set(entities(predicted_tags)), set(entities(gold_tags))
        correct += len(predicted_spans & gold_spans)
        num_predicted += len(predicted_spans)
        num_gold += len(gold_spans)
    return {
        "f1": f_score(correct, num_predicted, num_gold, 1.0, "entity"),
        "precision": f_score(correct, num_predicted, num_gold, 0.0, "entity"),
        "recall": f_score(correct, num_predicted, num_gold, float("inf"), "entity"),
    }
