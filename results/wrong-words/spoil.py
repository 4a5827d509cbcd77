"""Clean text with made-up reading errors, as training data of a tagger: `word TAB c|i`, an empty line between sentences.

python spoil.py TEXTS OUT [LINES] [SEED] [any]    # writes OUT/train.tsv and OUT/dev.tsv

The shapes that are confused are general knowledge of printing, not counts of the text that is tested. With `any`,
each letter is confused with any other.
"""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path
from string import ascii_letters, ascii_lowercase

SHARE = 0.1  # of the words that are spoilt
LIKE = {
    "h": "b li ln k tl", "b": "h l) 6", "e": "c o a", "c": "e o (", "o": "c e a 0", "a": "u e o n s", "u": "n ii a li",
    "n": "u ii ri a", "m": "in rn ni nn", "i": "l 1 t ; j", "l": "1 i t I !", "t": "l f i r c", "f": "t s r l", "s": "a 8 f x",
    "r": "t n i v", "d": "cl il tl", "w": "vv tv iv v", "v": "r y w", "y": "v j", "g": "q y ;", "p": "j) n y", "k": "h lc",
    "fi": "li h", "T": "I 1 '1", "B": "R H 13", "H": "II B", "M": "JI N", "I": "1 l T", "O": "0 C Q", "S": "8 N", "E": "F K",
    "0": "O o", "1": "l I", "5": "6 3", "3": "8 5", "6": "0 b", "8": "3 S",
}  # fmt: skip


def misread(word: str, draw: random.Random) -> str:
    """A word with one wrong character, or more in some."""
    while True:
        i = draw.randrange(len(word))
        kind = draw.random()
        if kind < 0.75 and word[i] in LIKE:
            new = word[:i] + draw.choice(LIKE[word[i]].split()) + word[i + 1 :]
        elif kind < 0.9 and len(word) > 2:
            new = word[:i] + word[i + 1 :]
        else:
            new = word[:i] + draw.choice(".,'-;:^*ilt") + word[i:]
        word = new
        if draw.random() > 0.3:
            return word


def spoil(words: list[str], draw: random.Random) -> list[tuple[str, str]]:
    """Returns the words with errors, each with its label: c (correct) or i (incorrect)."""
    rows: list[tuple[str, str]] = []
    joined = ""
    for word in words:
        word, chance = joined + word, draw.random()
        if joined:
            rows.append((word, "i"))
        elif chance >= SHARE:
            rows.append((word, "c"))
        elif chance < 0.6 * SHARE:
            wrong = misread(word, draw)
            rows.append((wrong, "c" if wrong == word else "i"))
        elif chance < 0.9 * SHARE and len(word) > 3:
            cut = draw.randrange(1, len(word))
            rows += [(word[:cut], "i"), (word[cut:], "i")]
        else:
            joined = word
            continue
        joined = ""
    return rows + ([(joined, "c")] if joined else [])


def main(folder: Path, out: Path, count: str = "8000", seed: str = "1", *rest: str) -> None:
    draw = random.Random(int(seed))
    if "any" in rest:
        LIKE.clear()
        LIKE.update(dict.fromkeys(ascii_letters, " ".join(ascii_lowercase)))
    text = [line.split() for path in sorted(folder.rglob("*.txt")) for line in path.read_text("utf-8").splitlines()]
    lines = [line for line in text if len(line) >= 8]
    if len(lines) < int(count):
        sys.exit(f"{folder}: {len(lines)} lines of 8 words in .txt files, {count} needed: pass fewer as LINES")
    out.mkdir(parents=True, exist_ok=True)
    for name, size in (("train", int(count)), ("dev", int(count) // 20)):
        rows = []
        for line in draw.sample(lines, size):
            start = draw.randrange(max(1, len(line) - 39))
            tagged = [row for row in spoil(line[start : start + 40], draw) if re.search(r"\S", row[0])]
            rows.append("".join(f"{word}\t{label}\n" for word, label in tagged))
        (out / f"{name}.tsv").write_text("\n".join(rows), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
