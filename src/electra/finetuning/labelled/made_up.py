"""Wrong words made up in clean text, to train a tagger that finds those of scanned or typed text."""

import random
from collections.abc import Iterator, Sequence

from electra.data.tables.lines import Place
from electra.finetuning.labelled.examples import Example
from electra.foundation.errors import DataError
from electra.foundation.seeds import key, permute

SHARE = 0.1  # of the words are wrong: six of ten misspelt, the others split in two or joined to the next word
MIN_WORDS, MAX_WORDS = 8, 40  # of an example; shorter lines are left out, longer ones are cut
MAX_EXAMPLES = 10_000
MARKS = ".,'-;:^*"  # that a speck on the paper is read as


def made_up(lines: Sequence[tuple[Place, str]]) -> list[Example]:
    """Returns examples with wrong words, labelled i (the others c), drawn from lines of clean text.

    A letter is misread as any other of its line: tables of what looks alike gain nothing
    (results/wrong-words). Raises DataError if no line is long enough.
    """
    pieces = [
        (index, first)
        for index, (_, line) in enumerate(lines)
        for first in range(0, len(line.split()) - MIN_WORDS + 1, MAX_WORDS)
    ]
    if not pieces:
        problem, fix = f"no line of {MIN_WORDS} words", "Pass clean text, a sentence or paragraph a line"
        raise DataError(problem, where=lines[0][0].source, fix=fix)
    drawn = permute(range(min(MAX_EXAMPLES, len(pieces))), len(pieces), key(0, "pieces"))
    examples = []
    for index in sorted(map(int, drawn)):
        number, first = pieces[index]
        where, line = lines[number]
        words, draw = line.split()[first : first + MAX_WORDS], random.Random(key(0, "made-up", 0, index))
        texts, gold = zip(*_spoilt(words, draw), strict=True)
        examples.append(Example("", where, texts, gold))
    return examples


def _spoilt(words: list[str], draw: random.Random) -> Iterator[tuple[str, str]]:
    letters, start = [c for c in "".join(words).lower() if c.isalpha()] or ["x"], ""
    for number, each in enumerate(words, 1):
        word, chance = start + each, 1.0 if start else draw.random() / SHARE
        label, start = "i" if start else "c", ""
        if chance < 0.6:
            wrong = _misspelt(word, letters, draw)
            yield wrong, "c" if wrong == word else "i"
        elif chance < 0.9 and len(word) > 3:
            cut = draw.randrange(1, len(word))
            yield from ((word[:cut], "i"), (word[cut:], "i"))
        elif chance < 1 and number < len(words):
            start = word
        else:
            yield word, label


def _misspelt(word: str, letters: Sequence[str], draw: random.Random) -> str:
    while True:
        at, kind = draw.randrange(len(word)), draw.random()
        is_lost = len(word) > 2 and 0.75 <= kind < 0.9
        added = "" if is_lost else draw.choice(letters if kind < 0.75 else MARKS)
        word = word[:at] + added + word[at + (is_lost or kind < 0.75) :]
        if draw.random() > 0.3:
            return word
