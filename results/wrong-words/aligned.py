"""The words of an OCR text, each with what the truth says of it."""

from __future__ import annotations

import gzip
import json
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from rapidfuzz.distance import Levenshtein

QUOTES, DASHES = (
    {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'},
    "\u2010\u2011\u2012\u2013\u2014\u00ac",
)
SAME = str.maketrans(QUOTES | dict.fromkeys(DASHES, "-"))
MIN_LINK = 0.34  # share of the shorter word's characters that must be equal for two words to be aligned


@dataclass
class Word:
    """A word of the OCR text: everything between spaces without the punctuation at its ends."""

    document: str
    chunk: int
    text: str
    start: int
    end: int
    truth: str  # the aligned words of the truth, "" for none
    truth_start: int  # -1 for none
    kind: str  # "correct", "word" or "segmentation"


def simplify(text: str) -> str:
    """Returns a text of the same length without what is no error: case, kinds of dashes and quotes."""
    return "".join(low if len(low := c.lower()) == 1 else c for c in text.translate(SAME))


def bare(word: str) -> str:
    """A word as it is compared: without hyphens (lines end in some) and accents."""
    letters = unicodedata.normalize("NFKD", word.replace("-", ""))
    return "".join(c for c in letters if not unicodedata.combining(c))


def words_of(text: str) -> list[tuple[int, int]]:
    """Returns start and end of each word with a letter or a digit, without punctuation at its ends."""
    spans = []
    for match in re.finditer(r"\S+", text):
        inner = [i for i in range(*match.span()) if text[i].isalnum()]
        if inner:
            spans.append((inner[0], inner[-1] + 1))
    return spans


def align(ocr: str, truth: str) -> list[tuple[int, int, str, int, str]]:
    """Returns start, end, the truth's words, their start, and the kind of each word of `ocr`."""
    ocr, truth = simplify(ocr), simplify(truth)
    left, right = words_of(ocr), words_of(truth)
    owner_l = {i: n for n, span in enumerate(left) for i in range(*span)}
    owner_r = {i: n for n, span in enumerate(right) for i in range(*span)}
    equal: dict[tuple[int, int], int] = {}
    for block in Levenshtein.opcodes(ocr, truth):
        if block.tag == "equal":
            pairs = zip(range(block.src_start, block.src_end), range(block.dest_start, block.dest_end), strict=True)
            for i, j in pairs:
                if i in owner_l and j in owner_r:
                    pair = owner_l[i], owner_r[j]
                    equal[pair] = equal.get(pair, 0) + 1
    parent = {("l", n): ("l", n) for n in range(len(left))} | {("r", n): ("r", n) for n in range(len(right))}

    def root(node: tuple[str, int]) -> tuple[str, int]:
        while parent[node] != node:
            node = parent[node]
        return node

    for (i, j), count in equal.items():
        shorter = min(left[i][1] - left[i][0], right[j][1] - right[j][0])
        if count >= MIN_LINK * shorter:
            parent[root(("l", i))] = root(("r", j))
    groups: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
    for side, n in parent:
        groups.setdefault(root((side, n)), ([], []))[side == "r"].append(n)
    # words between two aligned ones, as many on both sides: a replacement without equal characters
    loose_r = {g[1][0] for g in groups.values() if not g[0] and len(g[1]) == 1}
    partner = {n: g for g in groups.values() for n in g[0]}
    rows = []
    for n, (start, end) in enumerate(left):
        ours, theirs = partner[n]
        if not theirs:
            before = max((partner[n - 1][1] if n else []) or [-2])
            if before + 1 in loose_r and before >= -1:
                theirs = [before + 1]
                partner[n] = (ours, theirs)
                loose_r.discard(before + 1)
        target = " ".join(truth[slice(*right[j])] for j in sorted(theirs))
        source = ocr[start:end]
        if len(ours) == len(theirs) == 1:
            kind = "correct" if bare(source) == bare(target) else "word"
        elif not theirs:
            kind = "word"
        else:
            one = ocr[left[min(ours)][0] : left[max(ours)][1]]
            other = truth[right[min(theirs)][0] : right[max(theirs)][1]]
            kind = "correct" if _only_hyphens(one, other) else "segmentation"
        rows.append((start, end, target, right[min(theirs)][0] if theirs else -1, kind))
    return rows


def _only_hyphens(one: str, other: str) -> bool:
    """Whether two texts differ by hyphens in place of spaces ("to-day", "to day") or at the end of a line."""
    return one.replace("-", " ") == other.replace("-", " ") or other in {one.replace("- ", ""), one}


def read(path: Path) -> tuple[list[str], list[str], list[Word]]:
    """Returns the OCR texts, the true texts and all words of the OCR texts."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    ocr, truth = [row["ocr_hypothesis"] for row in rows], [row["ground_truth"] for row in rows]
    words = []
    for chunk, row in enumerate(rows):
        document = row["id"].rsplit("_", 1)[0]
        for start, end, target, at, kind in align(ocr[chunk], truth[chunk]):
            words.append(Word(document, chunk, ocr[chunk][start:end], start, end, target, at, kind))
    return ocr, truth, words
