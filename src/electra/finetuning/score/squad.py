"""Exact match and F1 of answers, as the official SQuAD scorers define them.

SQuAD 1.1: Rajpurkar et al. 2016; SQuAD 2.0: Rajpurkar et al. 2018. Both compare normalised answers: in lower
case, without ASCII punctuation, without a, an and the, with single spaces. F1 compares bags of words. An
answer is scored against the gold answer that it matches best. The versions treat empty answers differently.
In 1.1, two empty answers match exactly and have an F1 of 0. In 2.0, gold answers that are empty when
normalised are ignored; for a question without gold answers only the empty answer is correct; and if either
answer is empty, the F1 is 1 if both are, else 0. In 2.0, a question is left unanswered if its `null_odds`
exceed a threshold. (The official scorer calls them "na_prob", but only their order affects the scores.)

Departure: the official search for the best threshold also considers cuts between questions of equal odds,
which no threshold can make, and reports the threshold 0 if it is best never to answer. Here each best score
is the score at the threshold reported with it.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from electra.finetuning.score.metrics import Score

Version = Literal[1, 2]
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
METRICS: dict[Version, tuple[str, ...]] = {1: ("exact_match", "f1")}
METRICS[2] = (
    *METRICS[1],
    *("best_exact_match", "best_f1", "best_exact_match_threshold", "best_f1_threshold"),
    *("has_answer_exact_match", "has_answer_f1", "no_answer_accuracy"),
)


def normalise_answer(answer: str) -> str:
    """Returns an answer in the normalised form that the scorers compare; it may be empty."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(answer: str, gold: str) -> float:
    """Returns 1 if the normalised answers are equal, else 0."""
    return float(normalise_answer(answer) == normalise_answer(gold))


def f1(answer: str, gold: str, version: Version) -> float:
    """Returns the F1 of the words of two answers, as that version of SQuAD defines it."""
    answer_words, gold_words = normalise_answer(answer).split(), normalise_answer(gold).split()
    if version == 2 and not (answer_words and gold_words):
        return float(answer_words == gold_words)
    common = sum((Counter(answer_words) & Counter(gold_words)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(answer_words), common / len(gold_words)
    return 2 * precision * recall / (precision + recall)


def best_scores(answer: str, golds: Sequence[str], version: Version) -> tuple[float, float]:
    """Returns the highest exact match and F1 over `golds`, which may be empty only in version 2."""
    if version == 2:
        golds = [gold for gold in golds if normalise_answer(gold)] or [""]
    return max(exact_match(answer, gold) for gold in golds), max(f1(answer, gold, version) for gold in golds)


def squad1_scores(answers: Sequence[str], golds: Sequence[Sequence[str]]) -> dict[str, Score]:
    """Returns the scores of SQuAD 1.1 for one or more questions, each with at least one gold answer."""
    means = np.mean([best_scores(*pair, 1) for pair in zip(answers, golds, strict=True)], axis=0)
    return {name: Score(float(mean)) for name, mean in zip(METRICS[1], means, strict=True)}


def squad2_scores(
    answers: Sequence[str], golds: Sequence[Sequence[str]], null_odds: Sequence[float], threshold: float
) -> dict[str, Score]:
    """Returns the scores of SQuAD 2.0, at the given threshold and at the best thresholds.

    `answers` are the best non-empty ones, `golds` are empty for unanswerable questions, and `null_odds` is
    the score of "no answer" minus that of the answer: questions with higher ones than `threshold` are left
    unanswered.
    """
    answer_scores = np.array([best_scores(*pair, 2) for pair in zip(answers, golds, strict=True)])
    is_answerable, odds = np.array([bool(gold) for gold in golds]), np.asarray(null_odds, np.float64)
    scores = np.where((odds > threshold)[:, None], ~is_answerable[:, None], answer_scores)
    mean_exact, mean_f1 = (float(mean) for mean in scores.mean(0))
    best_exact, exact_threshold = best_threshold(answer_scores[:, 0], is_answerable, odds)
    best_f1, f1_threshold = best_threshold(answer_scores[:, 1], is_answerable, odds)
    values = [*map(Score, (mean_exact, mean_f1, best_exact, best_f1, exact_threshold, f1_threshold))]
    values += [_mean(scores[is_answerable, column], "every question is unanswerable") for column in (0, 1)]
    values.append(_mean(scores[~is_answerable, 0], "every question has an answer"))
    return dict(zip(METRICS[2], values, strict=True))


def best_threshold(
    answer_scores: npt.NDArray[np.float64],
    answerable: npt.NDArray[np.bool_],
    odds: npt.NDArray[np.float64],
) -> tuple[float, float]:
    """Returns the best mean score and the lowest threshold that reaches it.

    The threshold lies half-way between the odds of two questions, so that it does not depend on rounding; or
    1 below the lowest odds, or 1 above the highest. By question [N]: its score if it is answered, whether it
    is answerable, and its null odds.
    """
    order = np.argsort(odds, kind="stable")
    sorted_odds = odds[order]
    # The gain from answering all questions up to each one, compared with answering none.
    gains = np.cumsum(answer_scores[order] - ~answerable[order])
    # Questions of equal odds are answered together or not at all.
    is_last_of_equals = np.append(sorted_odds[1:] > sorted_odds[:-1], True)
    total_gains = np.append(0.0, gains[is_last_of_equals])
    distinct_odds = sorted_odds[is_last_of_equals]
    thresholds = np.concatenate(
        [[distinct_odds[0] - 1], (distinct_odds[:-1] + distinct_odds[1:]) / 2, [distinct_odds[-1] + 1]]
    )
    best_index = int(total_gains.argmax())
    return float(total_gains[best_index] + np.sum(~answerable)) / len(odds), float(thresholds[best_index])


def _mean(values: npt.NDArray[np.float64], reason: str) -> Score:
    return Score(float(values.mean())) if len(values) else Score(None, reason)
