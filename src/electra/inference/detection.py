"""Replaced token detection: for each token and word of a text, the probability that it was replaced.

A discriminator scores a text in one pass, but seldom flags a rare word, because the generator whose samples
it was trained on seldom draws one. A masked language model flags any word that does not fit, in six passes
with every sixth word masked, which find as many errors as a pass for each word (results/detection).

Offsets count Unicode code points, as Python's str does: text[start:end] is a token as it stands in the
original text, before lower-casing or any other normalisation, with its combining marks. Texts are never
truncated: a text with more tokens than the model has positions is read in overlapping windows, and each token
is scored in the window where it is farthest from the edge.
"""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from electra.data.tables.lines import is_blank
from electra.data.tables.printed import places_of_letters, without_ligatures
from electra.exchange.configs import LOG_ODDS
from electra.foundation.errors import ConfigError, ModelError
from electra.foundation.progress import advance
from electra.foundation.terminal_text import make_visible
from electra.model.precision import to_float64

if TYPE_CHECKING:
    from rich.text import Text

    from electra.data.corpus.tokenizer import Tokenizer
    from electra.exchange.load import Loaded
    from electra.inference.spellings import Spellings

TEXTS_PER_CHUNK = 128  # tokenised and sorted by length together
MASKED_APART = 6  # words from one masked word to the next
OVERLAP = 0.25  # fraction of a window that the next one repeats
LONGEST = 126  # tokens of a window: the models were trained on rows of 128, and find less in longer ones


class Span(NamedTuple):
    """A token or a word of a text, and the probability that it was replaced."""

    text: str
    """The word as it stands in the text, or the token as the tokenizer displays it (##ing)."""
    start: int
    end: int
    p_replaced: float


@dataclass(frozen=True)
class Candidate:
    """A token for a masked position or a word for a wrong one, and its probability."""

    token: str
    p: float


@dataclass(frozen=True)
class Detection:
    """The scores of a text; words whose P(replaced) is at least `threshold` are marked."""

    text: str
    tokens: tuple[Span, ...]
    """By `both`, a token has its word's probability."""
    words: tuple[Span, ...]
    threshold: float = 0.5
    suggestions: tuple[tuple[Candidate, ...], ...] = ()
    """For each marked word, other words that fit; () if none were asked for."""

    @property
    def score(self) -> float:
        """The mean of -log(1 - P(replaced)) over the words: the higher, the more suspicious the text."""
        p = np.array([word.p_replaced for word in self.words])
        return float(-np.log1p(-np.minimum(p, 1 - 1e-9)).mean()) if len(p) else 0.0

    @property
    def rounded_score(self) -> float | None:
        """The score with 4 significant digits, for files; None if the text has no words."""
        return float(f"{self.score:.4g}") if self.words else None

    @property
    def marked(self) -> tuple[Span, ...]:
        """The words whose P(replaced) is at least `threshold`."""
        return tuple(word for word in self.words if word.p_replaced >= self.threshold)

    def suspects(self, most: int = 3) -> tuple[Span, ...]:
        """Returns the `most` words with the highest P(replaced), highest first, marked or not."""
        return tuple(sorted(self.words, key=lambda word: -word.p_replaced)[:most])

    def for_terminal(self) -> Text:
        """Returns a rich `Text`: marked words in red with their scores, suspicious ones in yellow."""
        from rich.text import Text

        line, position, text = Text(), 0, make_visible(self.text)
        for word in self.words:
            line.append(text[position : word.start])
            source = text[word.start : word.end]
            if word.p_replaced >= self.threshold:
                line.append(f"[{source} {word.p_replaced:.2f}]", style="bold red")
            else:
                line.append(source, style="yellow" if word.p_replaced >= self.threshold / 2 else "")
            position = word.end
        line.append(text[position:])
        return line

    def with_marks(self) -> str:
        """Returns the text with **marked** words."""
        parts, position = [], 0
        for word in self.marked:
            parts += [self.text[position : word.start], f"**{self.text[word.start : word.end]}**"]
            position = word.end
        return "".join(parts) + self.text[position:]

    def to_json(self, all_words: bool = False) -> dict[str, Any]:
        """Returns the JSON data of `electra detect --json` and (with all words) of the server.

        Probabilities have 4 significant digits.
        """
        suggestions = dict(zip(self.marked, self.suggestions, strict=False))
        words = []
        for word in self.words:
            is_marked = word.p_replaced >= self.threshold
            row: dict[str, Any] = {"word": word.text, "start": word.start, "end": word.end}
            row["p_replaced"] = float(f"{word.p_replaced:.4g}")
            if all_words:
                row["replaced"] = is_marked
            if word in suggestions:
                found = suggestions[word]
                row["suggestions"] = [{"word": each.token, "p": float(f"{each.p:.4g}")} for each in found]
            if is_marked or all_words:
                words.append(row)
        return {"text": self.text, "score": self.rounded_score, "threshold": self.threshold, "words": words}


