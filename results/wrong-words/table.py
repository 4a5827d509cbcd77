"""Print the tables of the page.

python table.py OCR.jsonl.gz SCORES

SCORES: what scores.py and tags.py wrote. Scorers without a file there are left out. Every third document (in the
order of their numbers) is dev, where readings and combinations were chosen; the others are test.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, precision_recall_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).parent))
from aligned import read

RESAMPLES = 1000
ROWS = {
    "hunspell, British English": "hunspell",
    "character 6-gram": "6-gram-max",
    "word trigram, unknown words by the 6-gram": "trigram-spelled",
    "tiny-en": "tiny-en",
    "tiny-en, masked language model": "tiny-en-mlm",
    "tiny-en, both": "tiny-en-both",
    "small-en": "small-en",
    "small-en, both": "small-en-both",
    "small-en continued, seed 1": "small-1",
    "small-en continued, seed 2": "small-2",
    "tiny-en fine-tuned on clean text": "product",
    "tiny-en fine-tuned on clean text, seed 2": "product-2",
    "tiny-en fine-tuned, 3 % of the words made wrong": "product-3pc",
    "not pre-trained, fine-tuned": "product-random",
    "tiny-en, table of look-alikes": "spoilt-tiny",
    "tiny-en, any letter for any other": "spoilt-tiny-any",
    "small-en, table of look-alikes, seed 1": "spoilt",
    "small-en, table of look-alikes, seed 2": "spoilt-2",
}  # fmt: skip
COMBINED = {
    "tiny-en both, hunspell": ("tiny-en-both", "hunspell"),
    "continued, 6-gram, hunspell": ("small-1", "6-gram-max", "hunspell"),
    "6-gram, trigram, hunspell": ("6-gram-max", "trigram-spelled", "hunspell"),
    "fine-tuned tiny-en, hunspell": ("product", "hunspell"),
    "fine-tuned tiny-en, both, hunspell": ("product", "tiny-en-both", "hunspell"),
    "fine-tuned tiny-en, both, 6-gram, hunspell": ("product", "tiny-en-both", "6-gram-max", "hunspell"),
    "fine-tuned small-en, small-en, 6-gram, hunspell": ("spoilt", "small-en", "6-gram-max", "hunspell"),
}  # by logistic regression on dev
DIFFERENCES = (
    ("small-en continued, seed 1", "small-en"),
    ("small-en continued, seed 2", "small-en"),
    ("tiny-en, both", "tiny-en"),
    ("tiny-en, both", "character 6-gram"),
    ("tiny-en fine-tuned on clean text", "tiny-en, both"),
    ("tiny-en fine-tuned on clean text", "hunspell, British English"),
    ("tiny-en fine-tuned on clean text", "6-gram, trigram, hunspell"),
    ("tiny-en fine-tuned on clean text", "not pre-trained, fine-tuned"),
    ("tiny-en fine-tuned on clean text", "tiny-en, table of look-alikes"),
    ("fine-tuned tiny-en, hunspell", "tiny-en fine-tuned on clean text"),
)  # fmt: skip
KINDS = ("non-word", "real word", "segmentation")


def threshold(wrong: np.ndarray, score: np.ndarray, share: float = 0.01) -> float:
    """Returns the lowest threshold that marks at most `share` of the correct words."""
    correct = np.sort(score[~wrong])
    return float(np.nextafter(correct[len(correct) - 1 - int(share * len(correct))], np.inf))


def recall(wrong: np.ndarray, score: np.ndarray) -> float:
    """Returns the share of the wrong words that is marked at 1 % false alarms."""
    return float(np.mean(score[wrong] >= threshold(wrong, score)))


def precision(wrong: np.ndarray, score: np.ndarray) -> float:
    """Returns the best precision at a recall of at least one half."""
    values, found, _ = precision_recall_curve(wrong, score)
    return float(values[found >= 0.5].max())


def resampled(wrong: np.ndarray, score: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Returns average precision with each word counted as often as each row of `weights` [R, words] says."""
    order = np.argsort(-score, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(score[order])), len(order) - 1)  # the last word of each tie
    values = []
    for row in weights:
        all_found, found = (np.cumsum((row * chosen)[order])[ends] for chosen in (1, wrong))
        values.append(np.sum(np.diff(found, prepend=0) * found / np.maximum(all_found, 1)) / found[-1])
    return np.array(values)


