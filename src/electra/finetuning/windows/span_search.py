"""Finds the best answers in the logits of windows, and maps them to characters of the context."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from electra.finetuning.windows.context_windows import Window


@dataclass(frozen=True)
class Span:
    """A candidate answer; `text` is context[start:end]."""

    text: str
    start: int
    end: int
    start_logit: float
    end_logit: float

    @property
    def score(self) -> float:
        """The sum of the two logits."""
        return self.start_logit + self.end_logit


NO_ANSWER = Span("", -1, -1, 0.0, 0.0)


@dataclass(frozen=True)
class Prediction:
    """The candidate answers to a question, and the evidence that it has none."""

    spans: tuple[Span, ...]  # with distinct texts, the best first; () if the context has no tokens
    null_odds: float  # the score of "no answer" minus that of the best answer, if there is one

    @property
    def best(self) -> Span:
        """The best answer, or `NO_ANSWER` if there is no candidate."""
        return self.spans[0] if self.spans else NO_ANSWER


Candidate = tuple[int, int, float, float]
"""The indices of the first and last token in the window's part of the context, and their logits."""


def plain_spans(
    window: Window, logits: npt.NDArray[np.float64], longest: int, count: int
) -> Iterator[Candidate]:
    """Yields the `count` best spans of at most `longest` tokens in a window, by the sum of their logits.

    A span starts at a token that the window scores. `logits` [T, 2] are the standard head's start and end
    logits.
    """
    starts, ends = logits[window.first : window.first + len(window.offsets)].T
    num_tokens = len(starts)
    if not num_tokens:
        return
    padded_ends = np.append(ends, np.full(longest, -np.inf))
    sums = starts[:, None] + np.lib.stride_tricks.sliding_window_view(padded_ends, longest)[:num_tokens]
    sums = np.where(window.may_start[:, None], sums, -np.inf).ravel()
    for index in np.argsort(-sums, kind="stable")[:count]:
        start, extra_tokens = divmod(int(index), longest)
        if sums[index] > -np.inf:
            yield start, start + extra_tokens, float(starts[start]), float(ends[start + extra_tokens])


def span_of(context: str, window: Window, candidate: Candidate) -> Span:
    """Returns the span of a candidate, without the white space that some tokenizers include in tokens."""
    first, last, start_logit, end_logit = candidate
    start, end = int(window.offsets[first, 0]), int(window.offsets[last, 1])
    text = context[start:end]
    start += len(text) - len(text.lstrip())
    return Span(text.strip(), start, start + len(text.strip()), start_logit, end_logit)


def probabilities(prediction: Prediction) -> list[float]:
    """Returns the softmax of the candidates' scores; [1.0] if there are no candidates."""
    scores = np.array([span.score for span in prediction.spans] or [0.0])
    exponentials = np.exp(scores - scores.max())
    return [float(value) for value in exponentials / exponentials.sum()]


def n_best(prediction: Prediction) -> list[dict[str, Any]]:
    """Returns the candidates with the fields of the official n-best list and their character offsets."""
    pairs = zip(prediction.spans, probabilities(prediction), strict=False)
    return [{**asdict(span), "probability": probability} for span, probability in pairs]
