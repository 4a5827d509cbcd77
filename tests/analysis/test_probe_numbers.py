"""The probes' own arithmetic on made-up judgements whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest

from electra.analysis.contract import Estimate
from electra.analysis.measures.reliability import sigmoid
from electra.analysis.probes import bias, calibration, errors, generators
from electra.analysis.texts.word_kinds import kind_of


def value(found: Estimate) -> float:
    assert found.value is not None
    return found.value


def test_calibration_is_judged_on_the_half_that_nothing_was_fitted_on() -> None:
    draw = np.random.default_rng(0)
    true = draw.normal(-1.5, 1.5, 12_000)
    wrong = (draw.random(12_000) < sigmoid(true)).astype(float)
    sentence = np.repeat(np.arange(600), 20)
    config = calibration.Config(resamples=20)
    fair = calibration.calibrate(calibration.Judged(true, wrong, sentence), config)
    assert fair.temperature == pytest.approx(1, abs=0.07)
    assert value(fair.by_map["as it is"]["ece"]) < 0.025 and 0 < fair.floor < 0.02
    sure = calibration.calibrate(calibration.Judged(3 * true, wrong, sentence), config)
    assert sure.temperature == pytest.approx(3, rel=0.07)
    assert value(sure.by_map["as it is"]["ece"]) > 0.05
    assert value(sure.by_map["temperature"]["ece"]) < 0.025
    said = calibration.headline({calibration.HUMAN: sure})
    assert list(said.values()) == [
        sure.by_map["as it is"]["ece"],
        sure.by_map["temperature"]["ece"],
        sure.by_map["as it is"]["explained"],
    ]
    errors_of, parts_of, _ = calibration.tables({("m", calibration.HUMAN): sure})
    assert [row[3] for row in errors_of.rows] == [found["ece"] for found in sure.by_map.values()]
    part = dict(zip(parts_of.columns[2:], map(value, parts_of.rows[0][2:]), strict=True))  # type: ignore[arg-type]
    assert part["Brier"] == pytest.approx(
        part["reliability"] - part["resolution"] + part["uncertainty"] + part["within bins"]
    )
    mean_p, share, low, high = fair.curves["as it is"]
    assert (
        np.abs(mean_p - share).max() < 0.08 and (low <= share + 1e-9).all() and (share <= high + 1e-9).all()
    )


def test_what_was_fitted_is_not_judged_on_the_same_words() -> None:
    """Isotonic regression is without error on its own half, whatever the noise; on the other half it is not.
    Halves are of sentences.
    """
    draw = np.random.default_rng(1)
    sentence = np.repeat(np.arange(80), 40)
    wrong = np.repeat(draw.random(80) < 0.4, 40).astype(float)
    judged = calibration.Judged(
        np.repeat(draw.normal(size=80), 40), wrong, sentence
    )  # a sentence's words are all alike
    found = calibration.calibrate(judged, calibration.Config(resamples=5))
    assert value(found.by_map["isotonic"]["ece"]) > 0.05


def test_calibration_by_class_by_hand() -> None:
    p, y = np.array([0.9, 0.7, 0.4, 0.2]), np.array([1.0, 0.0, 1.0, 0.0])
    found = calibration.by_class(p, y, np.ones(4))
    assert found["replaced confidence"] == pytest.approx(0.8) and found["replaced right"] == 0.5
    assert (
        found["original confidence"] == pytest.approx(0.7)
        and found["original right"] == 0.5
        and found["original share"] == 0.5
    )
    assert found["mean P where wrong"] == pytest.approx(0.65) and found[
        "mean P where right"
    ] == pytest.approx(0.45)


def test_the_threshold_is_chosen_on_some_words_and_used_on_others() -> None:
    # On the chosen words 2 is the best threshold; on the judged ones 1 would be better.
    scores = np.array([3.0, 2, 1, 0] * 30 + [3.0, 2, 1, 0] * 30)
    wrong = np.array([True, True, False, False] * 30 + [True, True, True, False] * 30)
    kinds = ["noun", "verb", "noun", "noun"] * 30 + ["noun", "verb", "article", "noun"] * 30
    words = errors.Words(np.repeat(np.arange(60), 4), wrong, kinds)
    found = errors.judge(scores, words, np.arange(240) < 120, errors.Config(resamples=20))
    assert value(found.measures["precision"]) == 1 and value(found.measures["recall"]) == pytest.approx(2 / 3)
    assert value(found.measures["f"]) == pytest.approx(1.25 * 2 / 3 / (0.25 + 2 / 3))
    assert {kind: value(e) for kind, e in found.recall_by_kind.items()} == {
        "noun": 1,
        "verb": 1,
        "article": 0,
    }
    ahead = errors.compare(
        {"a": scores, "b": -scores}, words, np.arange(240) >= 120, "a", errors.Config(resamples=20)
    )
    assert [row[0] for row in ahead.rows] == ["b"] and ahead.rows[0][2] == Estimate(1.0, 1.0, 1.0)


def test_words_that_cannot_be_judged_are_never_suspected() -> None:
    assert errors.flat([np.array([1.0, np.nan]), np.array([-3.0])]).tolist() == [1.0, -4.0, -3.0]


@pytest.mark.parametrize(
    ("word", "count", "language", "kind"),
    [
        ("...", 1, "en", "punctuation"),
        ("3rd", 2, "en", "number"),
        ("The", 1, "en", "article, demonstrative"),
        ("der", 1, "de", "article, demonstrative"),
        ("der", 1, "en", "other word, 1 token"),
        ("recieve", 4, "en", "other word, 3 tokens or more"),
        ("house", 2, "en", "other word, 2 tokens"),
    ],
)
def test_kinds_of_words(word: str, count: int, language: str, kind: str) -> None:
    assert kind_of(word, count, language) == kind


def test_false_alarms_and_misses_by_hand() -> None:
    # 40 sentences of four tokens: a noun found, a verb missed, a noun let be, a verb falsely called
    odds = np.tile([5.0, -5.0, -5.0, 5.0], 40)
    replaced = np.tile([True, True, False, False], 40)
    uncertainty = np.random.default_rng(0).normal(size=(160, 2))
    judged = bias.Tokens(
        odds,
        replaced,
        np.repeat(np.arange(40), 4),
        np.arange(160),
        uncertainty,
        np.where(replaced, 0.0, np.nan),
    )
    found = bias.analyse(
        judged, {"part of speech": ["NOUN", "VERB"] * 80}, bias.Config(resamples=10, threshold=0.5)
    )
    assert found.threshold == pytest.approx(0.5)
    assert (value(found.overall["false alarms"]), value(found.overall["misses"])) == (0.5, 0.5)
    raw = {group: {kind: value(e) for kind, e in rate.items()} for (_, group), rate in found.raw.items()}
    assert raw == {"NOUN": {"false alarms": 0, "misses": 0}, "VERB": {"false alarms": 1, "misses": 1}}
    assert found.counts["part of speech", "NOUN"] == (40, 40)
    assert value(found.adjusted["VERB"]["misses"]) > 0.95 and value(found.remaining["misses"]) > 0.9


def test_bins_of_counts() -> None:
    starts = (0, 1, 10, 100)
    assert [bias.binned(n, starts, "times") for n in (0, 1, 9, 10, 100, 5000)] == [
        "0 times",
        "1-9 times",
        "1-9 times",
        "10-99 times",
        "100 and more times",
        "100 and more times",
    ]
    assert (
        bias.binned(1, (1, 2, 4), "word", ordinal=True) == "word 1"
        and bias.binned(9, (1, 2, 4), "word", ordinal=True) == "word 4 and more"
    )
    assert [bias.capitals(word) for word in ("the", "The", "USA", "I", "12", "iPod")] == [
        "lower case",
        "Capitalised",
        "ALL CAPITALS",
        "Capitalised",
        "no letters",
        "lower case",
    ]


def test_rise_and_plausibility_by_hand() -> None:
    labels = np.array([True, True, True, False, False, False] * 10)
    odds = np.array([2.0, 1.0, -1.0, 0.5, -2.0, -3.0] * 10)
    rise = np.array([1.0, -1.0, 0.0, 9.0, 9.0, 9.0] * 10)  # of the wrong ones: up, down, equal
    advantage = np.array(
        [-9.0, -0.5, 0.2, np.nan, 3.0, np.nan] * 10
    )  # the last of these was drawn and came out the same
    found = generators.analyse(
        odds, labels, np.repeat(np.arange(10), 6), advantage, rise, generators.Config(resamples=10)
    )
    assert value(found.measures["rise"]) == 0.5 and value(found.measures["base"]) == 0.5
    assert value(found.measures["auc"]) == pytest.approx(8 / 9)
    assert value(found.plausible) == pytest.approx(1 / 3)
    assert list(found.counts) == [10, 0, 0, 0, 0, 0, 10, 10]
    assert [found.detected[b].value for b in (0, 6, 7)] == [
        1,
        1,
        0,
    ]  # three alarms a sentence: 2.0, 1.0 and 0.5