def combine(columns: np.ndarray, wrong: np.ndarray, documents: np.ndarray, dev: np.ndarray) -> np.ndarray:
    """Returns log-odds of a logistic regression on dev; each dev document's by one on the other dev documents."""

    def fitted(chosen: np.ndarray) -> np.ndarray:
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        return np.asarray(model.fit(columns[chosen], wrong[chosen]).decision_function(columns))

    combined = fitted(dev)
    for document in set(documents[dev]):
        here = documents == document
        combined[here] = fitted(dev & ~here)[here]
    return combined


def main(data: Path, folder: Path) -> None:
    _, _, words = read(data)
    documents = np.array([word.document for word in words])
    names = sorted(set(documents), key=lambda name: int(name.split("_")[-1]))
    dev = np.isin(documents, names[::3])
    known = [line == "1" for line in (folder / "known").read_text().splitlines()]  # in the clean text, twice
    kinds = np.array([
        word.kind if word.kind != "word" else "real word" if is_known else "non-word"
        for word, is_known in zip(words, known, strict=True)
    ])  # fmt: skip
    wrong, part = kinds != "correct", np.array((folder / "tags").read_text().splitlines())
    files = {path.stem: np.loadtxt(path) for path in sorted(folder.glob("*.txt"))}
    print(f"dev: {dev.sum()} words, {len(names[::3])} documents; test: {(~dev).sum()}, {len(set(documents[~dev]))}")
    print("test, % of words:", {kind: round(100 * float(np.mean(kinds[~dev] == kind)), 2) for kind in KINDS})
    print("dev, average precision of every file:")
    print({name: round(float(average_precision_score(wrong[dev], s[dev])), 3) for name, s in files.items()})

    draw = np.random.default_rng(0)
    scores = {"random": draw.random(len(words))} | {row: files[file] for row, file in ROWS.items() if file in files}
    for row, members in COMBINED.items():
        if all(member in files for member in members):
            scores[row] = combine(np.stack([files[member] for member in members], 1), wrong, documents, dev)
    test = np.flatnonzero(~dev)
    _, index = np.unique(documents[test], return_inverse=True)
    count = index.max() + 1
    weights = draw.multinomial(count, np.full(count, 1 / count), size=RESAMPLES)[:, index]

    def interval(values: np.ndarray) -> str:
        return "[{:.3f}, {:.3f}]".format(*np.quantile(values, [0.025, 0.975]))

    measures: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
        "average precision": average_precision_score,
        "precision at recall .5": precision,
        "recall at 1 % false alarms": recall,
    }
    drawn = {}
    print("\n| scorer | dev | average precision | precision at recall .5 | recall at 1 % false alarms |")
    for name, score in scores.items():
        drawn[name] = resampled(wrong[test], score[test], weights)
        values = [f"{measure(wrong[test], score[test]):.3f}" for measure in measures.values()]
        at_dev = average_precision_score(wrong[dev], score[dev])
        print(f"| {name} | {at_dev:.3f} | {values[0]} {interval(drawn[name])} | {values[1]} | {values[2]} |")
    print("\ndifferences in average precision, paired")
    for one, other in DIFFERENCES:
        if one in scores and other in scores:
            gap = measures["average precision"](wrong[test], scores[one][test])
            gap -= measures["average precision"](wrong[test], scores[other][test])
            print(f"{one} - {other}: {gap:+.3f} {interval(drawn[one] - drawn[other])}")
    for labels, groups in ((kinds, KINDS), (part, tuple(sorted(set(part))))):
        counts = [
            f"{group} ({(wrong & (labels == group))[test].sum()} of {(labels == group)[test].sum()})"
            for group in groups
        ]
        print("\nrecall at 1 % false alarms |", " | ".join(counts))
        for name, score in scores.items():
            marked = score >= threshold(wrong[test], score[test])
            found = [marked[test][(wrong & (labels == group))[test]].mean() for group in groups]
            print(f"| {name} |", " | ".join(f"{value:.3f}" for value in found))
            if labels is part:
                false = [
                    100 * marked[test][(~wrong & (labels == group))[test]].mean() for group in groups if group != "none"
                ]
                print("|   false alarms, % |", " | ".join(f"{value:.1f}" for value in false))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
