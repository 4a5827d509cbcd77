"""Baselines without a network, fitted to the same training examples and scored by the same metrics.

majority           predicts the most frequent class or tag, each label's frequency, or the mean of the numbers
TF-IDF or overlap  a linear model on the TF-IDF of words and bigrams for single texts, or on nine features of
                   word overlap for pairs. It is a logistic regression (for numbers, a ridge regression) whose
                   strength is chosen by cross-validation on the training examples. For tagging, it predicts
                   the most frequent tag of each word

Question answering has no such baseline. Baselines that use an encoder without training it are in
encoder_baselines.py.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from electra.finetuning.heads.parts.overlap import WORD, overlap, weighted_overlap, words
from electra.finetuning.labelled.examples import Example
from electra.finetuning.metrics.scores import Score
from electra.finetuning.runner.dataset import Dataset, choose_task, read_dataset
from electra.finetuning.runner.over_seeds import result_name
from electra.finetuning.settings import Settings
from electra.finetuning.tasks.parts.text_label_set import MultiLabelClassification
from electra.foundation.arrays import Floats, Ints

Matrix = Any  # [N, features]: a numpy array or a scipy sparse matrix
Predict = Callable[[Sequence[Example]], list[Any]]
"""A function from examples to the task's predictions.

A prediction is an array of probabilities [labels], a number [1], or probabilities of tags [words, labels].
"""
NAMES = MAJORITY, LINEAR = "majority", "TF-IDF or overlap"
STRENGTHS = (0.1, 1.0, 10.0, 100.0)  # candidates for the inverse of the penalty on squared weights
CLASS_WEIGHTS = (None, "balanced")  # candidates for scikit-learn's `class_weight`
FOLDS = 5  # of the cross-validation
MAX_TUNING_EXAMPLES = 3000  # maximum number of examples to choose the strength on; the final fit uses all


def measure(baseline: str, settings: Settings) -> dict[str, Any]:
    """Returns a baseline's scores on the data of a fine-tuning, with the keys of all_results.json.

    Args:
        baseline: one of `NAMES`.
        settings: the settings of the fine-tuning, whose task must not be question answering.

    Raises:
        ConfigError: the task, its options or the head are invalid.
        DataError: the data is invalid.
    """
    start = time.monotonic()
    dataset = read_dataset(settings, choose_task(settings))
    task = dataset.task
    results: dict[str, Any] = {"task": task.name, "task_version": task.version}
    results |= {"floor": baseline, "seeds": [0]}  # "floor" is the name of a baseline in records
    results |= {f"{result_name(split)}_samples": len(examples) for split, examples in dataset.splits.items()}
    for key, score in scores(baseline, dataset).items():
        results |= {key: score.value, f"{key}_by_seed": [score.value]}
        results |= {f"{key}_reason": score.reason} if score.value is None else {}
    return {**results, "seconds": round(time.monotonic() - start, 3), "notes": list(dataset.notes)}


def title(baseline: str, dataset: Dataset) -> str:
    """Returns the name of a baseline for one task: TF-IDF for texts, word overlap for pairs."""
    if baseline == MAJORITY:
        return baseline
    if dataset.task.head == "tagger":
        return "most frequent tag of each word"
    return "TF-IDF" if len(dataset.splits["train"][0].texts) == 1 else "word overlap"


def scores(baseline: str, dataset: Dataset) -> dict[str, Score]:
    """Returns a baseline's scores on the splits with answers, by SPLIT_METRIC ("eval" for dev).

    The task must not be question answering. The training split is not scored.
    """
    predict = fit(baseline, dataset.task, dataset.splits["train"])
    assert predict is not None, "spans have no baseline"
    return score_splits(predict, dataset)


def score_splits(predict: Predict, dataset: Dataset) -> dict[str, Score]:
    """Returns the scores of predictions on the splits with answers, by SPLIT_METRIC ("eval" for dev)."""
    return {
        f"{result_name(split)}_{name}": score
        for split, examples in dataset.splits.items()
        if split != "train" and all(example.gold is not None for example in examples)
        for name, score in dataset.task.score(predict(examples), examples).items()
    }


def fit(baseline: str, task: Any, train: Sequence[Example]) -> Predict | None:
    """Fits the baseline with this name to a task; None for question answering, which has no baseline.

    If the training texts have no words, both are the same.
    """
    if task.head == "reader":
        return None
    if task.head == "tagger":
        return _fit_tags(task, train, by_word=baseline == LINEAR)
    if baseline == LINEAR and any(words(text) for example in train for text in example.texts):
        return fit_linear(task, train, fit_overlap(train) if len(train[0].texts) > 1 else fit_tfidf(train))
    if task.num_outputs == 1:
        answer = np.array([task.gold_number(example) for example in train]).mean(keepdims=True)
    elif isinstance(task, MultiLabelClassification):
        answer = np.stack([task.target(example) for example in train]).mean(0)
    else:
        classes = [task.gold_class(example) for example in train]
        answer = np.bincount(classes, minlength=task.num_outputs) / len(classes)
    return lambda examples: [answer] * len(examples)


def fit_linear(
    task: Any, train: Sequence[Example], featurize: Callable[[Sequence[Example]], Matrix]
) -> Predict:
    """Fits a linear model: ridge regression for numbers, logistic regression for labels.

    Args:
        task: a single-label or multi-label classification, or a regression.
        train: examples with answers.
        featurize: returns the features [N, features] of N examples.
    """
    features = featurize(train)
    if task.num_outputs == 1:
        predict = _fit_ridge(features, np.array([task.gold_number(example) for example in train]))
    elif isinstance(task, MultiLabelClassification):
        predict = _fit_logistic_per_label(features, np.stack([task.target(example) for example in train]))
    else:
        classes = np.array([task.gold_class(example) for example in train])
        predict = _fit_logistic(features, classes, task.num_outputs, task.metrics[0])
    return lambda examples: list(predict(featurize(examples)))


def fit_tfidf(train: Sequence[Example]) -> Callable[[Sequence[Example]], Matrix]:
    """Returns a function from N examples to sparse TF-IDF features of words and bigrams [N, terms].

    At least one training example must have a word.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(token_pattern=WORD.pattern, ngram_range=(1, 2), sublinear_tf=True)
    vectorizer.fit(example.texts[0] for example in train)
    return lambda examples: vectorizer.transform([example.texts[0] for example in examples])


