"""The probes' arithmetic on made-up scores with known answers."""

from typing import Any

import numpy as np
import pytest
from contracts import small
from scipy.special import expit

from electra.laboratory.analysis.contract import Estimate, Findings
from electra.laboratory.analysis.probes import bias, calibration, errors, generators
from electra.laboratory.analysis.scoring import token_rows


def value(estimate: Estimate) -> float:
    assert estimate.value is not None
    return estimate.value


def calibrated(scored: calibration.ScoredItems, **options: int) -> Findings:
    findings, config = Findings(), calibration.Config(**options)
    calibration.add_calibration(findings, scored, config, model="m", of=calibration.HUMAN)
    return findings


def numbers(findings: Findings, recalibrated: str = "uncalibrated") -> dict[str, Any]:
    return findings.select(recalibrated=recalibrated, model="m", of=calibration.HUMAN)


def test_calibration_is_tested_on_the_half_that_nothing_was_fitted_on() -> None:
    draw = np.random.default_rng(0)
    true = draw.normal(-1.5, 1.5, 12_000)
    wrong = (draw.random(12_000) < expit(true)).astype(float)
    sentence = np.repeat(np.arange(600), 20)
    fair = calibrated(calibration.ScoredItems(true, wrong, sentence), resamples=20)
    assert numbers(fair, "temperature")["temperature"] == pytest.approx(1, abs=0.07)
    assert value(numbers(fair)[calibration.WIDTH]) < 0.025 and 0 < numbers(fair)["by chance"] < 0.02
    sure = calibrated(calibration.ScoredItems(3 * true, wrong, sentence), resamples=20)
    assert numbers(sure, "temperature")["temperature"] == pytest.approx(3, rel=0.07)
    assert value(numbers(sure)[calibration.WIDTH]) > 0.05
    assert value(numbers(sure, "temperature")[calibration.WIDTH]) < 0.025
    calibration.add_tables_and_figures(sure, [("m", calibration.HUMAN)], "m")
    errors_of, parts_of = small.render(sure).tables
    assert errors_of.rows[0][3] == numbers(sure)[calibration.WIDTH] and len(errors_of.rows) == 4
    part = dict(zip(parts_of.columns[2:], map(value, parts_of.rows[0][2:]), strict=True))
    total = part["reliability"] - part["resolution"] + part["uncertainty"] + part["within bins"]
    assert part["Brier"] == pytest.approx(total)
    at = {"recalibrated": "uncalibrated", "model": "m", "of": calibration.HUMAN, "measure": calibration.SHARE}
    curve = fair.select(calibration.MEAN, **at)
    assert len(curve) == 15
    assert all(abs(p - value(share)) < 0.08 for p, share in curve.items())
    assert all(share.low - 1e-9 <= value(share) <= share.high + 1e-9 for share in curve.values())


def test_nothing_is_fitted_and_tested_on_the_same_words() -> None:
    """Isotonic regression is without error on its own half of the sentences, whatever the noise."""
    draw = np.random.default_rng(1)
    sentence = np.repeat(np.arange(80), 40)
    wrong = np.repeat(draw.random(80) < 0.4, 40).astype(float)
    odds = np.repeat(draw.normal(size=80), 40)  # a sentence's words are all alike
    scored = calibration.ScoredItems(odds, wrong, sentence)
    assert value(numbers(calibrated(scored, resamples=5), "isotonic")[calibration.WIDTH]) > 0.05


