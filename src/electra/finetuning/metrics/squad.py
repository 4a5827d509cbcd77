"""Exact match and F1 of answers, as the official scorers of SQuAD define them (1.1: Rajpurkar et al. 2016;
2.0: Rajpurkar et al. 2018).

Both compare answers in a plain form: lower case, without ASCII punctuation, without the words a, an and the,
white space evened out. F1 is over the words the two have in common, each as often as it occurs in both. An
answer counts by the gold answer it suits best. The versions differ in empty answers. 2.0: gold answers that
are empty in plain form do not count, a question without any is answered rightly by the empty answer only, and
an empty answer has an F1 of 1 or 0. 1.1: two empty answers match exactly and have an F1 of 0. 2.0 gives no
answer where `null_odds` exceed a threshold; the official name is "na_prob", any number that grows with the
belief will do.

Departure: the official search for the best threshold also stops between questions of equal odds, at scores
that no threshold reaches, and calls the threshold 0 where it is best never to answer; here every best score
is the score at the threshold that stands beside it.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from electra.finetuning.metrics.scores import Score

Version = Literal[1, 2]
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
METRICS: dict[Version, tuple[str, ...]] = {1: ("exact_match", "f1")}
METRICS[2] = (
    *METRICS[1],
    *("best_exact_match", "best_f1", "best_exact_match_threshold", "best_f1_threshold"),
    *("has_answer_exact_match", "has_answer_f1", "no_answer_accuracy"),
)


def plain_form(answer: str) -> str:
    """The form in which answers are compared."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(answer: str, gold: str) -> float:
    return float(plain_form(answer) == plain_form(gold))


def f1(answer: str, gold: str, version: Version) -> float:
    ours, theirs = plain_form(answer).split(), plain_form(gold).split()
    if version == 2 and not (ours and theirs):
        return float(ours == theirs)
    common = sum((Counter(ours) & Counter(theirs)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(ours), common / len(theirs)
    return 2 * precision * recall / (precision + recall)


def marks(answer: str, golds: Sequence[str], version: Version) -> tuple[float, float]:
    """(exact match, F1) by the gold answer that suits best."""
    if version == 2:
        golds = [gold for gold in golds if plain_form(gold)] or [""]
    return max(exact_match(answer, gold) for gold in golds), max(f1(answer, gold, version) for gold in golds)


def score_1(answers: Sequence[str], golds: Sequence[Sequence[str]]) -> dict[str, Score]:
    """The scores of SQuAD 1.1; each question has one gold answer at least."""
    means = np.array([marks(answer, gold, 1) for answer, gold in zip(answers, golds, strict=True)]).mean(0)
    return {name: Score(float(mean)) for name, mean in zip(METRICS[1], means, strict=True)}


def score_2(
    answers: Sequence[str], golds: Sequence[Sequence[str]], null_odds: Sequence[float], threshold: float
) -> dict[str, Score]:
    """The scores of SQuAD 2.0, at a threshold and at the best ones. `answers`: said if anything is."""
    said = np.array([marks(answer, gold, 2) for answer, gold in zip(answers, golds, strict=True)])
    answerable, odds = np.array([bool(gold) for gold in golds]), np.asarray(null_odds, np.float64)
    given = np.where((odds > threshold)[:, None], ~answerable[:, None], said)
    exact, overlap = (float(mean) for mean in given.mean(0))
    best_exact, exact_threshold = best_threshold(said[:, 0], answerable, odds)
    best_f1, f1_threshold = best_threshold(said[:, 1], answerable, odds)
    values = [Score(value) for value in (exact, overlap, best_exact, best_f1, exact_threshold, f1_threshold)]
    values += [_mean(given[answerable, column], "every question is unanswerable") for column in (0, 1)]
    values.append(_mean(given[~answerable, 0], "every question has an answer"))
    return dict(zip(METRICS[2], values, strict=True))


def best_threshold(
    said: npt.NDArray[np.float64], answerable: npt.NDArray[np.bool_], odds: npt.NDArray[np.float64]
) -> tuple[float, float]:
    """(best mean score, the lowest threshold that reaches it: half way to the next question's odds, so that
    none hangs on a last bit).

    `said`: each question's score if it is answered.
    """
    order = np.argsort(odds, kind="stable")
    sorted_odds = odds[order]
    gains = np.cumsum(
        said[order] - ~answerable[order]
    )  # of answering the questions up to here, over answering none
    last = np.append(
        sorted_odds[1:] > sorted_odds[:-1], True
    )  # questions of equal odds are answered together or not at all
    totals = np.append(0.0, gains[last])
    steps = sorted_odds[last]
    thresholds = np.concatenate([[steps[0] - 1], (steps[:-1] + steps[1:]) / 2, [steps[-1] + 1]])
    best = int(totals.argmax())
    return float(totals[best] + np.sum(~answerable)) / len(odds), float(thresholds[best])


def _mean(values: npt.NDArray[np.float64], reason: str) -> Score:
    return Score(float(values.mean())) if len(values) else Score(None, reason)
