"""Scores without any network, on the training subsets and scored examples of our suites; records/floors.json.

    python results/2026-11-22-better-than-counting-words/floors.py ../shared/data

majority   the most frequent training label; for numbers, their mean
words      tf-idf of words and word pairs with logistic regression; a pair is the two texts' vectors side by side
overlap    pairs only: FEATURES with logistic or ridge regression
cosine     similarity of pairs only: the cosine of tf-idf vectors of 2 to 4 characters, nothing fitted but idf
usual tag  tagging only: a word's most frequent tag in training; for other words the most frequent tag of all

Regularisation is chosen by five-fold cross-validation on the training subset, nothing on scored examples.
"""

from __future__ import annotations

import json
import math
import re
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.metrics import make_scorer, matthews_corrcoef
from sklearn.preprocessing import StandardScaler

from electra.foundation.config import build
from electra.laboratory.evaluation.data import find_data
from electra.laboratory.evaluation.suite import Suite, load_suite
from electra.finetuning.runner.dataset import read_dataset
from electra.finetuning.settings import Settings
from electra.finetuning.tasks.parts.task import Task
from electra.finetuning.tasks import load_task
from electra.finetuning.labelled.examples import Example

HERE = Path(__file__).parent
SUITE = HERE.parent / "2026-11-22-better-than-mlm-on-tasks"
# our suites, the options their commands gave, and where below DATA they looked
SUITES: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "glue": (str(SUITE / "glue-capped.toml"), {}, ("glue",)),
    "glue-whole": (str(SUITE / "glue-whole.toml"), {}, ("glue",)),
    "german": (str(SUITE / "german.toml"), {}, (".", "ged", "ner")),
    "korean": (str(SUITE / "korean.toml"), {}, ("tasks-ko",)),
    "superglue-mini": ("superglue-mini", {}, ("glue",)),
    "tagging": ("tagging", {"limit_train": 3000}, (".",)),
    "sentences": ("sentences", {"limit_train": 1000}, (".", "classification", "intents")),
    "english": (str(SUITE / "english.toml"), {"limit_train": 1000, "limit_eval": 2000}, (".",)),
}
FEATURES = (
    "words in common / words in either",
    "share of the first's words in the second",
    "share of the second's words in the first",
    "the same of the first, words weighted by idf",
    "the same of the second, words weighted by idf",
    "word pairs in common / in either",
    "character trigrams in common / in either",
    "cosine of tf-idf vectors of words",
    "cosine of tf-idf vectors of characters",
    "log of the ratio of lengths",
    "log of the sum of lengths",
)
CHARACTERS = FEATURES.index("cosine of tf-idf vectors of characters")


def plain(text: str) -> str:
    """Lower case, accents and Hangul taken apart, as the encoders' tokenizers do."""
    return unicodedata.normalize("NFKD", text.lower())


def grams(units: Any, n: int) -> set[Any]:
    return {tuple(units[i : i + n]) for i in range(len(units) - n + 1)}


def ratio(part: Sequence[float], whole: Sequence[float]) -> float:
    return sum(part) / (sum(whole) or 1)


def jaccard(a: set[Any], b: set[Any]) -> float:
    return len(a & b) / max(1, len(a | b))


class Overlap:
    """FEATURES of pairs of texts; the weights of words and characters are those of the training texts."""

    def __init__(self, train: tuple[Example, ...]) -> None:
        texts = [text for example in train for text in example.texts]
        self.words = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\w+", preprocessor=plain).fit(texts)
        self.characters = TfidfVectorizer(
            analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True, preprocessor=plain
        ).fit(texts)
        self.idf = dict(zip(self.words.get_feature_names_out(), self.words.idf_, strict=True))
        self.rare = max(self.idf.values())

    def idfs(self, words: Iterable[str]) -> list[float]:
        return [self.idf.get(word, self.rare) for word in words]

    def __call__(self, examples: tuple[Example, ...]) -> np.ndarray:
        """float64 [N, FEATURES]"""
        sides = [list(side) for side in zip(*(example.texts for example in examples), strict=True)]
        cosines = [
            np.asarray(vectors.transform(sides[0]).multiply(vectors.transform(sides[1])).sum(1))[:, 0]
            for vectors in (self.words, self.characters)
        ]
        rows = []
        for one, other, by_words, by_characters in zip(*sides, *cosines, strict=True):
            a, b = plain(one), plain(other)
            first, second = re.findall(r"\w+", a), re.findall(r"\w+", b)
            left, right = set(first), set(second)
            common = left & right
            rows.append(
                (
                    jaccard(left, right),
                    len(common) / max(1, len(left)),
                    len(common) / max(1, len(right)),
                    ratio(self.idfs(common), self.idfs(left)),
                    ratio(self.idfs(common), self.idfs(right)),
                    jaccard(grams(first, 2), grams(second, 2)),
                    jaccard(grams(a, 3), grams(b, 3)),
                    by_words,
                    by_characters,
                    math.log((len(first) + 1) / (len(second) + 1)),
                    math.log(len(first) + len(second) + 2),
                )
            )
        return np.array(rows)