def test_the_threshold_is_chosen_on_some_words_and_used_on_others() -> None:
    # On the chosen words 2 is the best threshold; on the scored ones 1 would be better.
    scores = np.array([3.0, 2, 1, 0] * 30 + [3.0, 2, 1, 0] * 30)
    wrong = np.array([True, True, False, False] * 30 + [True, True, True, False] * 30)
    kinds = ["noun", "verb", "noun", "noun"] * 30 + ["noun", "verb", "article", "noun"] * 30
    words = errors.Words(np.repeat(np.arange(60), 4), wrong, np.array(kinds))
    findings, config = Findings(), errors.Config(resamples=20)
    both = {"a": scores, "b": -scores}
    errors.add_measures(findings, both, words, tuning=np.arange(240) < 120, config=config)
    numbers_of = findings.select(scorer="a")
    assert value(numbers_of["precision"]) == 1 and value(numbers_of["recall"]) == pytest.approx(2 / 3)
    assert value(numbers_of["F0.5"]) == pytest.approx(1.25 * 2 / 3 / (0.25 + 2 / 3))
    recall = {kind: value(numbers_of) for kind, numbers_of in findings.select("errors", measure="a").items()}
    assert recall == {"noun": 1, "verb": 1, "article": 0}
    assert findings.select("of", measure="AUC") == {"b": Estimate(1.0, 1.0, 1.0)}


def test_words_without_tokens_are_never_suspected() -> None:
    assert errors.flatten([np.array([1.0, np.nan]), np.array([-3.0])]).tolist() == [1.0, -4.0, -3.0]


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
    assert errors.kind_of(word, count, language) == kind


def test_false_alarms_and_misses_by_hand() -> None:
    # 40 sentences of four tokens: a noun found, a verb missed, a noun left alone, a verb falsely called
    odds = np.tile([5.0, -5.0, -5.0, 5.0], 40)
    replaced = np.tile([True, True, False, False], 40)
    scored = bias.ScoredTokens(odds, replaced, np.repeat(np.arange(40), 4), np.arange(160))
    findings, config = Findings(), bias.Config(resamples=10)
    by_word = {"part of speech": ["NOUN", "VERB"] * 80}
    groups, threshold = bias.add_rates(findings, "m", scored, by_word, config)
    assert threshold == 5 and groups == {"part of speech": ["NOUN", "VERB"]}
    overall = findings.select(model="m")
    assert (value(overall["false alarms"]), value(overall["misses"])) == (0.5, 0.5)
    nouns, verbs = (findings.select(model="m", **{"part of speech": group}) for group in ("NOUN", "VERB"))
    assert (value(nouns["false alarms"]), value(nouns["misses"])) == (0, 0)
    assert (value(verbs["false alarms"]), value(verbs["misses"])) == (1, 1)
    assert (nouns["original"], nouns["replaced"]) == (40, 40)


def test_bins_of_counts() -> None:
    starts, counts = (0, 1, 10, 100), (0, 1, 9, 10, 100, 5000)
    names = ["0", "1-9", "1-9", "10-99", "100 and more", "100 and more"]
    assert [bias.bin_of(n, starts) for n in counts] == names


def test_plausibility_by_hand() -> None:
    labels = np.array([True, True, True, False, False, False])
    odds = np.array([2.0, 1.0, -1.0, 0.5, -2.0, -3.0] * 20)
    # The last but one was drawn and came out the same.
    advantage = np.array([-9.0, -0.5, 0.2, np.nan, 3.0, np.nan])
    text = token_rows.Corrupted([np.zeros(6, np.int64)] * 20, [labels] * 20, [advantage] * 20)
    findings = Findings()
    generators.add_measures(findings, text, odds, generators.Config(resamples=10), model="m", kind="swaps")
    at = {"model": "m", "corruption": "swaps"}
    numbers_of = findings.select(**at)
    assert value(numbers_of["base rate"]) == 0.5
    assert value(numbers_of["AUC"]) == pytest.approx(8 / 9)
    assert value(numbers_of[generators.PLAUSIBLE]) == pytest.approx(1 / 3)
    counts = findings.select(generators.ADVANTAGE, measure="replacements", **at)
    assert list(counts.values()) == [20, 20, 20] and list(counts) == ["below -8", "-1 to 0", "0 and more"]
    shares = findings.select(generators.ADVANTAGE, measure="found", **at)
    # three alarms a sentence: 2.0, 1.0 and 0.5
    assert [value(share) for share in shares.values()] == [1, 1, 0]
