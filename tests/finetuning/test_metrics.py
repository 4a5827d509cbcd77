"""Metrics equal those of scikit-learn and scipy; undefined scores have reasons."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sklearn_metrics

from electra.finetuning.score.metrics import METRICS, summary

RANDOM = np.random.default_rng(0)
GOLD, PREDICTED = RANDOM.integers(0, 2, 200), RANDOM.integers(0, 2, 200)
GOLD_3, PREDICTED_3 = RANDOM.integers(0, 3, 200), RANDOM.integers(0, 3, 200)
NUMBERS = RANDOM.normal(size=200)
NOISY = NUMBERS + RANDOM.normal(size=200)
ONES, ZEROS = np.ones(5), np.zeros(5)


SEVERAL, SEVERAL_PREDICTED = RANDOM.integers(0, 2, (50, 4)), RANDOM.integers(0, 2, (50, 4))
ORACLES: list[tuple[str, Any, Any, Any]] = [
    ("accuracy", PREDICTED, GOLD, sklearn_metrics.accuracy_score),
    ("accuracy", SEVERAL_PREDICTED, SEVERAL, sklearn_metrics.accuracy_score),
    ("f1", PREDICTED, GOLD, sklearn_metrics.f1_score),
    ("f1_macro", PREDICTED_3, GOLD_3, partial(sklearn_metrics.f1_score, average="macro")),
    ("f1_micro", SEVERAL_PREDICTED, SEVERAL, partial(sklearn_metrics.f1_score, average="micro")),
    ("mae", NOISY, NUMBERS, sklearn_metrics.mean_absolute_error),
    ("matthews_correlation", PREDICTED_3, GOLD_3, sklearn_metrics.matthews_corrcoef),
    ("pearson", NOISY, NUMBERS, lambda gold, predicted: stats.pearsonr(predicted, gold).statistic),
    ("spearmanr", NOISY, NUMBERS, lambda gold, predicted: stats.spearmanr(predicted, gold).statistic),
    ("matthews_correlation", ONES, np.array([0, 1, 1, 0, 1]), lambda gold, predicted: 0.0),  # as in GLUE
]


def test_each_metric_has_an_oracle() -> None:
    assert {name for name, *_ in ORACLES} == {*METRICS}, "a new metric needs a row in ORACLES"


@pytest.mark.parametrize(("name", "predicted", "gold", "oracle"), ORACLES)
def test_metrics_are_those_of_the_libraries(name: str, predicted: Any, gold: Any, oracle: Any) -> None:
    assert METRICS[name](predicted, gold).value == oracle(gold, predicted)


def test_multi_label_f1_ignores_labels_that_do_not_occur() -> None:
    gold = np.array([[1, 0, 0], [1, 0, 1], [0, 0, 1]], bool)
    assert METRICS["f1_macro"](gold, gold).value == 1.0
    # The first label is never predicted.
    assert METRICS["f1_macro"](gold & ~gold[0], gold).value == pytest.approx((0 + 1) / 2)


@pytest.mark.parametrize(
    ("name", "predicted", "gold", "reason"),
    [
        ("matthews_correlation", GOLD[:5], ONES, "label in the data"),
        ("f1", ZEROS, ZEROS, "positive label"),
        ("f1_macro", np.zeros((3, 2), bool), np.zeros((3, 2), bool), "no label"),
        ("pearson", ONES, NUMBERS[:5], "all predictions"),
        ("spearmanr", NUMBERS[:5], ONES, "all gold numbers"),
        ("pearson", ONES[:1], ONES[:1], "fewer than two"),
    ],
)
def test_undefined_is_null_with_a_reason(name: str, predicted: Any, gold: Any, reason: str) -> None:
    score = METRICS[name](predicted, gold)
    assert score.value is None and reason in score.reason


def test_summary_over_seeds() -> None:
    assert summary([1.0, 2.0, 6.0]) == {
        "mean": 3.0,
        "sd": pytest.approx(np.std([1, 2, 6], ddof=1)),
        "median": 2.0,
    }
    assert summary([4.0]) == {"mean": 4.0, "sd": None, "median": 4.0}
    assert summary([1.0, None]) == {"mean": None, "sd": None, "median": None}