@dataclass(frozen=True)
class TokenizedText:
    """A text's tokens, without special tokens."""

    ids: npt.NDArray[np.int64]
    token_strings: list[str]  # as the tokenizer displays them
    offsets: list[tuple[int, int]]  # start and end in the text
    word_indices: list[int | None]  # index of the token's word; None for a token outside of words
    text: str

    def part(self, members: Sequence[int]) -> str:
        """Returns the text of neighbouring tokens, with the letters of ligatures."""
        return without_ligatures(self.text[self.offsets[members[0]][0] : self.offsets[members[-1]][1]])

    def word_tokens(self, start: int = 0, stop: int | None = None) -> Iterator[list[int]]:
        """Yields the positions of each word's tokens; a token outside of words is a word by itself."""
        words = self.word_indices
        positions = range(start, len(words) if stop is None else stop)
        for _, members in groupby(positions, key=lambda i: i if words[i] is None else (words[i],)):
            yield list(members)


def detect(loaded: Loaded, texts: Iterable[str], *, threshold: float | None = None) -> Iterator[Detection]:
    """Yields the detection of each text, in order; texts are read lazily, `TEXTS_PER_CHUNK` at a time.

    Words are marked from P(replaced) = `threshold` (None: the model's own). By a discriminator, that is its
    probability; by a masked language model, the posterior probability, with even prior odds, that a token was
    drawn uniformly from the vocabulary rather than from the model. A word has the highest of its tokens.
    Raises ConfigError if the threshold is no probability, and ModelError if a discriminator's outputs are
    energies instead of log-odds.
    """
    threshold = checked_threshold(loaded, threshold)
    source = iter(texts)
    while chunk := list(islice(source, TEXTS_PER_CHUNK)):
        tokenized = [tokenize(loaded.tokenizer, text) for text in chunk]
        if loaded.kind == "generator":
            odds = [each[0] - np.log(loaded.tokenizer.vocab_size) for each in surprisals(loaded, tokenized)]
        else:
            odds = log_odds(loaded, tokenized)
        for text, tokens, values in zip(chunk, tokenized, odds, strict=True):
            yield build_detection(text, tokens, probabilities(values), threshold)


def log_odds(loaded: Loaded, texts: Sequence[TokenizedText]) -> list[npt.NDArray[np.float64]]:
    """Returns a discriminator's log-odds that each token [T] of each text was replaced."""
    require_log_odds(loaded)
    from electra.model.passes import PaddedBatch, map_rows

    specials, size = loaded.tokenizer.specials, min(LONGEST, loaded.config.max_positions - 2)
    windows = [
        (index, *window) for index, tokens in enumerate(texts) for window in overlapping_windows(len(tokens.ids), size)
    ]
    rows = (
        np.array([specials.cls, *texts[index].ids[start:stop], specials.sep]) for index, start, stop, _, _ in windows
    )

    def network(batch: PaddedBatch) -> list[npt.NDArray[np.float64]]:
        return batch.unpadded(to_float64(loaded.logits(batch.input_ids, batch.document_ids)))

    scores = [np.zeros(len(tokens.ids)) for tokens in texts]
    outputs = map_rows(rows, network, loaded.device, pad=specials.pad)
    for (index, start, _, keep_from, keep_to), values in zip(windows, outputs, strict=True):
        advance(int(keep_from == 0))
        scores[index][keep_from:keep_to] = values[keep_from - start + 1 : keep_to - start + 1]
    return scores


