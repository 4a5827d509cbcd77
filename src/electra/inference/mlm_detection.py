"""Detection by a masked language model: each word is masked in turn and scored by its probability in context.

A discriminator scores a whole text in one pass, but it seldom flags a rare word, because the generator whose
samples it was trained on seldom draws one. A masked language model must read the text once per word, and
flags any word that does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from electra.data.tokenizer import Tokenizer
from electra.exchange.load import KIND_PHRASES, Loaded
from electra.foundation.errors import ModelError
from electra.inference.detection import (
    Detection,
    TokenizedText,
    build_detection,
    checked_threshold,
    detect,
    overlapping_windows,
    tokenize,
)
from electra.model.passes import PaddedBatch, map_rows
from electra.model.precision import to_float64

TEXTS_PER_CHUNK = 16  # texts scored together; each of their words is a row
INSERTED_SHARE = 0.1  # fraction of words to replace when a threshold is chosen


@dataclass(frozen=True)
class MaskedWord:
    """A window of a text with one word masked."""

    text_index: int  # index of the text
    ids: npt.NDArray[np.int64]  # ids in the window, with [CLS] and [SEP]
    positions: npt.NDArray[np.int64]  # positions of the word's tokens in the window
    text_positions: npt.NDArray[np.int64]  # positions of the word's tokens in the text
    tokens: npt.NDArray[np.int64]  # the word's ids before masking


def detect_with(
    loaded: Loaded, texts: Iterable[str], *, threshold: float | None = None
) -> Iterator[Detection]:
    """Yields the detection of each text, by `detect_by_mlm` if the model is a generator, else by `detect`."""
    method = detect_by_mlm if loaded.kind == "generator" else detect
    return method(loaded, texts, threshold=threshold)


def detect_by_mlm(
    loaded: Loaded, texts: Iterable[str], *, threshold: float | None = None
) -> Iterator[Detection]:
    """Yields the detection of each text, in order, by a masked language model.

    P(replaced) is the posterior probability, with even prior odds, that a word was drawn uniformly from the
    vocabulary rather than from the model. The word's log-likelihood under the model is the mean over its
    tokens of log p(token | the text with the word masked).

    Raises:
        ConfigError: the threshold is not a probability.
        ModelError: the model is not a masked language model.
    """
    if loaded.kind != "generator":
        raise ModelError(
            f"this is {KIND_PHRASES.get(loaded.kind, 'an encoder')}, not a masked language model",
            where=loaded.folder,
        )
    threshold = checked_threshold(loaded, threshold)
    source = iter(texts)
    while chunk := list(islice(source, TEXTS_PER_CHUNK)):
        tokenized = [tokenize(loaded.tokenizer, text) for text in chunk]
        rows = (row for index, tokens in enumerate(tokenized) for row in _mask_words(loaded, index, tokens))
        scores = [np.zeros(len(tokens.ids)) for tokens in tokenized]
        for row, surprisal in _surprisal(loaded, rows):
            odds = np.exp(min(surprisal.mean(), 700.0)) / loaded.tokenizer.vocab_size
            scores[row.text_index][row.text_positions] = odds / (1 + odds)
        for text, tokens, values in zip(chunk, tokenized, scores, strict=True):
            yield build_detection(text, tokens, values, threshold)


def insert_wrong_words(
    tokenizer: Tokenizer, texts: Sequence[str], *, share: float = INSERTED_SHARE
) -> list[tuple[str, set[int]]]:
    """Replaces each word, with probability `share`, by a word drawn from all the texts.

    Punctuation stays, because a word in its place could merge with its neighbour. A word for which the same
    word is drawn does not count as replaced.

    Returns:
        For each text, the changed text and the offsets in it at which replaced words begin.
    """
    rng = np.random.default_rng(0)
    words_of_texts = []
    for text in texts:
        tokens = tokenize(tokenizer, text)
        spans = build_detection(text, tokens, np.zeros(len(tokens.ids)), 1.0).words
        words_of_texts.append([word for word in spans if word.text.isalnum()])
    pool = [word.text for words in words_of_texts for word in words]
    changed_texts = []
    for text, words in zip(texts, words_of_texts, strict=True):
        new_text, position, starts = "", 0, set()
        for word in words:
            new_text += text[position : word.start]
            new_word = word.text
            if rng.random() < share:
                new_word = pool[rng.integers(len(pool))]
            if new_word != word.text:
                starts.add(len(new_text))
            new_text, position = new_text + new_word, word.end
        changed_texts.append((new_text + text[position:], starts))
    return changed_texts


def _mask_words(loaded: Loaded, text_index: int, tokenized: TokenizedText) -> Iterator[MaskedWord]:
    specials, size = loaded.tokenizer.specials, loaded.config.max_positions - 2
    windows = overlapping_windows(len(tokenized.ids), size)
    for start, stop, keep_from, keep_to in windows:
        for members in tokenized.word_tokens(keep_from, keep_to):
            word = np.array(members)
            ids = np.array([specials.cls, *tokenized.ids[start:stop], specials.sep])
            positions = word - start + 1
            tokens = ids[positions].copy()
            ids[positions] = specials.mask
            yield MaskedWord(text_index, ids, positions, word, tokens)


def _surprisal(
    loaded: Loaded, rows: Iterable[MaskedWord]
) -> Iterator[tuple[MaskedWord, npt.NDArray[np.float64]]]:
    """Yields each row with -log p of its masked tokens. Only a few rows are in memory at a time."""
    pending: dict[int, MaskedWord] = {}

    def ids() -> Iterator[npt.NDArray[np.int64]]:
        for index, row in enumerate(rows):
            pending[index] = row
            yield row.ids

    def network(batch: PaddedBatch) -> list[npt.NDArray[np.float64]]:
        hidden_BTD = loaded.encoder(batch.input_ids, document_ids=batch.document_ids)
        surprisals = []
        for hidden_TD, index in zip(hidden_BTD, batch.index, strict=True):
            row = pending[int(index)]
            log_p = to_float64(loaded.token_logits(hidden_TD[row.positions])).log_softmax(-1).cpu().numpy()
            surprisals.append(-log_p[np.arange(len(row.tokens)), row.tokens])
        return surprisals

    outputs = map_rows(ids(), network, loaded.device, pad=loaded.tokenizer.specials.pad)
    for index, surprisal in enumerate(outputs):
        yield pending.pop(index), surprisal
