"""What a discriminator believes about a text: for each token and word, the probability that it was replaced.

Offsets count Unicode code points, as Python's str does: text[start:end] is what a token came from, in the
text as given (before lower-casing or any other normalisation), with the combining marks that belong to it. No
text is cut: one that is longer than the model's positions is read in overlapping windows, and each token is
judged where it stands farthest from a cut edge.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from electra.exchange.configs import LOG_ODDS
from electra.foundation.errors import ConfigError, ModelError
from electra.foundation.visible import visible
from electra.model.precision import wide

if TYPE_CHECKING:
    from rich.text import Text

    from electra.data.tokenizer import Tokenizer
    from electra.exchange.load import Loaded

TEXTS_AT_ONCE = 1024  # texts that are tokenised and sorted by length together


class Span(NamedTuple):
    """A token or a word of a text, and the probability that it was replaced."""

    text: str
    start: int
    end: int
    p_replaced: float


@dataclass(frozen=True)
class Detection:
    """A text as a discriminator sees it; words of at least `threshold` are marked."""

    text: str
    tokens: tuple[Span, ...]
    words: tuple[Span, ...]
    threshold: float = 0.5

    @property
    def marked(self) -> tuple[Span, ...]:
        """The words that look replaced."""
        return tuple(word for word in self.words if word.p_replaced >= self.threshold)

    def suspects(self, most: int = 3) -> tuple[Span, ...]:
        """The words most likely to have been replaced, marked or not, the likeliest first."""
        return tuple(sorted(self.words, key=lambda word: -word.p_replaced)[:most])

    def _repr_html_(self) -> str:
        shown, position = [], 0
        for word in self.words:
            colour = f"background: rgba(220, 50, 47, {word.p_replaced:.2f})"
            weight = "bold" if word.p_replaced >= self.threshold else "normal"
            style = f'style="{colour}; font-weight: {weight}" title="P(replaced) {word.p_replaced:.3f}"'
            shown.append(escape(self.text[position : word.start]))
            shown.append(f"<span {style}>{escape(self.text[word.start : word.end])}</span>")
            position = word.end
        return f"<p>{''.join(shown)}{escape(self.text[position:])}</p>"

    def painted(self) -> Text:
        """The text for a terminal: words in colours from plain to red, the marked ones also in brackets with
        their probability.
        """
        from rich.text import Text

        line, position, text = Text(), 0, visible(self.text)
        for word in self.words:
            line.append(text[position : word.start])
            shown = text[word.start : word.end]
            if word.p_replaced >= self.threshold:
                line.append(f"[{shown} {word.p_replaced:.2f}]", style="bold red")
            else:
                line.append(shown, style="yellow" if word.p_replaced >= self.threshold / 2 else "")
            position = word.end
        line.append(text[position:])
        return line

    def to_json(self) -> dict[str, Any]:
        def rows(spans: Sequence[Span], name: str) -> list[dict[str, Any]]:
            return [
                {
                    name: s.text,
                    "start": s.start,
                    "end": s.end,
                    "p_replaced": round(s.p_replaced, 6),
                    "replaced": s.p_replaced >= self.threshold,
                }
                for s in spans
            ]

        return {
            "text": self.text,
            "threshold": self.threshold,
            "tokens": rows(self.tokens, "token"),
            "words": rows(self.words, "word"),
        }


@dataclass(frozen=True)
class Pieces:
    """A text's tokens, without specials: ids, names, offsets, and the word each belongs to."""

    ids: npt.NDArray[np.int64]
    names: list[str]
    offsets: list[tuple[int, int]]
    words: list[int | None]


