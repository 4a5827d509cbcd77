"""Statistics against scipy, statsmodels' textbook cases by hand, and simulation."""

import numpy as np
import pytest
from scipy import stats

from electra.laboratory.ablation.statistics import compare, holm, summarise

ARM = {1: 0.81, 2: 0.79, 3: 0.84, 4: 0.80}
BASE = {1: 0.78, 2: 0.77, 3: 0.83, 4: 0.75}


def test_mean_deviation_and_interval_agree_with_scipy() -> None:
    values = list(ARM.values())
    result = summarise(values)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
    assert result["n"] == 4
    assert result["mean"] == pytest.approx(np.mean(values), rel=1e-12)
    assert result["sd"] == pytest.approx(np.std(values, ddof=1), rel=1e-12)
    assert (result["low"], result["high"]) == pytest.approx((low, high), rel=1e-9)


def test_one_seed_or_none_gives_no_interval() -> None:
    empty = {"n": 0, "mean": None, "sd": None, "low": None, "high": None}
    assert summarise([]) == empty
    assert summarise([0.5]) == empty | {"n": 1, "mean": 0.5}
    assert compare({1: 0.5}, {1: 0.4})["p"] is None
    assert compare({1: 0.5}, {2: 0.4})["n"] == 0


def test_differences_that_are_equal_up_to_rounding_have_no_p_value() -> None:
    arm = {1: 0.81, 2: 0.79, 3: 0.845}
    found = compare(arm, {seed: score - 0.03 for seed, score in arm.items()})
    assert found["sd"] == 0.0 and found["p"] is None and found["low"] == found["high"] == found["difference"]
    same = compare({1: 2.0, 2: 3.0}, {1: 1.0, 2: 2.0})
    assert (same["difference"], same["sd"], same["p"]) == (1.0, 0.0, None)


def test_the_paired_test_agrees_with_scipy_whatever_the_order_of_the_seeds() -> None:
    result = compare(ARM | {9: 0.1}, {7: 0.9} | dict(reversed(BASE.items())))  # two seeds have no partner
    expected = stats.ttest_rel(list(ARM.values()), list(BASE.values()))
    assert result["p"] == pytest.approx(expected.pvalue, rel=1e-9)
    assert result["difference"] == pytest.approx(0.0275)
    interval = expected.confidence_interval(0.95)
    assert (result["low"], result["high"]) == pytest.approx((interval.low, interval.high), rel=1e-9)


def test_holm_by_hand() -> None:
    assert holm([0.01, None, 0.04, 0.03]) == pytest.approx([0.03, None, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
