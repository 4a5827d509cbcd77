"""Splits texts into words in the way that a tagger's training data was split."""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import Literal, get_args

Splitting = Literal["spaces", "punctuation", "characters"]
SPLITTINGS: tuple[Splitting, ...] = get_args(Splitting)
Spans = tuple[tuple[int, int], ...]


def split_text(text: str, splitting: Splitting) -> tuple[tuple[str, ...], Spans]:
    """Returns the words of a text and their offsets, (start, end) in characters, end exclusive.

    The text is split at white space ("spaces"); or also around leading and trailing punctuation
    ("punctuation": "(see" is two words, "don't" is one); or into characters without white space
    ("characters").
    """
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    if splitting == "characters":
        spans = [(offset, offset + 1) for start, end in spans for offset in range(start, end)]
    elif splitting == "punctuation":
        spans = [span for start, end in spans for span in _without_punctuation(text, start, end)]
    return tuple(text[start:end] for start, end in spans), tuple(spans)


def infer_splitting(words: Iterable[str]) -> Splitting:
    """Returns the splitting that the words of training data suggest; "punctuation" without words."""
    num_words = num_attached = num_separate = num_single = 0
    for word in words:
        are_marks = [is_punctuation(character) for character in word]
        if are_marks and all(are_marks):
            num_separate += 1
        elif are_marks:
            num_words += 1
            num_attached += are_marks[-1] and word[-1] in ",.;:!?\u3002\u0964\u060c"
            num_single += len(word) == 1
    if num_words and num_single > 0.9 * num_words:
        return "characters"
    return "spaces" if num_attached > num_separate else "punctuation"


@cache
def is_punctuation(character: str) -> bool:
    """Whether Unicode classifies the character as punctuation."""
    return unicodedata.category(character).startswith("P")


def _without_punctuation(text: str, start: int, end: int) -> Iterable[tuple[int, int]]:
    """Yields the spans of leading punctuation, in runs of equal characters, of the word, and of trailing."""
    word = text[start:end]
    inner = re.escape(word.strip("".join(filter(is_punctuation, word))))
    for match in re.finditer(rf"{inner}|(.)\1*" if inner else r"(.)\1*", word):
        yield start + match.start(), start + match.end()


def is_unspaced(text: str) -> bool:
    """Whether a text is in a script without spaces between words, and long enough to be a sentence."""
    letters = re.findall("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u9fff]", text)
    return len(text) > 6 and 2 * len(letters) > len(text)


def are_words(pairs: Iterable[tuple[str, str]]) -> bool:
    """Whether the tags in pairs of words and tags are words themselves, such as their lemmas.

    They are if, of at least twenty different words, a quarter are their own tags; or if there are half as
    many different tags, and more than fifty; or more tags than words, and more than twenty.
    """
    pairs = {(word.casefold(), tag.casefold()) for word, tag in pairs}
    different, num_tags = {word for word, _ in pairs}, len({tag for _, tag in pairs})
    same = sum(word == tag and any(map(str.isalpha, word)) for word, tag in pairs)
    is_similar = len(different) >= 20 and 4 * same >= len(different)
    return is_similar or num_tags > max(50, len(different) // 2) or num_tags > max(20, len(different))
