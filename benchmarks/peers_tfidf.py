"""TF-IDF and logistic regression as the peer of a text classifier, tuned by folds on train.

    python benchmarks/peers_tfidf.py train.jsonl test.jsonl [--matthews]

Needs scikit-learn, and nothing of this project. The texts of a pair are counted apart, and together as what
they share. Prints a line of JSON: the accuracy or the Matthews correlation, what was chosen, the seconds.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from scipy.sparse import hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, matthews_corrcoef
from sklearn.model_selection import StratifiedKFold, cross_val_score

STRENGTHS = (0.3, 1, 3, 10, 30, 100)
ANALYZERS: dict[str, list[dict[str, Any]]] = {
    "words": [{"ngram_range": (1, 2)}],
    "words and characters": [{"ngram_range": (1, 2)}, {"analyzer": "char_wb", "ngram_range": (2, 5)}],
}
Rows = list[list[str]]


def read(path: Path) -> tuple[Rows, list[str]]:
    """Returns the texts and the labels."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [[text for name, text in row.items() if name != "label"] for row in rows], [r["label"] for r in rows]


def views(rows: Rows) -> list[list[str]]:
    """Returns the texts of each column and, of pairs, the words in common."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    if len(columns) == 2:
        columns.append([" ".join({*a.lower().split()} & {*b.lower().split()}) for a, b in rows])
    return columns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--matthews", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    (train, answers), (test, gold), began = read(given.train), read(given.test), time.monotonic()
    folds = StratifiedKFold(5, shuffle=True, random_state=given.seed)
    tried = []
    for name, analyzers in ANALYZERS.items():
        # the weights of words are learned from all training texts, labels are not seen
        counters = [[TfidfVectorizer(sublinear_tf=True, **each) for each in analyzers] for _ in views(train)]
        blocks = [
            counter.fit_transform(column)
            for column, several in zip(views(train), counters, strict=True)
            for counter in several
        ]
        for strength in STRENGTHS:
            model = LogisticRegression(C=strength, max_iter=1000)
            mean = cross_val_score(model, hstack(blocks).tocsr(), answers, cv=folds).mean()
            tried.append((mean, name, strength, hstack(blocks).tocsr(), counters))
    _, name, strength, matrix, counters = max(tried, key=lambda each: each[0])
    model = LogisticRegression(C=strength, max_iter=1000).fit(matrix, answers)
    columns = zip(views(test), counters, strict=True)
    said = model.predict(hstack([each.transform(column) for column, several in columns for each in several]))
    result = (matthews_corrcoef if given.matthews else accuracy_score)(gold, said)
    seconds = round(time.monotonic() - began, 1)
    print(json.dumps({"score": round(float(result), 4), "features": name, "C": strength, "seconds": seconds}))


if __name__ == "__main__":
    main()