def detect(
    loaded: Loaded, texts: Iterable[str], *, threshold: float | None = None, overlap: float = 0.25
) -> Iterator[Detection]:
    """Judge texts, in their order, in batches of similar length.

    threshold: P(replaced) from which a word is marked (None: the model's own).
    overlap: the share of a window that the next one sees again.
    """
    threshold = loaded.threshold if threshold is None else threshold
    if not 0 <= threshold <= 1:
        raise ConfigError(f"must be a probability from 0 to 1, not {threshold}", key="threshold")
    refuse_energies(loaded)
    from electra.model.passes import Pass, read

    specials, size = loaded.tokenizer.specials, loaded.config.max_positions - 2

    def probabilities(one: Pass) -> list[npt.NDArray[np.float64]]:
        return one.unpadded(wide(loaded.logits(one.input_ids, one.piece_ids)).sigmoid())

    source = iter(texts)
    while chunk := list(islice(source, TEXTS_AT_ONCE)):
        pieces = [split(loaded.tokenizer, text) for text in chunk]
        windows = [
            (row, *window)
            for row, piece in enumerate(pieces)
            for window in cut(len(piece.ids), size, int(size * overlap))
        ]
        rows = (
            np.array([specials.cls, *pieces[row].ids[start:stop], specials.sep])
            for row, start, stop, _, _ in windows
        )
        scores = [np.zeros(len(piece.ids)) for piece in pieces]
        found = read(rows, probabilities, loaded.device, pad=specials.pad)
        for (row, start, _, keep_from, keep_to), values in zip(windows, found, strict=True):
            scores[row][keep_from:keep_to] = values[keep_from - start + 1 : keep_to - start + 1]
        for text, piece, values in zip(chunk, pieces, scores, strict=True):
            yield assemble(text, piece, values, threshold)


def refuse_energies(loaded: Loaded) -> None:
    """An Electric network's outputs tell how likely a token is, not whether it was replaced."""
    if loaded.output != LOG_ODDS:
        what = (
            f"this model's outputs are of another kind ({loaded.output}) than odds that a token was replaced"
        )
        raise ModelError(
            what,
            where=loaded.folder,
            fix="Score sentences with it instead, or give a discriminator trained by rtd",
        )


def split(tokenizer: Tokenizer, text: str) -> Pieces:
    encoding = tokenizer.encode(text)
    kept = [i for i, special in enumerate(encoding.special) if not special]
    ids = [encoding.ids[i] for i in kept]
    return Pieces(
        ids=np.asarray(ids, np.int64),
        names=[tokenizer.readable(i) for i in ids],
        offsets=_whole_characters(text, [encoding.offsets[i] for i in kept]),
        words=[encoding.words[i] for i in kept],
    )


def cut(length: int, size: int, overlap: int) -> list[tuple[int, int, int, int]]:
    """Windows (start, stop) over `length` tokens, each with the part (keep_from, keep_to) that is judged
    there.

    The last window is as long as the others, so its tokens see as much. Neighbours share their common part
    half and half.
    """
    if length == 0:
        return []
    starts = list(range(0, max(1, length - overlap), size - overlap))
    starts[-1] = max(0, length - size) if len(starts) > 1 else 0
    borders = [0, *((start + min(before + size, length)) // 2 for before, start in pairwise(starts)), length]
    return [(start, min(start + size, length), borders[i], borders[i + 1]) for i, start in enumerate(starts)]


def assemble(text: str, pieces: Pieces, scores: npt.NDArray[np.float64], threshold: float) -> Detection:
    """P(replaced) of each piece, as words and tokens of the text."""
    starts, ends = zip(*pieces.offsets, strict=True) if pieces.offsets else ((), ())
    tokens = tuple(map(Span, pieces.names, starts, ends, scores.tolist()))
    words = []
    first = 0
    for _, members in groupby(pieces.words):
        last = first + sum(1 for _ in members)
        start, end = min(starts[first:last]), max(ends[first:last])
        # A word is as suspicious as its most suspicious piece.
        words.append(Span(text[start:end], start, end, max(token.p_replaced for token in tokens[first:last])))
        first = last
    return Detection(text, tokens, tuple(words), threshold)


def _whole_characters(text: str, offsets: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Let each token keep the combining marks after it that normalisation stripped and no other
    token claims.
    """
    if text.isascii():
        return list(offsets)
    claimed = {position for start, end in offsets for position in range(start, end)}
    whole = []
    for start, stop in offsets:
        end = stop
        while start < end < len(text) and end not in claimed and unicodedata.category(text[end]) == "Mn":
            end += 1
        whole.append((start, end))
    return whole
