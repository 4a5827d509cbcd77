"""What printing does to words: it divides them at the ends of lines, and writes fi as one letter.

A word is joined where the whole is known: to the text itself, or to a model as a token of its own. It keeps
its hyphen where the text has it so within a line, or where both halves are words and the whole is not
(well-known). Signs that mean nothing else (a soft hyphen, U+00AC, U+2E17) join unless the text has the word
with a hyphen. Another word is joined only if it has fewer tokens than its halves, in a model that is at hand.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from electra.foundation.terminal_text import plural

if TYPE_CHECKING:
    from electra.data.corpus.tokenizer import Tokenizer

DIVIDING = "\xad\xac\u2e17"  # soft hyphen, not sign, double oblique hyphen: they stand in no compound
SIGNS = f"-\u2010={DIVIDING}"
# After pre- in "pre- and postwar"
SUSPENDED = frozenset(str.split("and or nor to und oder bis et ou y o e en of"))
BLOCK = 10_000  # lines of a file that are looked at together
NAMED = 3  # words in a note
_HYPHEN = re.compile("[-\u2010]")
_WORD = re.compile(r"[^\W\d_]+(?:[-\u2010][^\W\d_]+)*")
_LAST = re.compile(rf"{_WORD.pattern}\Z")
_LIGATURES = {"\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl"}
_LIGATURES |= {"\ufb05": "st", "\ufb06": "st"}
_LIGATURE = re.compile("[\ufb00-\ufb06]")


def without_ligatures(text: str) -> str:
    """Returns a text with the letters of its Latin ligatures."""
    return _LIGATURE.sub(lambda found: _LIGATURES[found[0]], text)


def places_of_letters(text: str) -> list[int]:
    """Returns which character of `text` each character of `without_ligatures(text)` is from."""
    return [i for i, character in enumerate(text) for _ in _LIGATURES.get(character, character)]


def tokens_by(opened: Callable[[], Tokenizer]) -> Callable[[str], int]:
    """Returns how many tokens a word has; the tokenizer is `opened` once a word is in question."""
    from electra.data.corpus.tokenizer import Count

    @cache
    def num_tokens(word: str) -> int:
        tokenizer = opened()
        counted, tokenizer.counted = tokenizer.counted, Count()
        encoded = tokenizer.encode_corpus([f" {word}", f" {word.lower()}"])
        tokenizer.counted = counted
        return min(len(word) if tokenizer.specials.unk in ids else len(ids) for ids in encoded)

    return num_tokens


class Whole(NamedTuple):
    """The word that two halves make."""

    text: str
    is_joined: bool  # without the hyphen
    halves: str  # such as riv-er
    evidence: int  # that a line was broken here: 2 if the whole is known and its halves are not, 1 if all are


class LineEnds:
    """Joins the words that are divided at the ends of lines, and counts them.

    `num_tokens` says how many tokens a model has for a word (None: no model is at hand); `keep`: all hyphens.
    """

    def __init__(self, num_tokens: Callable[[str], int] | None = None, keep: bool = False) -> None:
        self.num_tokens, self.keep = num_tokens, keep
        self.joined, self.kept = Counter[str](), Counter[str]()  # as divided, such as riv-er

    def whole(self, first: str, second: str, seen: Mapping[str, int]) -> Whole | None:
        """Returns the word of which `first` ends a line and `second` begins the next; None if they are two.

        `seen` are the `words_within` the lines.
        """
        stem, sign = first[:-1], first[-1:]
        before, after = _LAST.search(stem), _WORD.match(second)
        if not sign or sign not in SIGNS or before is None or after is None:
            return None
        compound = f"{before[0]}-{after[0]}".replace("\u2010", "-").casefold()
        head, tail = _HYPHEN.split(before[0])[-1], _HYPHEN.split(after[0])[0]
        is_known = self._is_word(head + tail, seen)
        are_words = self._is_word(head, seen) and self._is_word(tail, seen)
        continues = tail[0].islower() or (tail.isupper() and head.isupper())
        joins, is_open = sign in DIVIDING or is_known, sign == "=" or after[0].casefold() in SUSPENDED
        if not joins and self.num_tokens is not None and not are_words and not is_open:
            joins = self.num_tokens(head + tail) < self.num_tokens(head) + self.num_tokens(tail)
        if self.keep or not continues or seen[compound] > seen[(head + tail).casefold()]:
            joins = False
        if not joins and is_open:
            return None
        hyphen = sign if sign == "\u2010" else "-"
        text = stem + second if joins else stem + hyphen + second
        evidence = 2 if sign in DIVIDING or (is_known and not are_words) else int(is_known)
        return Whole(text, joins, f"{before[0]}-{after[0]}", evidence)

    def count(self, whole: Whole, is_joined: bool) -> None:
        """Counts a word for `note`."""
        counts = self.joined if is_joined else self.kept
        counts[whole.halves] += 1

    def lines(self, lines: Iterable[str]) -> Iterator[str]:
        """Yields the lines of plain text; a word that is joined stands in the line where it begins.

        Nothing changes without evidence that lines were broken: they may also be texts of their own.
        """
        source = iter(lines)
        while block := list(islice(source, BLOCK)):
            yield from self._block(block)

    def _block(self, lines: list[str]) -> list[str]:
        ends = [i for i, line in enumerate(lines) if line.rstrip()[-1:] in {*SIGNS}]
        seen = words_within([line.split() for line in lines]) if ends else {}
        found, last = list[Whole](), -1
        mended = list(lines)
        for i in ends:
            last = last if last >= 0 and not mended[i].strip() else i
            if not mended[last].strip() or i + 1 == len(lines) or not mended[i + 1].strip():
                continue
            first, second = mended[last].split()[-1], mended[i + 1].split()[0]
            whole = self.whole(first, second, seen)
            if whole is None:
                continue
            found.append(whole)
            if whole.is_joined:
                mended[last] = mended[last].rstrip()[: -len(first)] + whole.text
                mended[i + 1] = mended[i + 1].lstrip()[len(second) :].lstrip()
        is_broken = sum(whole.evidence for whole in found if whole.is_joined) > 1
        for whole in found:
            self.count(whole, whole.is_joined and is_broken)
        return mended if is_broken else lines

    def text(self, text: str) -> str:
        """Returns a text of several lines, mended like `lines`."""
        if not any(f"{sign}\n" in text or f"{sign} \n" in text for sign in SIGNS):
            return text
        return "\n".join(self._block(text.split("\n")))

    def note(self) -> str:
        """Returns how many words were joined and how many not, for the user; "" if none was divided."""
        parts = []
        for counts, done in ((self.joined, "joined"), (self.kept, "kept the hyphen of")):
            if counts:
                names = ", ".join(list(counts)[:NAMED])
                parts.append(f"{done} {plural(counts.total(), 'word')} divided at a line end ({names})")
        return "; ".join(parts)

    def _is_word(self, word: str, seen: Mapping[str, int]) -> bool:
        return seen[word.casefold()] > 0 or (self.num_tokens is not None and self.num_tokens(word) == 1)


def words_within(lines: Sequence[Sequence[str]]) -> Counter[str]:
    """Counts the words, in lower case, of lines of words that are not divided at the end of one."""
    counts, is_divided = Counter[str](), False
    for line in lines:
        inner = line[is_divided and len(line) > 0 :]
        is_divided = bool(line) and line[-1][-1:] in SIGNS
        inner = inner[:-1] if is_divided else inner
        for word in inner:
            counts.update(each.casefold().replace("\u2010", "-") for each in _WORD.findall(word))
    return counts
