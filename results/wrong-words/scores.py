"""Write scores of each word of an OCR text, higher for more suspicious ones: one file a scorer, words as they come.

python scores.py OCR.jsonl.gz OUT ngrams TEXTS             # character 6-gram, word trigram
python scores.py OCR.jsonl.gz OUT hunspell hunspell -d en_GB -l
python scores.py OCR.jsonl.gz OUT NAME MODEL discriminator|language-model [PIECE]
python scores.py OCR.jsonl.gz OUT NAME TAGGER auto 100000  # electra finetune --task ged: whole texts
"""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata
from collections import Counter
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from aligned import SAME, Word, read
from ngrams import Floats, Ints, KneserNey

CHARACTERS = " abcdefghijklmnopqrstuvwxyz0123456789.,;:!?'\"()-&$"  # others are one more
CODE = np.full(0x110000, len(CHARACTERS), np.int64)
CODE[[ord(c) for c in CHARACTERS]] = range(len(CHARACTERS))
BOUNDARY, UNKNOWN = 0, 1  # of the word model
PIECE = 60  # words that a network reads at a time


def plain(text: str) -> str:
    """Lower case, without accents, with one space between words."""
    text = unicodedata.normalize("NFKD", text.translate(SAME).lower())
    return re.sub(r"\s+", " ", "".join(c for c in text if not unicodedata.combining(c)))


def codes(text: str) -> Ints:
    return CODE[np.frombuffer(text.encode("utf-32-le"), np.uint32)]


class Language:
    """The character 6-gram and the word trigram of a folder of clean text."""

    def __init__(self, folder: Path) -> None:
        text = " ".join(plain(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.txt")))
        self.characters = KneserNey(codes(text), 6, 64)
        words = [word for token in text.split() if (word := strip(token))]
        frequent = sorted(word for word, count in Counter(words).items() if count > 1)
        self.ids = {word: n for n, word in enumerate(frequent, 2)}
        index = np.fromiter((self.ids.get(word, UNKNOWN) for word in words), np.int64)
        self.trigram = KneserNey(index, 3, 1 << 18)

    def spelling(self, texts: list[str]) -> Floats:
        """Returns -log p of each character of the texts, one after the other, and of the space after each."""
        sequence = codes(" " * 5 + " ".join(texts) + " ")
        return -self.characters.log_p(self.characters.windows(sequence))

    def trigrams(self, words: list[str]) -> Floats:
        """Returns -log p of each word and of the two boundaries after the last."""
        ids = [self.ids.get(word, UNKNOWN) for word in words]
        return -self.trigram.log_p(self.trigram.windows(np.array([0, 0, *ids, 0, 0])))


def strip(token: str) -> str:
    inner = [i for i, c in enumerate(token) if c.isalnum()]
    return token[inner[0] : inner[-1] + 1] if inner else ""


def by_chunk(words: list[Word]) -> list[list[Word]]:
    return [list(members) for _, members in groupby(words, key=lambda word: word.chunk)]


def ngram_scores(language: Language, texts: list[str], words: list[Word]) -> dict[str, list[float]]:
    """Returns the scores of several readings of the two models; the dev part chooses."""
    found: dict[str, list[float]] = {}
    for members in by_chunk(words):
        tokens = [plain(word.text).strip() for word in members]
        spelled, at = language.spelling(tokens), 0
        left = language.trigrams(tokens)
        for n, token in enumerate(tokens):
            here = spelled[at : at + len(token) + 1]  # with the boundary that ends it
            after = spelled[at : at + len(token) + 4]  # and how the next word begins
            at += len(token) + 1
            rows = {
                "6-gram-mean": here.mean(), "6-gram-max": here.max(), "6-gram-sum": here.sum(),
                "6-gram-after": after.mean(),
                "trigram-left": left[n], "trigram-both": left[n : n + 3].sum(),
            }  # fmt: skip
            unknown = token not in language.ids
            rows["trigram-spelled"] = rows["trigram-both"] + unknown * here.sum()
            for name, value in rows.items():
                found.setdefault(name, []).append(float(value))
    return found


def hunspell_scores(command: list[str], words: list[Word]) -> list[float]:
    """Returns 1 for each word that the spell checker does not accept."""
    types = sorted({word.text for word in words})
    listed = subprocess.run(command, input="\n".join(types), capture_output=True, text=True, check=True)
    wrong = set(listed.stdout.split())
    return [float(any(part in wrong for part in [w.text, *re.split(r"[-,.;:!?]", w.text)])) for w in words]


def network_scores(model: str, scorer: Any, texts: list[str], words: list[Word], piece: int) -> list[float]:
    """Returns the log-odds of the most suspicious part of each word, read in pieces of `piece` words."""
    import electra

    pieces, owners, scores = [], [], []
    for members in by_chunk(words):
        text = texts[members[0].chunk]
        bounds = [*range(0, len(members), piece), len(members)]
        for first, last in pairwise(bounds):
            begin = 0 if first == 0 else members[first].start
            pieces.append(text[begin : members[last].start if last < len(members) else len(text)])
            owners.append([(word.start - begin, word.end - begin) for word in members[first:last]])
    detections = electra.detect(model, pieces, scorer=scorer, suggestions=0)
    for detection, spans in zip(detections, owners, strict=True):
        parts = [part for part in detection.words if any(c.isalnum() for c in part.text)]
        for start, end in spans:
            inside = [part.p_replaced for part in parts if part.start < end and part.end > start]
            p = min(max(inside, default=0.5), 1 - 1e-12)
            scores.append(float(np.log(max(p, 1e-12) / (1 - p))))
    return scores


def main(data: Path, out: Path, name: str, *rest: str) -> None:
    texts, _, words = read(data)
    if name == "ngrams":
        language = Language(Path(rest[0]))
        found = ngram_scores(language, texts, words)
        out.mkdir(parents=True, exist_ok=True)
        known = (plain(word.text).strip() in language.ids for word in words)
        (out / "known").write_text("".join(f"{int(each)}\n" for each in known))
    elif name == "hunspell":
        found = {name: hunspell_scores(list(rest), words)}
    else:
        model, scorer, *piece = rest
        size = int(piece[0]) if piece else PIECE
        found = {name: network_scores(model, scorer, texts, words, size)}
    out.mkdir(parents=True, exist_ok=True)
    for scorer, values in found.items():
        (out / f"{scorer}.txt").write_text("".join(f"{value:.2f}\n" for value in values))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
