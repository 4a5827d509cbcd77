"""A question and a context of any length -> windows that fit the model, and tokens back to exact characters
of the context.

Every window holds the question and a part of the context; the parts overlap. A token in several windows is
judged as the beginning of an answer only where it has most context on its poorer side (Devlin et al. 2019, as
in the published code of ELECTRA).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from electra.data.tokenizer import Tokenizer
from electra.finetuning.windows.features import Ids
from electra.foundation.errors import ConfigError
from electra.inference.detection import tokenize

Offsets = npt.NDArray[np.int64]  # [tokens, 2]: first character, and the one after the last


@dataclass(frozen=True)
class Arrangement:
    """Where a tokenizer puts a pair of texts: its special tokens, and everybody's token types."""

    before: Ids
    between: Ids
    after: Ids
    types: tuple[int, ...]  # of: before, first text, between, second text, after

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Arrangement:
        """Read off an encoded pair of equal texts."""
        probe = tokenizer.encode("a", "a")
        words = [i for i, special in enumerate(probe.special) if not special]
        ids, half = np.array(probe.ids, np.int64), len(words) // 2
        first, second = words[:half], words[half:]
        spans = [slice(0, first[0]), slice(first[0], first[-1] + 1), slice(first[-1] + 1, second[0])]
        spans += [slice(second[0], second[-1] + 1), slice(second[-1] + 1, len(ids))]
        types = tuple(probe.segments[span][0] if probe.segments[span] else 0 for span in spans)
        return cls(ids[spans[0]], ids[spans[2]], ids[spans[4]], types)

    def join(self, first: Ids, second: Ids) -> tuple[Ids, Ids]:
        """(ids, token types) of a pair."""
        parts = [self.before, first, self.between, second, self.after]
        types = [np.full(len(part), kind, np.int64) for part, kind in zip(parts, self.types, strict=True)]
        return np.concatenate(parts).astype(np.int64), np.concatenate(types)

    @property
    def specials(self) -> int:
        return len(self.before) + len(self.between) + len(self.after)


@dataclass(frozen=True)
class Context:
    """A tokenised context, without special tokens."""

    ids: Ids
    offsets: Offsets
    blank: npt.NDArray[
        np.bool_
    ]  # tokens of white space alone, which some tokenizers make: no answer begins there

    @classmethod
    def of(cls, tokenizer: Tokenizer, text: str) -> Context:
        pieces = tokenize(tokenizer, text)
        offsets = np.array(pieces.offsets, np.int64).reshape(-1, 2)
        return cls(
            pieces.ids, offsets, np.array([not text[start:end].strip() for start, end in offsets], np.bool_)
        )

    def tokens_of(self, start: int, end: int) -> tuple[int, int] | None:
        """The first and the last token with a character in text[start:end], be it a part of their own."""
        inside = np.flatnonzero((self.offsets[:, 0] < end) & (self.offsets[:, 1] > start))
        return (int(inside[0]), int(inside[-1])) if len(inside) else None


@dataclass(frozen=True)
class Window:
    """One input of the encoder."""

    ids: Ids
    types: Ids
    first: int  # where in the input the context begins
    start: int  # which token of the context that is
    offsets: Offsets  # of the context's tokens in this window
    judged: npt.NDArray[np.bool_]  # which of them may begin an answer here

    def target(self, span: tuple[int, int] | None) -> tuple[int, int] | None:
        """Where an answer, in tokens of the context, stands in the input; None when it is not wholly here."""
        if span is None or span[0] < self.start or span[1] >= self.start + len(self.offsets):
            return None
        return span[0] - self.start + self.first, span[1] - self.start + self.first


def cut(
    question: Ids, context: Context, arrangement: Arrangement, max_length: int, stride: int
) -> list[Window]:
    """The windows of one question, `stride` tokens apart, or less where the context has less room."""
    room = max_length - arrangement.specials - len(question)
    if room < 1:
        what = f"{max_length} tokens leave no room for a context beside a question of {len(question)}"
        raise ConfigError(
            what, key="max_length", fix=f"Use at least {arrangement.specials + len(question) + 32}"
        )
    length, step = len(context.ids), min(stride, room)
    starts = [0]
    while starts[-1] + room < length:
        starts.append(starts[-1] + step)
    stops = [min(start + room, length) for start in starts]
    best = best_window(starts, stops, length)
    first = len(arrangement.before) + len(question) + len(arrangement.between)
    windows = []
    for number, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        ids, types = arrangement.join(question, context.ids[start:stop])
        judged = (best[start:stop] == number) & ~context.blank[start:stop]
        windows.append(Window(ids, types, first, start, context.offsets[start:stop], judged))
    return windows


def best_window(starts: list[int], stops: list[int], length: int) -> Ids:
    """For each token of a context the window in which its poorer side has most context; of equal ones the
    longest, then the first.
    """
    positions = np.arange(length)
    begin, end = np.array(starts)[:, None], np.array(stops)[:, None]
    richness = np.minimum(positions - begin, end - 1 - positions).astype(np.float64)
    best: Ids = np.where(richness >= 0, richness + 0.01 * (end - begin), -1.0).argmax(0)
    return best
