"""Splits a question and a context into windows that fit the model, and finds answers in their logits.

Every window contains the question and a part of the context; the parts overlap. A token in several windows
may start an answer only in the window where it has the most context on its shorter side (Devlin et al. 2019,
as in ELECTRA's published code). Offsets map tokens back to exact characters of the context.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from electra.data.corpus.tokenizer import Tokenizer
from electra.finetuning.windows.features import Ids, PairTemplate
from electra.foundation.errors import ConfigError
from electra.inference.detection import tokenize

Offsets = npt.NDArray[np.int64]  # [tokens, 2]: start and end in characters, end exclusive


@dataclass(frozen=True)
class Context:
    """A tokenised context, without special tokens."""

    ids: Ids
    offsets: Offsets
    blank: npt.NDArray[np.bool_]  # whether a token is only white space; no answer starts at such a token

    @classmethod
    def of(cls, tokenizer: Tokenizer, text: str) -> Self:
        """Tokenises a context."""
        tokens = tokenize(tokenizer, text)
        offsets = np.array(tokens.offsets, np.int64).reshape(-1, 2)
        blank = np.array([not text[start:end].strip() for start, end in offsets], np.bool_)
        return cls(tokens.ids, offsets, blank)

    def tokens_of(self, start: int, end: int) -> tuple[int, int] | None:
        """Returns the first and the last token that overlap text[start:end]; None if no token does."""
        overlapping_tokens = np.flatnonzero((self.offsets[:, 0] < end) & (self.offsets[:, 1] > start))
        return (int(overlapping_tokens[0]), int(overlapping_tokens[-1])) if len(overlapping_tokens) else None


@dataclass(frozen=True)
class Window:
    """One input of the encoder."""

    ids: Ids
    types: Ids
    first: int  # the index in `ids` of the first token of the context
    start: int  # the index of that token in the whole context
    offsets: Offsets  # the offsets of the context's tokens in this window [context tokens, 2]
    may_start: npt.NDArray[np.bool_]  # whether each of these may start an answer [context tokens]

    def target(self, span: tuple[int, int]) -> tuple[int, int] | None:
        """Maps a span (first, last) of the context's tokens to `ids`; None if it is not all in the window."""
        if span[0] < self.start or span[1] >= self.start + len(self.offsets):
            return None
        return span[0] - self.start + self.first, span[1] - self.start + self.first


def cut_windows(question: Ids, context: Context, template: PairTemplate, max_length: int, stride: int) -> list[Window]:
    """Returns the windows of one question, `stride` tokens apart, or closer if a window has less room."""
    room = max_length - template.num_special - len(question)
    if room < 1:
        problem = f"{max_length} tokens leave no room for a context beside a question of {len(question)}"
        fix = f"Use at least {template.num_special + len(question) + 32}"
        raise ConfigError(problem, key="max_length", fix=fix)
    length, step = len(context.ids), min(stride, room)
    starts = [0]
    while starts[-1] + room < length:
        starts.append(starts[-1] + step)
    stops = [min(start + room, length) for start in starts]
    best_windows = best_window(starts, stops, length)
    first = len(template.before) + len(question) + len(template.between)
    windows = []
    for index, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        ids, types = template.join(question, context.ids[start:stop])
        may_start = (best_windows[start:stop] == index) & ~context.blank[start:stop]
        windows.append(Window(ids, types, first, start, context.offsets[start:stop], may_start))
    return windows


def best_window(starts: list[int], stops: list[int], length: int) -> Ids:
    """Returns the index of the window where each token [length] has the most context on its shorter side.

    As in the published code, a hundredth of the window's length is added to that context, so ties go to the
    longest window; then they go to the first.
    """
    positions = np.arange(length)
    begin, end = np.array(starts)[:, None], np.array(stops)[:, None]
    margin = np.minimum(positions - begin, end - 1 - positions).astype(np.float64)
    best: Ids = np.where(margin >= 0, margin + 0.01 * (end - begin), -1.0).argmax(0)
    return best


# Answers


@dataclass(frozen=True)
class CandidateSpan:
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


NO_ANSWER = CandidateSpan("", -1, -1, 0.0, 0.0)


@dataclass(frozen=True)
class Prediction:
    """The candidate answers to a question, and the evidence that it has none."""

    spans: tuple[CandidateSpan, ...]  # with distinct texts, the best first; () if the context has no tokens
    null_odds: float  # the score of "no answer" minus that of the best answer, if there is one

    @property
    def best(self) -> CandidateSpan:
        """The best answer, or `NO_ANSWER` if there is no candidate."""
        return self.spans[0] if self.spans else NO_ANSWER


Candidate = tuple[int, int, float, float]
"""The indices of the first and last token in the window's part of the context, and their logits."""


def plain_spans(window: Window, logits: npt.NDArray[np.float64], longest: int, count: int) -> Iterator[Candidate]:
    """Yields the `count` best spans of at most `longest` tokens by start and end logits [T, 2], summed."""
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


def span_of(context: str, window: Window, candidate: Candidate) -> CandidateSpan:
    """Returns the span of a candidate, without the white space that some tokenizers include in tokens."""
    first, last, start_logit, end_logit = candidate
    start, end = int(window.offsets[first, 0]), int(window.offsets[last, 1])
    text = context[start:end]
    start += len(text) - len(text.lstrip())
    return CandidateSpan(text.strip(), start, start + len(text.strip()), start_logit, end_logit)


def probabilities(prediction: Prediction) -> list[float]:
    """Returns the softmax of the candidates' scores; [1.0] if there are no candidates."""
    return list(map(float, softmax([span.score for span in prediction.spans] or [0.0])))


def n_best(prediction: Prediction) -> list[dict[str, Any]]:
    """Returns the candidates with the fields of the official n-best list and their character offsets."""
    pairs = zip(prediction.spans, probabilities(prediction), strict=False)
    return [{**asdict(span), "probability": probability} for span, probability in pairs]
