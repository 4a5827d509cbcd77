"""Fits and measures the scorers of `electra detect`; writes detection.json of the included models.

    python results/detection/measure.py fit MODEL brown.jsonl.gz    # prints the record
    python results/detection/measure.py score MODEL sentences-a.txt [SCORER]

`fit`: every second of 2,000 sentences gets errors in a tenth of its words; `both` is fitted on one half of
these, and the scorers are compared on the other; thresholds are quantiles of the words of the others.
`score`: precision and recall at the default threshold on sentences in which {wrong|right|kind} is an error.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import re
import sys
import time
from collections import Counter
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

import electra
from electra.inference.detector import MIN_MARKED, RATES, Calibration, Curve, Detector, _threshold
from electra.inference.filling import LONGEST_WORD, Spellings

# Letters that a scanner confuses, in both directions
_ALIKE = "rn m;cl d;vv w;ri n;li h;in m;h b;e c;l i;u n;f t;l t;o c;a o;s a;g q;y v;f l;l 1;o 0;ii n"
CONFUSIONS = [pair for each in _ALIKE.split(";") for pair in (each.split(), each.split()[::-1])]
_WORD = re.compile(r"[^\W\d_]+")


def with_errors(texts: list[str], spellings: Spellings, *, share: float = 0.1) -> list[tuple[str, set[int]]]:
    """Puts errors into texts: in two of five, letters that look alike or a typing error; else another word.

    Returns:
        For each text, the changed text and the offsets in it at which wrong words begin.
    """
    rng = np.random.default_rng(0)
    changed = []
    for text in texts:
        new, position, starts = "", 0, set[int]()
        for match in _WORD.finditer(text):
            word = wrong = match[0]
            if rng.random() < share and 2 <= len(word) <= LONGEST_WORD:
                near = [] if rng.random() < 0.4 else list(spellings.near(word.lower()))
                wrong = near[rng.integers(len(near))] if near else _misread(word, rng)
                wrong = wrong.capitalize() if word[0].isupper() else wrong
            new += text[position : match.start()]
            if wrong.lower() != word.lower():
                starts.add(len(new))
            new, position = new + wrong, match.end()
        changed.append((new + text[position:], starts))
    return changed


def _misread(word: str, rng: np.random.Generator) -> str:
    """Returns a word with letters that look alike, or one letter changed, lost or added."""
    places = [(match.start(), a, b) for a, b in CONFUSIONS for match in re.finditer(a, word)]
    if places and rng.random() < 0.6:
        start, seen, read = places[rng.integers(len(places))]
        return word[:start] + read + word[start + len(seen) :]
    at, letter = rng.integers(len(word)), word[rng.integers(len(word))].lower()
    return word[:at] + (letter, "", letter + word[at])[rng.integers(3)] + word[at + 1 :]


def sentences(path: str, count: int = 2000) -> list[str]:
    """Returns sentences of the Brown corpus, four of each of its 500 samples."""
    rng, found = np.random.default_rng(1), list[str]()
    for document in gzip.open(path, "rt", encoding="utf-8"):
        lines = json.loads(document)["text"].replace("``", '"').replace("''", '"').split("\n")
        lines = [re.sub(r" ([,.;:?!])", r"\1", " ".join(line.split())) for line in lines]
        lines = [line for line in lines if 8 <= len(line.split()) <= 40]
        found += [lines[i] for i in rng.permutation(len(lines))[: count // 500]]
    return [found[i] for i in rng.permutation(len(found))]


def fit(name: str, path: str) -> None:
    curves: dict[str, Curve] = {}
    precision: dict[str, float] = {}
    model, texts = electra.load(name, device="cpu"), sentences(path)
    reader = electra.load("tiny-en", device="cpu").language_model
    record = Calibration(
        language_model="tiny-en" * (name == "small-en"), text=f"{len(texts):,} sentences of Brown"
    )
    detector = Detector("both", model.network("discriminator"), reader, record)
    changed = with_errors(texts[1::2], Spellings(detector.main.tokenizer))
    clean = np.concatenate([rows for _, rows in detector.words(texts[::2])])
    found = list(zip(detector.words(text for text, _ in changed), changed, strict=True))
    halves: list[tuple[Any, Any]] = []
    for half in (found[::2], found[1::2]):
        labels = [start in at for (starts, _), (_, at) in half for start in starts]
        halves.append((np.concatenate([rows for (_, rows), _ in half]), np.array(labels)))
    (rows, labels), (test_rows, test_labels) = halves
    weights = LogisticRegression(C=10, fit_intercept=False, max_iter=1000).fit(rows, labels).coef_[0]
    record = dataclasses.replace(record, weights=tuple(weights.round(4).tolist()), words=len(clean))
    detector = dataclasses.replace(detector, calibration=record)
    rates = [rate for rate in RATES if rate * len(clean) >= MIN_MARKED]
    scorers: tuple[Any, ...] = ("discriminator", "language-model", "both")
    for scorer in scorers:
        scores = detector.scores(scorer, clean)
        wrong = np.concatenate([detector.scores(scorer, rows[labels]) for rows, labels in halves])
        at = [_threshold(scores, rate) for rate in rates]
        recall = [round(float((wrong >= x).mean()), 4) for x in at]
        curves[scorer] = Curve(tuple(round(x, 8) for x in at), tuple(rates), tuple(recall))
        precision[scorer] = average_precision_score(test_labels, detector.scores(scorer, test_rows))
    best: Any = max(precision, key=precision.__getitem__)
    print(json.dumps(dataclasses.asdict(dataclasses.replace(record, scorer=best, curves=curves))))
    print({name: round(float(p), 3) for name, p in precision.items()}, file=sys.stderr)


def score(name: str, path: str, scorer: Any = "auto") -> None:
    texts, errors = [], []
    for line in open(path):
        parts: list[str] = re.split(r"\{(\w+)\|(\w+)\|(\w+)\}", line.strip())
        starts = {
            sum(map(len, parts[:i:4])) + sum(map(len, parts[1:i:4])): i for i in range(1, len(parts), 4)
        }
        errors.append({start: (parts[i + 1], parts[i + 2]) for start, i in starts.items()})
        texts.append("".join(part for i, part in enumerate(parts) if i % 4 < 2))
    began = time.perf_counter()
    found = electra.load(name, device="cpu").detect(texts, scorer=scorer, near=True)
    seconds, outcomes, first, top = time.perf_counter() - began, [], 0, 0
    for each, wrong in zip(found, errors, strict=True):
        suggested = dict(zip(each.marked, each.suggestions, strict=False))
        for word in each.words:
            if word.text[0].isalnum():
                right, kind = wrong.get(word.start, ("", ""))
                outcomes.append((word.p_replaced, word in each.marked, kind))
                words = [each.token for each in suggested.get(word, ())] if kind else []
                first, top = first + (words[:1] == [right]), top + (right in words)
    p, marked, kinds = map(np.array, zip(*outcomes, strict=True))
    hits = marked & (kinds != "")
    by_kind = {kind: f"{n} of {Counter(kinds)[kind]}" for kind, n in Counter(kinds[hits]).items()}
    print(
        f"{name} {scorer} {path}: threshold {found[0].threshold:.3f}, {marked.sum()} of {len(p)} words marked"
    )
    print(
        f"precision {hits.sum() / max(1, marked.sum()):.2f}, recall {hits.sum() / (kinds != '').sum():.2f},"
    )
    print(f"average precision {average_precision_score(kinds != '', p):.3f}; found {by_kind};")
    print(f"the right word suggested first {first}, among three {top}, of {hits.sum()}; {seconds:.1f} s")


if __name__ == "__main__":
    {"fit": fit, "score": score}[sys.argv[1]](*sys.argv[2:])