def fit_overlap(train: Sequence[Example]) -> Callable[[Sequence[Example]], Matrix]:
    """Returns a function from N pairs to overlap features [N, 9], standardised on the training pairs."""
    text_counts = Counter(
        word for example in train for text in example.texts[:2] for word in set(words(text))
    )
    num_texts = 2 * len(train)
    rarity = {word: math.log((1 + num_texts) / (1 + count)) for word, count in text_counts.items()}
    max_rarity = math.log(1 + num_texts)

    def weight(word: str) -> float:
        return rarity.get(word, max_rarity)

    def compute(examples: Sequence[Example]) -> Floats:
        pairs = [(example.texts[0], example.texts[1]) for example in examples]
        return np.array([[*overlap(*pair), weighted_overlap(*pair, weight=weight)] for pair in pairs])

    features = compute(train)
    mean, sd = features.mean(0), features.std(0)
    return lambda examples: (compute(examples) - mean) / np.where(sd > 0, sd, 1.0)


def _fit_ridge(features: Matrix, numbers: npt.NDArray[Any]) -> Callable[[Matrix], Any]:
    from sklearn.linear_model import Ridge, RidgeCV

    sample_indices = _sample(len(numbers))
    model = RidgeCV(alphas=[1 / strength for strength in STRENGTHS]).fit(
        features[sample_indices], numbers[sample_indices]
    )
    if len(sample_indices) < len(numbers):
        model = Ridge(alpha=model.alpha_).fit(features, numbers)
    return lambda rows: model.predict(rows)[:, None]


def _fit_logistic(
    features: Matrix, classes: npt.NDArray[Any], count: int, metric: str = "accuracy"
) -> Callable[[Matrix], Any]:
    """Returns a function from features to class probabilities [N, count].

    A class without training examples has the probability 0.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    sample_indices = _sample(len(classes))
    class_counts = np.bincount(classes[sample_indices])
    folds = min(FOLDS, int(class_counts[class_counts > 0].min()))
    model: Any = LogisticRegression(C=1.0, max_iter=1000)
    if folds > 1 and np.count_nonzero(class_counts) > 1:
        metrics = {"matthews_correlation": "matthews_corrcoef", "f1_macro": "f1_macro"}
        candidates = {"C": STRENGTHS, "class_weight": CLASS_WEIGHTS}
        search = GridSearchCV(
            model, candidates, cv=folds, scoring=metrics.get(metric, "accuracy"), refit=False
        )
        model.set_params(**search.fit(features[sample_indices], classes[sample_indices]).best_params_)
    model.fit(features, classes)

    def probabilities(rows: Matrix) -> Floats:
        all_classes = np.zeros((rows.shape[0], count))
        all_classes[:, model.classes_] = model.predict_proba(rows)
        return all_classes

    return probabilities


def _sample(count: int) -> Ints:
    """Returns the indices, in order, of a random sample of `count` examples: MAX_TUNING_EXAMPLES at most."""
    return np.sort(np.random.default_rng(0).permutation(count)[:MAX_TUNING_EXAMPLES])


def _fit_logistic_per_label(features: Matrix, targets: npt.NDArray[Any]) -> Callable[[Matrix], Any]:
    """Fits each label independently; one that all (or no) examples have is always (or never) predicted."""

    def fit_label(target: npt.NDArray[Any]) -> Callable[[Matrix], Any]:
        if len(np.unique(target)) < 2:
            return lambda rows: np.full(rows.shape[0], float(target[0]))
        classify = _fit_logistic(features, target.astype(np.int64), 2)
        return lambda rows: classify(rows)[:, 1]

    classifiers = [fit_label(target) for target in targets.T]
    return lambda rows: np.stack([classify(rows) for classify in classifiers], 1)


def _fit_tags(task: Any, train: Sequence[Example], by_word: bool) -> Predict:
    """Fits the frequencies of tags: for each known word if `by_word`; for all other words overall."""
    word_counts: dict[str, Counter[int]] = {}
    tag_counts: Counter[int] = Counter()
    for example in train:
        for position, word in enumerate(example.texts):
            tag = task.gold_class(example, position)
            tag_counts[tag] += 1
            if by_word:
                word_counts.setdefault(word, Counter())[tag] += 1

    def frequencies(counts: Counter[int]) -> Floats:
        shares = np.zeros(task.num_outputs)
        shares[list(counts)] = np.array(list(counts.values())) / counts.total()
        return shares

    frequencies_by_word = {word: frequencies(counts) for word, counts in word_counts.items()}
    overall_frequencies = frequencies(tag_counts)
    return lambda examples: [
        np.stack([frequencies_by_word.get(word, overall_frequencies) for word in example.texts])
        if example.texts
        else np.zeros((0, task.num_outputs))
        for example in examples
    ]