def surprisals(
    loaded: Loaded, texts: Sequence[TokenizedText], spellings: Spellings | None = None
) -> list[npt.NDArray[np.float64]]:
    """Returns what a masked language model says of each token of each text [2, T].

    Its -log p, with every sixth word masked at a time; and, with `spellings`, how much a near spelling of the
    token's word is expected (`Spellings.expected`), with one mask in place of the word.
    """
    from electra.model.passes import PaddedBatch, map_rows

    specials, size = loaded.tokenizer.specials, min(LONGEST, loaded.config.max_positions - 2)
    scores = [np.zeros((2, len(text.ids))) for text in texts]
    pending: dict[int, tuple[int, list[list[int]], list[str], npt.NDArray[np.int64]]] = {}  # few at a time

    def rows() -> Iterator[npt.NDArray[np.int64]]:
        count = 0
        for text_index, text in enumerate(texts):
            for start, stop, keep_from, keep_to in overlapping_windows(len(text.ids), size):
                for masked, words in _masks(text, list(text.word_tokens(keep_from, keep_to)), spellings):
                    hidden = np.array([members[0] for members in masked]) - start
                    unread = np.array([i for members in masked for i in members[1:]], np.int64) - start
                    row = text.ids[start:stop].copy()
                    row[hidden] = specials.mask
                    positions = hidden - np.searchsorted(unread, hidden) + 1
                    pending[count] = text_index, masked, words, positions
                    count += 1
                    yield np.array([specials.cls, *np.delete(row, unread), specials.sep])

    def network(batch: PaddedBatch) -> list[list[tuple[float, float]]]:
        hidden_BTD = loaded.encoder(batch.input_ids, document_ids=batch.document_ids)
        found = []
        for hidden_TD, row in zip(hidden_BTD, batch.index, strict=True):
            text_index, masked, words, positions = pending[int(row)]
            log_p_MV = to_float64(loaded.token_logits(hidden_TD[positions])).log_softmax(-1).cpu().numpy()
            surprises = -log_p_MV[np.arange(len(masked)), texts[text_index].ids[[i for i, *_ in masked]]]
            expected = [0.0] * len(words)
            if spellings is not None:
                expected = list(map(spellings.expected, words, log_p_MV))
            found.append(list(zip(surprises.tolist(), expected, strict=True)))
        return found

    last = -1
    for row, found in enumerate(map_rows(rows(), network, loaded.device, pad=specials.pad)):
        text_index, masked, _, _ = pending.pop(row)
        advance(MASKED_APART * (text_index - last))
        last = text_index
        for members, (surprise, expected) in zip(masked, found, strict=True):
            if len(members) == 1:
                scores[text_index][0, members] = surprise
            scores[text_index][1, members] = expected
    return scores


def _masks(
    text: TokenizedText, words: list[list[int]], spellings: Spellings | None
) -> Iterator[tuple[list[list[int]], list[str]]]:
    """Yields the tokens behind each mask of a row, and the words that near spellings may replace there."""
    for group in (words[i::MASKED_APART] for i in range(min(MASKED_APART, len(words)))):
        parts = [(text.part(word) if len(word) == 1 else "") for word in group for _ in word]
        yield [[i] for word in group for i in word], parts
    if spellings is not None:
        several = [word for word in words if len(word) > 1 and len(spellings.weighted(text.part(word))[0])]
        for group in (several[i::2] for i in range(min(2, len(several)))):
            yield group, [text.part(word) for word in group]


