"""The logits of windows -> the best answers of a context, with their characters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from electra.finetuning.windows.context_windows import Window

BEAM = 20  # beginnings, and ends of each, that the joint head looks at


@dataclass(frozen=True)
class Span:
    """A possible answer: text is context[start:end]."""

    text: str
    start: int
    end: int
    start_logit: float
    end_logit: float

    @property
    def score(self) -> float:
        return self.start_logit + self.end_logit


NOTHING = Span("", -1, -1, 0.0, 0.0)


@dataclass(frozen=True)
class Prediction:
    spans: tuple[Span, ...]  # the best first, of different texts; none when the context has no tokens
    null_odds: float  # how much more "no answer" is believed than the best answer

    @property
    def best(self) -> Span:
        return self.spans[0] if self.spans else NOTHING


Candidate = tuple[int, int, float, float]
"""First and last token, counted in the window's context, and their logits."""


def plain_spans(
    window: Window, logits: npt.NDArray[np.float64], longest: int, count: int
) -> Iterator[Candidate]:
    """The best spans of a window, by the sum of their two logits."""
    starts, ends = logits[window.first : window.first + len(window.offsets)].T
    size = len(starts)
    if not size:
        return
    padded = np.append(ends, np.full(longest, -np.inf))
    sums = starts[:, None] + np.lib.stride_tricks.sliding_window_view(padded, longest)[:size]
    sums = np.where(window.judged[:, None], sums, -np.inf).ravel()
    for index in np.argsort(-sums, kind="stable")[:count]:
        start, length = divmod(int(index), longest)
        if sums[index] > -np.inf:
            yield start, start + length, float(starts[start]), float(ends[start + length])


def beam_spans(window: Window, output: npt.NDArray[np.float64], longest: int, count: int) -> list[Candidate]:
    """The best of the spans that the joint head proposes, as far as they can be answers."""
    logits, places, end_logits, end_places = np.split(output[3:], np.cumsum([BEAM, BEAM, BEAM * BEAM]))
    size = len(window.offsets)
    found = []
    for k in range(BEAM):
        start = int(places[k]) - window.first
        if not (0 <= start < size and window.judged[start]):
            continue
        for end_logit, place in zip(
            end_logits[k * BEAM :][:BEAM], end_places[k * BEAM :][:BEAM], strict=True
        ):
            end = int(place) - window.first
            if start <= end < min(size, start + longest):
                found.append((start, end, float(logits[k]), float(end_logit)))
    return sorted(found, key=lambda candidate: -candidate[2] - candidate[3])[:count]


def span_of(context: str, window: Window, candidate: Candidate) -> Span:
    """Cut out of the context, without the white space that some tokenizers count to a token."""
    first, last, start_logit, end_logit = candidate
    start, end = int(window.offsets[first, 0]), int(window.offsets[last, 1])
    text = context[start:end]
    start += len(text) - len(text.lstrip())
    return Span(text.strip(), start, start + len(text.strip()), start_logit, end_logit)


def probabilities(prediction: Prediction) -> list[float]:
    """The softmax of the scores, over the listed answers."""
    scores = np.array([span.score for span in prediction.spans] or [0.0])
    shares = np.exp(scores - scores.max())
    return [float(share) for share in shares / shares.sum()]


def ensemble(predictions: Sequence[Prediction], count: int) -> Prediction:
    """One prediction of several models'. What a model does not list has no probability there."""
    shares: dict[str, float] = {}
    spans: dict[str, Span] = {}
    for prediction in predictions:
        for span, share in zip(prediction.spans, probabilities(prediction), strict=False):
            shares[span.text] = shares.get(span.text, 0.0) + share / len(predictions)
            spans.setdefault(span.text, span)
    ranked = sorted(spans, key=lambda text: -shares[text])[:count]
    best = tuple(
        replace(spans[text], start_logit=float(np.log(max(shares[text], 1e-300))), end_logit=0.0)
        for text in ranked
    )
    return Prediction(best, float(np.mean([prediction.null_odds for prediction in predictions])))


def n_best(prediction: Prediction) -> list[dict[str, Any]]:
    """The official list's fields, and where in the context the answers stand."""
    shares = probabilities(prediction)
    return [
        {**asdict(span), "probability": share} for span, share in zip(prediction.spans, shares, strict=False)
    ]
