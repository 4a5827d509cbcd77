"""Texts as the words that a tagger reads: split as those of its training data are."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Literal, get_args

Splitting = Literal["spaces", "punctuation", "characters"]
SPLITTINGS: tuple[Splitting, ...] = get_args(Splitting)
Spans = tuple[tuple[int, int], ...]


def split_text(text: str, how: Splitting) -> tuple[tuple[str, ...], Spans]:
    """The words of a text, and of each its first character and the one after its last.

    spaces: at white space. punctuation: also before and after punctuation at the ends of what stands between
    spaces ("(see" is two words, "don't" is one). characters: each is a word.
    """
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    if how == "characters":
        spans = [(place, place + 1) for start, end in spans for place in range(start, end)]
    elif how == "punctuation":
        spans = [span for start, end in spans for span in _apart(text, start, end)]
    return tuple(text[start:end] for start, end in spans), tuple(spans)


def splitting_of(words: Iterable[str]) -> Splitting:
    """How the words of training data were split."""
    whole = attached = apart = single = 0
    for word in words:
        marks = [is_punctuation(character) for character in word]
        if marks and all(marks):
            apart += 1
        elif marks:
            whole += 1
            attached += marks[-1] and word[-1] in ",.;:!?\u3002\u0964\u060c"
            single += len(word) == 1
    if whole and single > 0.9 * whole:
        return "characters"
    return "spaces" if attached > apart else "punctuation"


def is_punctuation(character: str) -> bool:
    return unicodedata.category(character).startswith("P")


def _apart(text: str, start: int, end: int) -> Iterable[tuple[int, int]]:
    """Punctuation at both ends, equal characters in a row together, and what is between."""
    first, last = start, end
    while first < end and is_punctuation(text[first]):
        first += 1
    while last > first and is_punctuation(text[last - 1]):
        last -= 1
    yield from _runs(text, start, first)
    if first < last:
        yield first, last
        yield from _runs(text, last, end)


def _runs(text: str, start: int, end: int) -> Iterable[tuple[int, int]]:
    begun = start
    for place in range(start + 1, end + 1):
        if place == end or text[place] != text[begun]:
            yield begun, place
            begun = place
