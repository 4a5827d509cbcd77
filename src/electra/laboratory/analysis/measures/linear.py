"""Linear probes: what a linear model can predict from frozen vectors (Alain and Bengio 2017).

The vectors are those of one layer, or a learned mix of several (the scalar mix of ELMo, Peters et al. 2018,
section 3.2). The fit is deterministic: L-BFGS from zeros. The penalty is fixed, so that every layer of every
model is probed in the same way. Differences from ELMo: layers are standardised before they are mixed, so that
their scales do not matter, and there is no overall scale. Shapes: L layers, N words, D features.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

Vectors = npt.NDArray[np.floating[Any]]
Labels = npt.NDArray[Any]

ITERATIONS = 60  # maximum number of L-BFGS iterations


def classify(
    train_LND: Tensor, labels: Sequence[str], test_LND: Tensor, penalty: float
) -> tuple[Labels, Tensor]:
    """Predicts labels by multinomial logistic regression.

    Args:
        train_LND: Vectors of the training words.
        labels: Their labels.
        test_LND: Vectors of the test words.
        penalty: Weight of the sum of squared weights, added to the mean cross-entropy.

    Returns:
        The predicted labels of the test words, and the weight [L] of each layer.
    """
    label_names = sorted(set(labels))
    index = {name: i for i, name in enumerate(label_names)}
    mean, scale = train_LND.mean(1, keepdim=True), train_LND.std(1, keepdim=True) + 1e-6
    targets = torch.tensor([index[label] for label in labels])
    weights = fit((train_LND - mean) / scale, targets, len(label_names), penalty)
    predicted = _logits((test_LND - mean) / scale, weights).argmax(1)
    return np.array(label_names)[predicted.numpy()], weights[0].softmax(0)


def fit(layers_LND: Tensor, targets_N: Tensor, num_labels: int, penalty: float) -> list[Tensor]:
    """Returns mix logits [L], matrix [labels, D] and bias [labels] that minimise penalised cross-entropy."""
    num_layers, _, size = layers_LND.shape
    weights = [torch.zeros(num_layers), torch.zeros(num_labels, size), torch.zeros(num_labels)]
    for weight in weights:
        weight.requires_grad_(True)
    solver = torch.optim.LBFGS(weights, max_iter=ITERATIONS, history_size=20, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        solver.zero_grad()
        loss = F.cross_entropy(_logits(layers_LND, weights), targets_N) + penalty * weights[1].square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    solver.step(closure)  # type: ignore[no-untyped-call]
    return [weight.detach() for weight in weights]


def _logits(layers_LND: Tensor, weights: Sequence[Tensor]) -> Tensor:
    mix, matrix, bias = weights
    return F.linear(torch.tensordot(mix.softmax(0), layers_LND, dims=1), matrix, bias)


def most_frequent_label(words: Sequence[str], labels: Labels, test_words: Sequence[str]) -> Labels:
    """Returns the baseline's label of each test word: the word's most frequent label in training.

    A word that does not occur in training gets the most frequent label of all words.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for word, label in zip(words, labels.tolist(), strict=True):
        counts[word][label] += 1
    majority = Counter(labels.tolist()).most_common(1)[0][0]
    label_of = {word: count.most_common(1)[0][0] for word, count in counts.items()}
    return np.array([label_of.get(word, majority) for word in test_words])
