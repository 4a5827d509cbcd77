"""Exact match and F1 equal independent implementations of the official definitions, and worked cases."""

import math
import random
import string
from itertools import groupby

import numpy as np
import pytest

from electra.finetuning.score.squad import (
    best_scores,
    best_threshold,
    exact_match,
    f1,
    normalise_answer,
    squad2_scores,
)

# --- the oracle: the same definitions, character by character and by sorting, without regular expressions,
# Counter or numpy


def oracle_words(text: str) -> list[str]:
    kept = "".join(character for character in text.lower() if character not in string.punctuation)
    runs = ["".join(run) for _, run in groupby(kept, key=lambda c: c.isalnum() or c == "_")]
    return "".join(" " if run in ("a", "an", "the") else run for run in runs).split()


def oracle_f1(answer: str, gold: str, version: int) -> float:
    ours, theirs = sorted(oracle_words(answer)), sorted(oracle_words(gold))
    if not ours or not theirs:
        return float(ours == theirs) if version == 2 else 0.0
    common, rest = 0, list(theirs)
    for word in ours:
        if word in rest:
            rest.remove(word)
            common += 1
    return 2 * common / (len(ours) + len(theirs))  # the harmonic mean of c/a and c/b


def oracle_marks(answer: str, golds: list[str], version: int) -> tuple[float, float]:
    if version == 2:
        golds = [gold for gold in golds if oracle_words(gold)] or [""]
    return (
        max(float(oracle_words(answer) == oracle_words(gold)) for gold in golds),
        max(oracle_f1(answer, gold, version) for gold in golds),
    )


def oracle_score_2(
    answers: list[str], golds: list[list[str]], odds: list[float], threshold: float
) -> tuple[float, float]:
    totals = [0.0, 0.0]
    for answer, gold, odd in zip(answers, golds, odds, strict=True):
        silent = odd > threshold
        for place, mark in enumerate(oracle_marks(answer, gold, 2)):
            totals[place] += (0.0 if gold else 1.0) if silent else mark
    return totals[0] / len(answers), totals[1] / len(answers)


# --- odd strings: articles beside every kind of neighbour, punctuation of all scripts, accents in both forms,
# white space of all kinds

ODD = str.split("a|an|the|The|THE|a.|the-|an'|A'b|_the_|th\u00e9|the\u0301|Paris|paris|1,000|3.5|U.S.", "|")
ODD += ["x" * 40, "", " ", "\t\n", *string.punctuation, "\u201cq\u201d", "e\u0301t\u00e9"]
ODD += [*"\u00a0\u2003\u200b\u3000\u2019\u2013\u00bf\uff0e\u3002\u0130\u00df\ufb01\u0663\u00bd\U0001f600"]
ODD += ["\u0645\u0631\u062d\u0628\u0627", "\u5317\u4eac"]


def odd_text(draw: random.Random) -> str:
    pieces = [
        draw.choice(ODD) if draw.random() < 0.8 else chr(draw.randrange(0xD800)) for _ in range(draw.randrange(8))
    ]
    return "".join(piece + draw.choice(["", " "]) for piece in pieces)


def check_pair(answer: str, gold: str) -> None:
    assert normalise_answer(answer) == " ".join(oracle_words(answer))
    assert exact_match(answer, answer) == 1.0
    same = normalise_answer(answer) == normalise_answer(gold)
    assert exact_match(answer, gold) == float(same)
    for version in (1, 2):
        ours = f1(answer, gold, version)  # type: ignore[arg-type]
        assert math.isclose(ours, oracle_f1(answer, gold, version), abs_tol=1e-12)
        if same and normalise_answer(answer):
            assert ours == 1.0


def test_thousands_of_unusual_answers_score_as_in_the_oracle() -> None:
    draw = random.Random(0)
    matches = 0
    for _ in range(4000):
        answer, gold = odd_text(draw), odd_text(draw)
        if draw.random() < 0.3:  # near misses: the same words in other dress
            gold = answer.upper() if draw.random() < 0.5 else f"The {answer} ."
        check_pair(answer, gold)
        matches += exact_match(answer, gold) == 1.0
        golds = [gold, *(odd_text(draw) for _ in range(draw.randrange(3)))]
        for version in (1, 2):  # the gold answer that fits best counts
            assert best_scores(answer, golds, version) == pytest.approx(oracle_marks(answer, golds, version))  # type: ignore[arg-type]
    assert 400 < matches < 2700  # neither side of the question is rare


def check_version_two(rows: list[tuple[str, list[str], float]], threshold: float) -> None:
    answers, golds, null_odds = ([row[column] for row in rows] for column in range(3))
    found = {name: score.value for name, score in squad2_scores(answers, golds, null_odds, threshold).items()}
    exact, overlap = oracle_score_2(answers, golds, null_odds, threshold)
    assert (found["exact_match"], found["f1"]) == pytest.approx((exact, overlap))
    everything = [oracle_score_2(answers, golds, null_odds, t) for t in (-99.0, *sorted(set(null_odds)))]
    assert found["best_exact_match"] == pytest.approx(max(row[0] for row in everything))
    assert found["best_f1"] == pytest.approx(max(row[1] for row in everything))
    for place, name in enumerate(("exact_match", "f1")):  # its threshold gives the score
        at = found[f"best_{name}_threshold"]
        assert at is not None and oracle_score_2(answers, golds, null_odds, at)[place] == pytest.approx(
            found[f"best_{name}"]
        )


def test_scores_of_version_two_at_a_threshold_and_at_the_best_one() -> None:
    draw = random.Random(2)
    for _ in range(500):  # few values of the odds: ties are common
        golds = [draw.choice([[], [], ["Paris"], ["the", "1,000"], ["a"]]) for _ in range(draw.randint(1, 12))]
        odds = [draw.choice([-3.0, -1.5, 0.0, 0.25, 7.0]) for _ in golds]
        answers = [gold[-1] if gold and draw.random() < 0.6 else odd_text(draw) for gold in golds]
        check_version_two(list(zip(answers, golds, odds, strict=True)), draw.choice([-2.75, -1.5, 0.0, 9.0]))


def test_the_versions_differ_in_empty_answers() -> None:
    assert (exact_match("the", "!"), f1("the", "!", 1), f1("the", "!", 2)) == (1.0, 0.0, 1.0)
    assert best_scores("", ["the"], 2) == (1.0, 1.0)  # "the" is no gold answer
    assert best_scores("x", ["the", "x"], 2) == (1.0, 1.0) and best_scores("", ["the", "x"], 2) == (0.0, 0.0)


def test_undefined_scores_have_a_reason() -> None:
    scores = squad2_scores(["x"], [["x"]], [0.0], 1.0)
    assert scores["no_answer_accuracy"].value is None and "answer" in scores["no_answer_accuracy"].reason
    scores = squad2_scores(["x"], [[]], [0.0], 1.0)
    assert scores["has_answer_f1"].value is None and scores["exact_match"].value == 0.0
    assert scores["best_exact_match"].value == 1.0 and scores["best_exact_match_threshold"].value < 0.0  # type: ignore[operator]


def test_the_best_threshold_never_separates_equal_odds() -> None:
    said, answerable = np.array([1.0, 0.0]), np.array([True, False])
    assert best_threshold(said, answerable, np.array([2.0, 2.0])) == (0.5, 1.0)
