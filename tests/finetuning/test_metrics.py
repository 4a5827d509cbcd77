"""Metrics equal those of scikit-learn and scipy; undefined scores have reasons."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sklearn_metrics

from electra.finetuning.metrics.scores import METRICS, summary

RANDOM = np.random.default_rng(0)
GOLD, PREDICTED = RANDOM.integers(0, 2, 200), RANDOM.integers(0, 2, 200)
GOLD_3, PREDICTED_3 = RANDOM.integers(0, 3, 200), RANDOM.integers(0, 3, 200)
NUMBERS = RANDOM.normal(size=200)
NOISY = NUMBERS + RANDOM.normal(size=200)


def test_metrics_are_those_of_the_libraries() -> None:
    assert METRICS["accuracy"](PREDICTED, GOLD).value == sklearn_metrics.accuracy_score(GOLD, PREDICTED)
    assert METRICS["f1"](PREDICTED, GOLD).value == sklearn_metrics.f1_score(GOLD, PREDICTED)
    assert METRICS["f1_macro"](PREDICTED_3, GOLD_3).value == sklearn_metrics.f1_score(
        GOLD_3, PREDICTED_3, average="macro"
    )
    assert METRICS["matthews_correlation"](PREDICTED_3, GOLD_3).value == sklearn_metrics.matthews_corrcoef(
        GOLD_3, PREDICTED_3
    )
    assert METRICS["pearson"](NOISY, NUMBERS).value == stats.pearsonr(NOISY, NUMBERS).statistic
    assert METRICS["spearmanr"](NOISY, NUMBERS).value == stats.spearmanr(NOISY, NUMBERS).statistic


def test_multi_label_f1_ignores_labels_that_do_not_occur() -> None:
    gold = np.array([[1, 0, 0], [1, 0, 1], [0, 0, 1]], bool)
    assert METRICS["f1_macro"](gold, gold).value == 1.0
    assert METRICS["f1_macro"](gold & ~gold[0], gold).value == pytest.approx(
        (0 + 1) / 2
    )  # the first label is never predicted
    assert (
        METRICS["f1_macro"](gold & False, gold & False).reason
        == "no label is in the data, and none is predicted"
    )


ONES, ZEROS = np.ones(5), np.zeros(5)


@pytest.mark.parametrize(
    ("name", "predicted", "gold", "reason"),
    [
        ("matthews_correlation", GOLD[:5], ONES, "only one label in the data"),
        ("f1", ZEROS, ZEROS, "the positive label is neither in the data nor predicted"),
        ("pearson", ONES, NUMBERS[:5], "all predictions are equal"),
        ("spearmanr", NUMBERS[:5], ONES, "all gold numbers are equal"),
        ("pearson", ONES[:1], ONES[:1], "fewer than two examples"),
    ],
)
def test_undefined_is_null_with_a_reason(
    name: str, predicted: np.ndarray, gold: np.ndarray, reason: str
) -> None:
    score = METRICS[name](predicted, gold)
    assert (score.value, score.reason) == (None, reason)


def test_a_constant_answer_has_a_matthews_correlation_of_zero_as_in_glue() -> None:
    assert METRICS["matthews_correlation"](ONES, np.array([0, 1, 1, 0, 1])).value == 0.0


def test_summary_over_seeds() -> None:
    assert summary([1.0, 2.0, 6.0]) == {
        "mean": 3.0,
        "sd": pytest.approx(np.std([1, 2, 6], ddof=1)),
        "median": 2.0,
    }
    assert summary([4.0]) == {"mean": 4.0, "sd": None, "median": 4.0}
    assert summary([1.0, None]) == {"mean": None, "sd": None, "median": None}
