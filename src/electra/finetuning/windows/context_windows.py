"""Splits a question and a context of any length into windows that fit the model.

Every window contains the question and a part of the context; the parts overlap. A token in several windows
may start an answer only in the window where it has the most context on its shorter side (Devlin et al. 2019,
as in ELECTRA's published code). Offsets map tokens back to exact characters of the context.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from electra.data.tokenizer import Tokenizer
from electra.finetuning.windows.features import Ids
from electra.foundation.errors import ConfigError
from electra.inference.detection import tokenize

Offsets = npt.NDArray[np.int64]  # [tokens, 2]: start and end in characters, end exclusive


@dataclass(frozen=True)
class PairTemplate:
    """The special tokens and token types that a tokenizer adds to a pair of texts."""

    before: Ids
    between: Ids
    after: Ids
    types: tuple[int, ...]  # the types of `before`, the first text, `between`, the second text and `after`

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> PairTemplate:
        """Infers the template of a tokenizer from an encoded pair of equal texts."""
        encoding = tokenizer.encode("a", "a")
        positions = [i for i, special in enumerate(encoding.special) if not special]
        ids, half = np.array(encoding.ids, np.int64), len(positions) // 2
        first_text, second_text = positions[:half], positions[half:]
        spans = [
            slice(0, first_text[0]),
            slice(first_text[0], first_text[-1] + 1),
            slice(first_text[-1] + 1, second_text[0]),
        ]
        spans += [slice(second_text[0], second_text[-1] + 1), slice(second_text[-1] + 1, len(ids))]
        types = tuple(encoding.segments[span][0] if encoding.segments[span] else 0 for span in spans)
        return cls(ids[spans[0]], ids[spans[2]], ids[spans[4]], types)

    def join(self, first: Ids, second: Ids) -> tuple[Ids, Ids]:
        """Returns the ids [tokens] and the token types [tokens] of a pair."""
        parts = [self.before, first, self.between, second, self.after]
        types = [np.full(len(part), kind, np.int64) for part, kind in zip(parts, self.types, strict=True)]
        return np.concatenate(parts).astype(np.int64), np.concatenate(types)

    @property
    def num_special(self) -> int:
        """The number of special tokens."""
        return len(self.before) + len(self.between) + len(self.after)


@dataclass(frozen=True)
class Context:
    """A tokenised context, without special tokens."""

    ids: Ids
    offsets: Offsets
    blank: npt.NDArray[np.bool_]  # whether a token is only white space; no answer starts at such a token

    @classmethod
    def of(cls, tokenizer: Tokenizer, text: str) -> Context:
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

    def target(self, span: tuple[int, int] | None) -> tuple[int, int] | None:
        """Maps a span (first, last) of the context's tokens to `ids`.

        Returns None if `span` is None or the window does not contain all of it.
        """
        if span is None or span[0] < self.start or span[1] >= self.start + len(self.offsets):
            return None
        return span[0] - self.start + self.first, span[1] - self.start + self.first


def cut_windows(
    question: Ids, context: Context, template: PairTemplate, max_length: int, stride: int
) -> list[Window]:
    """Returns the windows of one question, `stride` tokens apart, or closer if a window has less room."""
    room = max_length - template.num_special - len(question)
    if room < 1:
        problem = (
            f"{max_length} tokens leave no room for a context next to a question of {len(question)} tokens"
        )
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

    Args:
        starts: the first token of each window.
        stops: the end of each window, exclusive.
        length: the number of tokens in the context.
    """
    positions = np.arange(length)
    begin, end = np.array(starts)[:, None], np.array(stops)[:, None]
    margin = np.minimum(positions - begin, end - 1 - positions).astype(np.float64)
    best: Ids = np.where(margin >= 0, margin + 0.01 * (end - begin), -1.0).argmax(0)
    return best
