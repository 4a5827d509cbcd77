"""Linear readings of frozen vectors: what can be read off without learning a representation (Alain and Bengio
2017).

Deterministic: closed form or L-BFGS from zero. The penalty is fixed, not tuned, so that every depth of every
model is read alike.
"""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.floating[Any]]
Answers = npt.NDArray[Any]

INVERSE_PENALTY = 0.1  # C of the logistic regression, on standardised features
ITERATIONS = 200
RIDGE = 10.0


def standardised(train: Vectors, test: Vectors) -> tuple[Vectors, Vectors]:
    """Each feature to mean 0 and deviation 1 on the training words."""
    mean, deviation = train.mean(0), train.std(0)
    deviation = np.where(deviation > 1e-8, deviation, 1.0)
    return (train - mean) / deviation, (test - mean) / deviation


def classify(train: Vectors, labels: Answers, test: Vectors) -> Answers:
    """The label of each test vector by multinomial logistic regression."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    if len(np.unique(labels)) < 2:
        return np.repeat(labels[:1], len(test))
    x, z = standardised(train, test)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # after this many steps hardly a prediction moves
        return np.asarray(
            LogisticRegression(C=INVERSE_PENALTY, max_iter=ITERATIONS).fit(x, labels).predict(z)
        )


def regress(train: Vectors, numbers: Answers, test: Vectors) -> Answers:
    from sklearn.linear_model import Ridge

    x, z = standardised(train, test)
    return np.asarray(Ridge(alpha=RIDGE).fit(x, numbers).predict(z), np.float64)


def usual_label(words: Sequence[str], labels: Answers, asked: Sequence[str]) -> Answers:
    """The baseline of word identity: the label a word has most often in training, or the commonest of all for
    an unknown word.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for word, label in zip(words, labels.tolist(), strict=True):
        counts[word][label] += 1
    commonest = Counter(labels.tolist()).most_common(1)[0][0]
    usual = {word: count.most_common(1)[0][0] for word, count in counts.items()}
    return np.array([usual.get(word, commonest) for word in asked])


def usual_number(words: Sequence[str], numbers: Answers, asked: Sequence[str]) -> Answers:
    """The same for numbers: a word's mean in training."""
    found: dict[str, list[float]] = defaultdict(list)
    for word, number in zip(words, numbers.tolist(), strict=True):
        found[word].append(number)
    means = {word: float(np.mean(values)) for word, values in found.items()}
    overall = float(np.mean(numbers))
    return np.array([means.get(word, overall) for word in asked])


def depths_in_tree(heads: Sequence[str]) -> list[float]:
    """How many arcs lie between each word and the root, from the number of each word's head (0: the root).
    nan for what is no tree.
    """
    numbers = [int(head) if head.isdecimal() else -1 for head in heads]
    depths = []
    for first in numbers:
        head, depth = first, 0
        while 0 < head <= len(numbers) and depth <= len(numbers):
            head, depth = numbers[head - 1], depth + 1
        depths.append(float(depth) if head == 0 else float("nan"))
    return depths
