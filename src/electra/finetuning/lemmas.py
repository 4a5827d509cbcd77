"""Lemmas of words whose tags are known: those of the treebank's own words, and edit rules for all others.

A rule says how a form becomes its lemma: it keeps a part that both share, and replaces what is before and
behind it. A new word takes the most frequent rule of the known words with its tags and the longest
common ending. On parts of train that was better than rules predicted by the head, which needs no output then.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

LONGEST_ENDING = 6  # characters
FRONT = 2.5  # characters that a kept beginning is worth: ge-macht, but f-engum
CASES: dict[str, Callable[[str], str]] = {"keep": str, "lower": str.lower, "title": str.title}
Key = tuple[str, int | str]
"""A form or an ending, and tags by number or by UPOS."""


class Rule(NamedTuple):
    """How a form becomes a lemma: characters to cut at both ends, and what is put there."""

    case: str  # one of CASES; "": the lemma is `end`, because nothing is kept
    cut: int
    front: str
    cut_end: int
    end: str

    def __call__(self, form: str) -> str | None:
        """Returns the lemma; None if the form is too short for the rule."""
        if not self.case:
            return self.end
        base = CASES[self.case](form)
        kept = base[self.cut : len(base) - self.cut_end]
        return self.front + kept + self.end if kept else None


@lru_cache(1 << 16)
def rule_of(form: str, lemma: str) -> Rule:
    """Returns the rule that makes the lemma of the form and keeps most of it, if possible its beginning."""
    names = ("lower", "keep", "title") if lemma == lemma.lower() else ("keep", "title", "lower")
    best, rule = 0.0, Rule("", 0, "", 0, lemma)
    for name in names:
        base = CASES[name](form)
        a, b, size = SequenceMatcher(None, base, lemma, autojunk=False).find_longest_match()
        differ = (i for i, (x, y) in enumerate(zip(base, lemma, strict=False)) if x != y)
        common = next(differ, min(len(base), len(lemma)))
        for cut, kept, start in ((0, common, 0), (a, size, b)):
            if kept and kept + FRONT * (cut == start == 0) > best:
                best, end = kept + FRONT * (cut == start == 0), start + kept
                rule = Rule(name, cut, lemma[:start], len(base) - cut - kept, lemma[end:])
    return rule


class Lemmas:
    """The lemmas of known words, and rules by endings."""

    def __init__(self, words: Iterable[tuple[str, int, str, str]]) -> None:
        """Takes each known word with its tags (a number), its UPOS and its lemma, the most frequent first."""
        self.known: dict[Key, str] = {}
        self.rules: dict[Key, Counter[Rule]] = defaultdict(Counter)
        for form, tags, upos, lemma in words:
            rule, low = rule_of(form, lemma), form.lower()
            for key in _keys((form, low), tags, upos):
                self.known.setdefault(key, lemma)
            for key in _keys(_endings(low), tags, upos):
                self.rules[key][rule] += 1

    @lru_cache(1 << 16)  # noqa: B019
    def __call__(self, form: str, tags: int, upos: str) -> str:
        """Returns the lemma of a word; itself without a rule for it."""
        low = form.lower()
        for key in _keys((form, low), tags, upos):
            if key in self.known:
                return self.known[key]
        for key in _keys(_endings(low), tags, upos):
            for rule, _ in self.rules.get(key, Counter()).most_common():
                if (lemma := rule(form)) is not None:
                    return lemma
        return form


def _keys(forms: Iterable[str], tags: int, upos: str) -> list[Key]:
    return [(form, key) for form in forms for key in (tags, upos)]


def _endings(word: str) -> list[str]:
    """Returns the endings of a word, the longest first."""
    return [word[len(word) - size :] for size in range(min(len(word), LONGEST_ENDING), -1, -1)]
