"""Ranking, calibration and bootstrap against scikit-learn, closed forms and hand-worked cases."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn import metrics
from sklearn.calibration import calibration_curve

from electra.laboratory.analysis.measures import bootstrap, reliability
from electra.laboratory.analysis.measures.ranking import Ranking, f_score
from electra.laboratory.analysis.measures.reliability import bin_sums, bins_of, brier, ece, recalibrations


@pytest.mark.parametrize("seed", range(5))
def test_ranking_is_scikit_learns_with_ties_and_weights(seed: int) -> None:
    draw = np.random.default_rng(seed)
    labels = draw.random(200) < 0.3
    scores = np.round(draw.normal(size=200) + labels, 1)  # many ties
    weights = draw.integers(0, 4, 200).astype(float)
    ranking = Ranking(scores, labels)
    weighted = {"sample_weight": weights}
    assert ranking.auc(weights) == pytest.approx(metrics.roc_auc_score(labels, scores, **weighted))
    precision = metrics.average_precision_score(labels, scores, **weighted)
    assert ranking.average_precision(weights) == pytest.approx(precision)
    how = {"beta": 0.5, "average": "binary", **weighted}
    *expected, _ = metrics.precision_recall_fscore_support(labels, scores >= 0.5, **how)
    assert [*ranking.at(0.5, weights).values()] == pytest.approx(expected)


def test_the_best_threshold_is_the_best_of_all() -> None:
    draw = np.random.default_rng(0)
    labels = draw.random(60) < 0.4
    ranking = Ranking(np.round(draw.normal(size=60) + labels, 1), labels)
    ones = np.ones(60)
    best = ranking.at(ranking.best_threshold(), ones)["F0.5"]
    assert best == pytest.approx(max(ranking.at(t, ones)["F0.5"] for t in ranking.scores))
    assert (ranking.scores >= ranking.matched_threshold()).sum() >= labels.sum()


def test_undefined_measures_are_nan() -> None:
    for labels in ([False, False], [True, True]):
        assert np.isnan(Ranking([0.1, 0.2], labels).auc(np.ones(2)))
    assert np.isnan(Ranking([0.1, 0.2], [False, False]).average_precision(np.ones(2)))
    assert np.isnan(f_score(0, 0, 0, 0.5)) and f_score(1, 0, 0, 0.5) == 1 and f_score(0, 3, 1, 0.5) == 0
    empty = Ranking([], [])
    assert np.isnan(empty.auc(np.ones(0)))
    assert empty.best_threshold() == np.inf == empty.matched_threshold()


def test_calibration_error_by_hand() -> None:
    p, y, w = np.array([0.1, 0.3, 0.6, 0.8]), np.array([0.0, 1.0, 0.0, 1.0]), np.ones(4)
    bins = bins_of(p, 2, "width")  # [0.1, 0.3] mean .2, half wrong; [0.6, 0.8] mean .7, half wrong
    assert ece(p, y, w, bins) == pytest.approx(0.5 * 0.3 + 0.5 * 0.2)
    assert ece(p, y, np.array([1.0, 0, 0, 1]), bins) == pytest.approx(0.5 * 0.1 + 0.5 * 0.2)  # one item a bin
    parts = brier(p, y, w, bins)
    assert parts["Brier"] == pytest.approx((0.01 + 0.49 + 0.36 + 0.04) / 4)
    assert parts["reliability"] == pytest.approx(0.5 * 0.09 + 0.5 * 0.04)
    assert (parts["resolution"], parts["uncertainty"]) == pytest.approx((0.0, 0.25))


@pytest.mark.parametrize("kind", ["width", "mass"])
def test_calibration_is_scikit_learns_and_its_parts_add_up(kind: str) -> None:
    draw = np.random.default_rng(1)
    p = draw.beta(1, 4, 500)
    y = (draw.random(500) < p**1.3).astype(float)
    bins = bins_of(p, 10, kind)  # type: ignore[arg-type]
    weight, mean_p, share = bin_sums(p, y, np.ones(500), bins)
    theirs = calibration_curve(y, p, n_bins=10, strategy="uniform" if kind == "width" else "quantile")
    assert np.allclose(share[weight > 0], theirs[0]) and np.allclose(mean_p[weight > 0], theirs[1])
    weights = draw.integers(0, 3, 500).astype(float)
    parts = brier(p, y, weights, bins)
    assert parts["Brier"] == pytest.approx(metrics.brier_score_loss(y, p, sample_weight=weights))
    total = parts["reliability"] - parts["resolution"] + parts["uncertainty"] + parts["within bins"]
    assert total == pytest.approx(parts["Brier"])
    loss = reliability.log_loss(p, y, weights)
    assert loss == pytest.approx(metrics.log_loss(y, p, sample_weight=weights))


def test_recalibration_recovers_the_temperature() -> None:
    draw = np.random.default_rng(2)
    true = draw.normal(-1, 1.5, 20_000)
    y = (draw.random(20_000) < expit(true)).astype(float)
    assert reliability.temperature(3 * true, y) == pytest.approx(3, rel=0.05)
    maps = recalibrations(3 * true + 2, y)
    ones = np.ones(len(y))
    found = {name: mapped(3 * true + 2) for name, mapped in maps.items()}
    errors = {name: ece(p, y, ones, bins_of(p, 15, "mass")) for name, p in found.items()}
    assert errors["uncalibrated"] > 0.15 and errors["temperature"] > 0.05  # an offset is beyond one number
    assert errors["scale and offset"] < 0.015 and errors["isotonic"] < 0.015
    assert list(recalibrations(true, np.zeros(len(true)))) == ["uncalibrated", "temperature"]


def test_the_bootstrap_of_a_mean_is_as_wide_as_theory_says() -> None:
    draw = np.random.default_rng(3)
    values = np.repeat(draw.normal(size=400), 3)  # three equal words a sentence: the sentences count
    groups = np.repeat(np.arange(400), 3)

    def mean() -> bootstrap.Estimate:
        measure = lambda w: {"mean": bootstrap.share(w, values)}  # noqa: E731
        return bootstrap.estimates(measure, groups, resamples=600)["mean"]

    estimate = mean()
    width = 2 * 1.96 * values.std() / np.sqrt(400)
    assert estimate.value == pytest.approx(values.mean())
    assert estimate.high is not None and estimate.low is not None
    assert estimate.high - estimate.low == pytest.approx(width, rel=0.12)
    assert estimate == mean()


def test_draws_and_halves() -> None:
    drawn = bootstrap.draw_counts(7, 50)
    assert (drawn.sum(1) == 7).all() and drawn.max() > 1
    groups = np.repeat(np.arange(11), 4)
    half = bootstrap.halves(groups)
    assert all(len(set(half[groups == group])) == 1 for group in range(11))  # sentences stay whole
    assert len(set(groups[half])) in (5, 6)


def test_estimates_without_intervals() -> None:
    one = bootstrap.estimates(lambda w: {"a": 1.0, "b": float("nan")}, np.zeros(5, int))
    assert (one["a"].value, one["a"].low, one["b"].value) == (1.0, None, None)
    mostly_undefined = bootstrap.interval(0.5, np.array([np.nan, np.nan, np.nan, 0.4]))
    assert (mostly_undefined.value, mostly_undefined.low) == (0.5, None)
