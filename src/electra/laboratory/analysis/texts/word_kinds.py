"""Kinds of words without annotation: closed classes by list, other words by their number of tokens."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from electra.foundation.config import read_toml


@cache
def _kinds() -> dict[str, dict[str, str]]:
    """Returns the closed class of each listed word, by language (word_kinds.toml)."""
    lists = read_toml(Path(__file__).with_suffix(".toml"))
    return {
        language: {word: kind for kind, words in by_kind.items() for word in words.split()}
        for language, by_kind in lists.items()
    }


def kind_of(word: str, num_tokens: int, language: str) -> str:
    """Returns the kind of a word. A word of many tokens is rare or misspelt.

    Closed classes are known for the languages en and de only.
    """
    if not any(letter.isalnum() for letter in word):
        return "punctuation"
    if any(letter.isdigit() for letter in word):
        return "number"
    if closed := _kinds().get(language, {}).get(word.lower()):
        return closed
    names = {0: "0 tokens", 1: "1 token", 2: "2 tokens"}
    return f"other word, {names.get(num_tokens, '3 tokens or more')}"
