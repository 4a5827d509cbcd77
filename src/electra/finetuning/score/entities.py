"""Finds entities in tag sequences, and computes their F1 like conlleval and seqeval.

A tag is O or a prefix and a type, joined by "-" or "_", in upper or lower case (B-PER, B_PER, b-per). The
prefixes are B and I, E and S in BIOES, L and U instead of them in BILOU, and M instead of I in BMES. Invalid
sequences are read as conlleval reads them: an I- that does not follow a tag of its type begins an entity.
Neither predictions nor data are repaired.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise

from electra.finetuning.score.metrics import Score, f_score

OUTSIDE = "O"
_ALIASES = {"L": "E", "U": "S", "M": "I"}
_TAG = re.compile(r"([BIESLUM])(?:([-_])(.+))?", re.DOTALL | re.IGNORECASE)
Entity = tuple[int, int, str]  # indices of the first and the last word, and the type


def is_entity_tag(tag: str) -> bool:
    """Whether a tag is O, or a prefix with or without a type."""
    return is_outside(tag) or bool(_TAG.fullmatch(tag))


def is_outside(tag: str) -> bool:
    """Whether a tag marks words outside entities (O or o)."""
    return tag in ("O", "o")


@cache
def _parts(tag: str) -> tuple[str, str]:
    """Returns the prefix (B, I, E, S or O) and the type ("_" without one) of a tag."""
    match = _TAG.fullmatch(tag)
    if is_outside(tag) or match is None:
        return OUTSIDE, "_"
    prefix = match[1].upper()
    return _ALIASES.get(prefix, prefix), match[3] or "_"


def complete_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Returns the tags and all other combinations of their prefixes and types: O first, then by type."""
    tag_set = set(tags)
    matches = [match for tag in tag_set if not is_outside(tag) and (match := _TAG.fullmatch(tag))]
    typed = [match for match in matches if match[3]]
    type_of = {tag: tag[2:] for tag in tag_set}
    type_of |= {f"{prefix[1]}{kind[2]}{kind[3]}": kind[3] for kind in typed for prefix in typed}
    return tuple(sorted(type_of, key=lambda tag: (not is_outside(tag), type_of[tag], tag)))


def entities(tags: Sequence[str]) -> list[Entity]:
    """Returns the entities of one sentence, from the tags of its words."""
    spans: list[Entity] = []
    start = -1
    for position, (previous, tag) in enumerate(pairwise([OUTSIDE, *tags, OUTSIDE])):
        (previous_prefix, previous_type), (prefix, type_) = _parts(previous), _parts(tag)
        type_changes = previous_type != type_
        if previous_prefix != OUTSIDE and (
            previous_prefix in ("E", "S") or prefix in (OUTSIDE, "B", "S") or type_changes
        ):
            spans.append((start, position - 1, previous_type))
        if prefix != OUTSIDE and (
            prefix in ("B", "S") or previous_prefix in (OUTSIDE, "E", "S") or type_changes
        ):
            start = position
    return spans


def entity_scores(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> dict[str, Score]:
    """Returns `f1`, `precision` and `recall` of entities, which are correct if words and type are."""
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