def probabilities(log_odds: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Returns the logistic function of log-odds."""
    return 1 / (1 + np.exp(-np.clip(log_odds, -700, 700)))


def checked_threshold(loaded: Loaded, threshold: float | None) -> float:
    """Returns the threshold, or the model's own for None. Raises ConfigError if it is not a probability."""
    threshold = loaded.threshold if threshold is None else threshold
    if not 0 <= threshold <= 1:
        raise ConfigError(f"must be a probability from 0 to 1, not {threshold}", key="threshold")
    return threshold


def require_log_odds(loaded: Loaded) -> None:
    """Raises ModelError for an Electric model, whose outputs are energies, not log-odds of replacement."""
    if loaded.output != LOG_ODDS:
        raise ModelError(
            f"this model's outputs are {loaded.output}, not log-odds that a token was replaced",
            where=loaded.folder,
            fix="Use it to score sentences, or pass a discriminator trained with the rtd objective",
        )


def tokenize(tokenizer: Tokenizer, text: str) -> TokenizedText:
    """Tokenises a text of any length, without special tokens; offsets include a token's combining marks.

    A ligature is read as its letters. A text of invisible characters has no tokens.
    """
    if is_blank(text):
        return TokenizedText(np.zeros(0, np.int64), [], [], [], text)
    plain = without_ligatures(text)
    encoding = tokenizer.encode(plain)
    positions = [i for i, special in enumerate(encoding.special) if not special]
    ids = [encoding.ids[i] for i in positions]
    spans = [encoding.offsets[i] for i in positions]
    if len(plain) > len(text):
        places = [*places_of_letters(text), len(text)]
        spans = [(places[start], places[max(start, end - 1)] + (end > start)) for start, end in spans]
    offsets = _whole_characters(text, spans)
    words = _without_punctuation(text, offsets, [encoding.words[i] for i in positions])
    tokens = [tokenizer.readable(i) for i in ids]
    return TokenizedText(np.asarray(ids, np.int64), tokens, offsets, words, text)


def overlapping_windows(length: int, size: int, overlap: int | None = None) -> list[tuple[int, int, int, int]]:
    """Returns windows over `length` tokens, as (start, stop, keep_from, keep_to); [] for no tokens.

    `size` is the maximum length of a window, and `overlap` the number of tokens, fewer than `size`, that it
    shares with the next one (None: `size` times `OVERLAP`). Each window provides the results for tokens
    keep_from to keep_to (exclusive); neighbouring windows split their overlap in half. The last window is as
    long as the others, so that its tokens have as much context.
    """
    overlap = int(size * OVERLAP) if overlap is None else overlap
    if length == 0:
        return []
    starts = list(range(0, max(1, length - overlap), size - overlap))
    starts[-1] = max(0, length - size) if len(starts) > 1 else 0
    borders = [0, *((start + min(before + size, length)) // 2 for before, start in pairwise(starts)), length]
    return [(start, min(start + size, length), borders[i], borders[i + 1]) for i, start in enumerate(starts)]


def build_detection(
    text: str, tokenized: TokenizedText, scores: npt.NDArray[np.float64], threshold: float
) -> Detection:
    """Returns the detection of a text, given each token's P(replaced) [T]; a word has its tokens' maximum."""
    starts, ends = zip(*tokenized.offsets, strict=True) if tokenized.offsets else ((), ())
    tokens = tuple(map(Span, tokenized.token_strings, starts, ends, scores.tolist()))
    words = []
    for members in tokenized.word_tokens():
        start, end = min(starts[i] for i in members), max(ends[i] for i in members)
        words.append(Span(text[start:end], start, end, max(tokens[i].p_replaced for i in members)))
    return Detection(text, tokens, tuple(words), threshold)


def _without_punctuation(
    text: str, offsets: Sequence[tuple[int, int]], words: Sequence[int | None]
) -> list[int | None]:
    """Makes each token of punctuation a word, as in BERT; to SentencePiece, a word is all up to a space."""
    split: list[int | None] = []
    word, was_mark, was_empty = -1, False, False
    for i, (piece, index) in enumerate(zip((text[slice(*span)] for span in offsets), words, strict=True)):
        is_mark = bool(piece) and all(map(_is_punctuation, piece))
        is_edge = (is_mark or was_mark) and not was_empty and offsets[i] != offsets[i - 1]  # bytes share one
        is_new = i == 0 or index != words[i - 1] or is_edge
        word, was_mark, was_empty = word + is_new, is_mark, not piece
        split.append(None if index is None else word)
    return split


def _is_punctuation(character: str) -> bool:
    return character in string.punctuation or unicodedata.category(character).startswith("P")


def _whole_characters(text: str, offsets: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Extends each token over the combining marks after it that no other token covers."""
    if text.isascii():
        return list(offsets)
    covered = {position for start, end in offsets for position in range(start, end)}
    extended = []
    for start, stop in offsets:
        marks = (i for i in range(stop, len(text)) if i in covered or unicodedata.category(text[i]) != "Mn")
        extended.append((start, next(marks, len(text)) if start < stop else stop))
    return extended
