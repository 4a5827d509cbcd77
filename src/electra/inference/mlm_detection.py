"""Detection by a masked language model: each word is masked in turn and scored by its probability in context.

A discriminator scores a whole text in one pass, but it seldom flags a rare word, because the generator whose
samples it was trained on seldom draws one. A masked language model must read the text once per word, and
flags any word that does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from electra.data.tokenizer import Tokenizer
from electra.exchange.load import KIND_PHRASES, Loaded
from electra.foundation.errors import ModelError
from electra.foundation.progress import doing
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


def detect_with(
    loaded: Loaded, texts: Iterable[str], *, threshold: float | None = None
) -> Iterator[Detection]:
    """Yields the detection of each text, by `detect_by_mlm` if the model is a generator, else by `detect`."""
    method = detect_by_mlm if loaded.kind == "generator" else detect
    doing("detecting")
    for number, detection in enumerate(method(loaded, texts, threshold=threshold), 1):
        yield detection
        doing(f"detecting: {number:,} texts done")


def detect_by_mlm(
    loaded: Loaded, texts: Iterable[str], *, threshold: float | None = None
) -> Iterator[Detection]:
    """Yields the detection of each text, in order, by a masked language model (ModelError: it is none).

    P(replaced) is the posterior probability, with even prior odds, that a word was drawn uniformly from the
    vocabulary rather than from the model. The word's log-likelihood under the model is the mean over its
    tokens of log p(token | the text with the word masked).
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
        scores = [np.zeros(len(tokens.ids)) for tokens in tokenized]
        for text_index, positions, surprisal in _surprisals(loaded, tokenized):
            odds = np.exp(min(surprisal, 700.0)) / loaded.tokenizer.vocab_size
            scores[text_index][positions] = odds / (1 + odds)
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


def _surprisals(
    loaded: Loaded, texts: Sequence[TokenizedText]
) -> Iterator[tuple[int, npt.NDArray[np.int64], float]]:
    """Yields the text, the positions and the mean of -log p of each word, masked in a row of its own."""
    specials, size = loaded.tokenizer.specials, loaded.config.max_positions - 2
    pending: dict[int, tuple[int, npt.NDArray[np.int64], int]] = {}  # few rows are in memory at a time

    def rows() -> Iterator[npt.NDArray[np.int64]]:
        count = 0
        for text_index, text in enumerate(texts):
            for start, stop, keep_from, keep_to in overlapping_windows(len(text.ids), size):
                for members in text.word_tokens(keep_from, keep_to):
                    row = np.array([specials.cls, *text.ids[start:stop], specials.sep])
                    row[np.array(members) - start + 1] = specials.mask
                    pending[count] = text_index, np.array(members), start
                    count += 1
                    yield row

    def network(batch: PaddedBatch) -> list[float]:
        hidden_BTD = loaded.encoder(batch.input_ids, document_ids=batch.document_ids)
        surprisals = []
        for hidden_TD, row in zip(hidden_BTD, batch.index, strict=True):
            text_index, positions, start = pending[int(row)]
            logits = to_float64(loaded.token_logits(hidden_TD[positions - start + 1]))
            log_p = logits.log_softmax(-1).cpu().numpy()
            tokens = texts[text_index].ids[positions]
            surprisals.append(-log_p[np.arange(len(tokens)), tokens].mean())
        return surprisals

    for row, surprisal in enumerate(map_rows(rows(), network, loaded.device, pad=specials.pad)):
        text_index, positions, _ = pending.pop(row)
        yield text_index, positions, surprisal
