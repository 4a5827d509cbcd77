"""A conditional random field as the peer of a tagger: words, affixes and neighbours, tuned by folds on train.

    python benchmarks/crf.py train.conll test.conll [--entities] [--penalties C1 C2]

Needs sklearn-crfsuite, and nothing of this project. Prints a line of JSON: the share of words with the right
tag or, with --entities, the F1 of whole BIO entities; the penalties, chosen by folds unless they are given;
and the seconds.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

PENALTIES = tuple(product((0.01, 0.1), (0.001, 0.01, 0.1)))  # c1 and c2
FOLDS = 3
Sentence = tuple[list[str], list[str]]


def read(path: Path) -> list[Sentence]:
    """Returns the words and tags of each sentence: a word and a tag on each line, blank lines between."""
    blocks = path.read_text(encoding="utf-8").split("\n\n")
    rows = [[line.split("\t") for line in block.splitlines() if line.strip()] for block in blocks]
    return [([row[0] for row in block], [row[-1] for row in block]) for block in rows if block]


def features(words: list[str]) -> list[list[str]]:
    """Returns the features of each word."""
    found = []
    for place, word in enumerate(words):
        low = word.lower()
        names = ["bias", f"w={word}", f"l={low}", f"t={word.istitle()}{word.isupper()}{word.isdigit()}"]
        for size in range(1, min(4, len(word)) + 1):
            names += [f"p={low[:size]}", f"s={low[-size:]}"]
        for step in (-2, -1, 1, 2):
            if 0 <= place + step < len(words):
                other = words[place + step]
                names += [
                    f"{step}={other.lower()}",
                    f"{step}s={other.lower()[-3:]}",
                    f"{step}t={other.istitle()}",
                ]
            else:
                names.append(f"{step}=edge")
        found.append(names)
    return found


def fit(rows: list[Sentence], c1: float, c2: float) -> Any:
    """Returns a fitted CRF."""
    from sklearn_crfsuite import CRF  # type: ignore[import-not-found]

    model = CRF(c1=c1, c2=c2, max_iterations=100, all_possible_transitions=True)
    return model.fit([features(words) for words, _ in rows], [tags for _, tags in rows])


def entities(tags: list[str]) -> set[tuple[int, int, str]]:
    """Returns the entities of BIO tags as conlleval reads them: first word, last word, type."""
    found, start = set(), -1
    for place, tag in enumerate([*tags, "O"]):
        kind = tag.partition("-")[2]
        before = tags[place - 1].partition("-")[2] if place else ""
        if start >= 0 and (not tag.startswith("I") or kind != before):
            found.add((start, place - 1, before))
            start = -1
        if start < 0 and tag != "O":
            start = place
    return found


def score(model: Any, rows: list[Sentence], of_entities: bool) -> float:
    """Returns the accuracy of tags, or the F1 of entities."""
    pairs = list(zip(model.predict([features(words) for words, _ in rows]), (t for _, t in rows), strict=True))
    if not of_entities:
        return float(np.mean([said == tag for one, gold in pairs for said, tag in zip(one, gold, strict=True)]))
    spans = [(entities(list(one)), entities(gold)) for one, gold in pairs]
    return 2 * sum(len(a & b) for a, b in spans) / max(1, sum(len(a) + len(b) for a, b in spans))


def choose(train: list[Sentence], of_entities: bool) -> tuple[float, float]:
    """Returns the penalties with the best mean score on held-out folds."""
    fold = np.random.default_rng(0).permutation(len(train)) % FOLDS
    means = []
    for penalties in PENALTIES:
        scores = []
        for i in range(FOLDS):
            rest, held_out = (
                [row for row, at in zip(train, fold, strict=True) if (at == i) == out] for out in (False, True)
            )
            scores.append(score(fit(rest, *penalties), held_out, of_entities))
        means.append(float(np.mean(scores)))
    return PENALTIES[int(np.argmax(means))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--entities", action="store_true")
    parser.add_argument("--penalties", type=float, nargs=2, metavar=("C1", "C2"))
    given = parser.parse_args()
    train, began = read(given.train), time.monotonic()
    best = tuple(given.penalties) if given.penalties else choose(train, given.entities)
    result = score(fit(train, *best), read(given.test), given.entities)
    seconds = round(time.monotonic() - began, 1)
    print(json.dumps({"score": round(result, 4), "c1": best[0], "c2": best[1], "seconds": seconds}))


if __name__ == "__main__":
    main()
