"""Detection by a masked language model: hide each word in turn, and ask how likely it is there.

A discriminator judges a whole text in one pass, and learned on what a generator writes; it seldom suspects a
rare word, since generators seldom write one. A language model needs a pass for each word, and suspects
whatever does not fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

import numpy as np
import numpy.typing as npt

from electra.data.tokenizer import Tokenizer
from electra.exchange.load import NEEDS, Loaded
from electra.foundation.errors import ConfigError, ModelError
from electra.inference.detection import Detection, Pieces, assemble, cut, detect, split
from electra.model.passes import Pass, read
from electra.model.precision import wide

TEXTS_AT_ONCE = 16  # answered together: every word of each is a row
OVERLAP = 0.25  # of the windows of a long text
PLANTED = 0.1  # share of words by which a threshold is chosen


@dataclass(frozen=True)
class Hidden:
    """A window of a text with one word hidden."""

    text: int
    ids: npt.NDArray[np.int64]  # with [CLS] and [SEP]
    at: npt.NDArray[np.int64]  # where in the window its pieces stand
    pieces: npt.NDArray[np.int64]  # which pieces of the text these are
    tokens: npt.NDArray[np.int64]  # what stood there


def detect_by(loaded: Loaded, texts: Iterable[str], *, threshold: float | None = None) -> Iterator[Detection]:
    """Judge texts by a discriminator or by a masked language model, whichever this is."""
    by = detect_by_naming if loaded.kind == "generator" else detect
    return by(loaded, texts, threshold=threshold)


def detect_by_naming(
    loaded: Loaded, texts: Iterable[str], *, threshold: float | None = None, overlap: float = OVERLAP
) -> Iterator[Detection]:
    """Judge texts, in their order, by a masked language model.

    P(replaced) is the posterior, from even odds, that a word was drawn from the vocabulary at random and not
    from the model: by the mean over its pieces of log p(piece | the text with the word hidden).
    """
    if loaded.kind != "generator":
        what = f"a masked language model is needed, and this is {NEEDS.get(loaded.kind, 'an encoder')}"
        raise ModelError(what, where=loaded.folder)
    threshold = loaded.threshold if threshold is None else threshold
    if not 0 <= threshold <= 1:
        raise ConfigError(f"must be a probability from 0 to 1, not {threshold}", key="threshold")
    source = iter(texts)
    while chunk := list(islice(source, TEXTS_AT_ONCE)):
        pieces = [split(loaded.tokenizer, text) for text in chunk]
        rows = (row for number, piece in enumerate(pieces) for row in _hide(loaded, number, piece, overlap))
        scores = [np.zeros(len(piece.ids)) for piece in pieces]
        for row, surprise in _surprise(loaded, rows):
            scores[row.text][row.pieces] = _posterior(surprise.mean(), loaded.tokenizer.vocab_size)
        for text, piece, values in zip(chunk, pieces, scores, strict=True):
            yield assemble(text, piece, values, threshold)


def plant(
    tokenizer: Tokenizer, texts: Sequence[str], *, share: float = PLANTED, seed: int = 0
) -> list[tuple[str, set[int]]]:
    """The texts with a share of their words replaced by words drawn from all of them, and where in the new
    text these begin. Punctuation stays, since a word in its place could join its neighbour.
    """
    draw = np.random.default_rng(seed)
    judged = []
    for text in texts:
        pieces = split(tokenizer, text)
        spans = assemble(text, pieces, np.zeros(len(pieces.ids)), 1.0).words
        judged.append([word for word in spans if word.text.isalnum()])
    drawn_from = [word.text for words in judged for word in words]
    planted = []
    for text, words in zip(texts, judged, strict=True):
        made, at, starts = "", 0, set()
        for word in words:
            made += text[at : word.start]
            other = word.text
            if draw.random() < share:
                other = drawn_from[draw.integers(len(drawn_from))]
            if other != word.text:
                starts.add(len(made))
            made, at = made + other, word.end
        planted.append((made + text[at:], starts))
    return planted


def _words(pieces: Pieces, start: int, stop: int) -> Iterator[list[int]]:
    """The pieces of each word; one that belongs to none is alone."""
    for _, members in groupby(
        range(start, stop), key=lambda i: i if pieces.words[i] is None else (pieces.words[i],)
    ):
        yield list(members)


def _hide(loaded: Loaded, number: int, pieces: Pieces, overlap: float) -> Iterator[Hidden]:
    specials, size = loaded.tokenizer.specials, loaded.config.max_positions - 2
    for start, stop, keep_from, keep_to in cut(len(pieces.ids), size, int(size * overlap)):
        for members in _words(pieces, keep_from, keep_to):
            word = np.array(members)
            ids = np.array([specials.cls, *pieces.ids[start:stop], specials.sep])
            at = word - start + 1
            tokens = ids[at].copy()
            ids[at] = specials.mask
            yield Hidden(number, ids, at, word, tokens)


def tokens_read(
    loaded: Loaded, texts: Iterable[str], overlap: float = OVERLAP, most: float = math.inf
) -> int:
    """How many tokens `detect_by_naming` reads: a text as often as it has words. It stops counting
    above `most`.
    """
    count, size = 0, loaded.config.max_positions - 2
    for pieces in (split(loaded.tokenizer, text) for text in texts):
        for start, stop, keep_from, keep_to in cut(len(pieces.ids), size, int(size * overlap)):
            count += (stop - start + 2) * sum(1 for _ in _words(pieces, keep_from, keep_to))
        if count > most:
            break
    return count


def _surprise(loaded: Loaded, rows: Iterable[Hidden]) -> Iterator[tuple[Hidden, npt.NDArray[np.float64]]]:
    """The rows, each with -log p of its hidden pieces. Long texts have thousands: few are held at a time."""
    held: dict[int, Hidden] = {}

    def ids() -> Iterator[npt.NDArray[np.int64]]:
        for number, row in enumerate(rows):
            held[number] = row
            yield row.ids

    def network(one: Pass) -> list[npt.NDArray[np.float64]]:
        hidden = loaded.encoder(one.input_ids, piece_ids=one.piece_ids)
        found = []
        for states, index in zip(hidden, one.index, strict=True):
            row = held[int(index)]
            log_p = wide(loaded.token_logits(states[row.at])).log_softmax(-1).cpu().numpy()
            found.append(-log_p[np.arange(len(row.at)), row.tokens])
        return found

    found = read(ids(), network, loaded.device, pad=loaded.tokenizer.specials.pad)
    for number, surprise in enumerate(found):
        yield held.pop(number), surprise


def _posterior(surprise: float, vocab_size: int) -> float:
    odds = np.exp(min(surprise, 700.0)) / vocab_size
    return float(odds / (1 + odds))