def answers(task: Task, examples: tuple[Example, ...]) -> np.ndarray:
    gold = task.gold_number if task.num_outputs == 1 else task.gold_class
    return np.array([gold(example) for example in examples])


def fitted(task: Task, x: Any, y: np.ndarray) -> Any:
    if task.num_outputs == 1:
        return RidgeCV(alphas=np.logspace(-2, 4, 13)).fit(x, y)
    matthews = task.metrics[0] == "matthews_correlation"
    scoring = make_scorer(matthews_corrcoef) if matthews else "accuracy"
    model = LogisticRegressionCV(
        Cs=np.logspace(-3, 3, 7),
        cv=5,
        scoring=scoring,
        class_weight="balanced" if matthews else None,
        max_iter=5000,
        l1_ratios=(0,),
        use_legacy_attributes=False,
    )
    return model.fit(x, y)


def predicted(task: Task, model: Any, x: Any) -> np.ndarray:
    """As the task's `score` wants it: the number, or one at the label."""
    found = model.predict(x)
    return found[:, None] if task.num_outputs == 1 else np.eye(len(task.labels))[found.astype(int)]


def of_texts(task: Task, train: tuple[Example, ...], scored: tuple[Example, ...]) -> dict[str, Any]:
    y = answers(task, train)
    usual = (
        np.array([y.mean()]) if task.num_outputs == 1 else np.eye(len(task.labels))[np.bincount(y).argmax()]
    )
    found = {"majority": np.tile(usual, (len(scored), 1))}
    vectors = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+")
    vectors.fit([text for example in train for text in example.texts])

    def counts(examples: tuple[Example, ...]) -> Any:
        sides = zip(*(example.texts for example in examples), strict=True)
        return sparse.hstack([vectors.transform(side) for side in sides]).tocsr()

    found["words"] = predicted(task, fitted(task, counts(train), y), counts(scored))
    if len(train[0].texts) == 2:
        overlap, scale = Overlap(train), StandardScaler()
        model = fitted(task, scale.fit_transform(overlap(train)), y)
        found["overlap"] = predicted(task, model, scale.transform(overlap(scored)))
        if task.num_outputs == 1:
            found["cosine"] = overlap(scored)[:, CHARACTERS, None]
    return found


def of_words(task: Task, train: tuple[Example, ...], scored: tuple[Example, ...]) -> dict[str, Any]:
    tags: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for example in train:
        for word, tag in zip(example.texts, example.gold, strict=True):
            tags[word][tag] += 1
    total = sum(tags.values(), Counter())
    usual = {word: counts.most_common(1)[0][0] for word, counts in tags.items()}
    common, eye = total.most_common(1)[0][0], np.eye(len(task.labels))
    rows = [[task.labels.index(usual.get(word, common)) for word in example.texts] for example in scored]
    plain = [[task.labels.index(common)] * len(example.texts) for example in scored]
    return {"majority": [eye[row] for row in plain], "usual tag": [eye[row] for row in rows]}


def floors(suite: Suite, options: dict[str, Any], roots: list[Path], scratch: Path) -> dict[str, Any]:
    found = {}
    for entry in suite.task:
        task = load_task(entry.task)
        data = find_data(entry, task, roots)
        if data is None:
            continue
        settings = {**entry.settings, **options}
        for name in ("text_column", "columns"):
            if isinstance(settings.get(name), str):
                settings[name] = [settings[name]]
        files = {"data": data.train[0], "dev": data.dev, "test": data.test, "out": scratch}
        given = build(Settings, {**settings, **files, "task": entry.task}, where=entry.name)
        dataset = read_dataset(given, task.configured(given.__dict__))
        train, scored = (
            dataset.splits["train"],
            dataset.splits["dev" if entry.split == "eval" else entry.split],
        )
        method = of_words if dataset.task.head == "tagger" else of_texts
        scores = {
            name: {metric: score.value for metric, score in dataset.task.score(predictions, scored).items()}
            for name, predictions in method(dataset.task, train, scored).items()
        }
        first = {example.texts[0] for example in train}
        shared = None if method is of_words else sum(example.texts[0] in first for example in scored)
        found[entry.name] = {
            "title": entry.title,
            "metric": (entry.metrics or dataset.task.metrics)[0],
            "split": "dev" if entry.split == "eval" else entry.split,
            "trained": len(train),
            "scored": len(scored),
            "scored_whose_first_text_is_in_training": shared,
            "floors": scores,
        }
        best = {name: each[found[entry.name]["metric"]] for name, each in scores.items()}
        sys.stdout.write(f"{entry.name} {best}\n")
        sys.stdout.flush()
    return found


def main(data: Path) -> None:
    records = HERE / "records"
    records.mkdir(exist_ok=True)
    table = {
        name: floors(load_suite(suite), options, [data / root for root in roots], records)
        for name, (suite, options, roots) in SUITES.items()
    }
    (records / "floors.json").write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
