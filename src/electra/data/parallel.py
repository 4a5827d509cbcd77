"""Encodes texts on all cores, with the results in the order of the input."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from electra.data.tokenizer import Tokenizer
from electra.foundation import jobs
from electra.foundation.errors import RunFailed


class Encoded(NamedTuple):
    """A chunk of documents as ids."""

    ids: npt.NDArray[np.unsignedinteger[Any]]  # ids of all documents, concatenated
    sizes: npt.NDArray[np.int64]  # tokens of each document, which may be 0
    characters: npt.NDArray[np.int64]  # characters of each document
    words: npt.NDArray[np.int64]  # whitespace-separated words of each document


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> Encoded:
    """Encodes a chunk of one or more texts in this process."""
    arrays = tokenizer.encode_corpus(texts)
    sizes = np.array([len(array) for array in arrays], dtype=np.int64)
    contents = [text.encode(errors="replace") for text in texts]
    content = np.frombuffer(b"\n".join([b"", *contents, b""]), dtype=np.uint8)
    is_word = content > ord(" ")
    begins_word = is_word[1:] & ~is_word[:-1]  # true at the first byte of a word
    starts = np.cumsum([0, *(len(text) + 1 for text in contents[:-1])])  # offset of each document
    words = np.add.reduceat(begins_word, starts, dtype=np.int64)
    return Encoded(
        np.concatenate(arrays), sizes, np.array([len(text) for text in texts], dtype=np.int64), words
    )


def encode_in_order(chunks: Iterable[list[str]], tokenizer: Tokenizer, workers: int) -> Iterator[Encoded]:
    """Encodes chunks of texts as they come, in child processes unless there is little text or one worker.

    Raises:
        RunFailed: a process failed.
        TokenizerError: without child processes, the tokenizer failed on a text.
    """
    remaining = iter(chunks)
    first_chunks = list(islice(remaining, 3))
    if workers < 2 or len(first_chunks) < 3:
        yield from (encode(tokenizer, chunk) for chunk in chain(first_chunks, remaining))
        return
    try:
        yield from jobs.map_in_order(
            _encoder, (tokenizer.definition, tokenizer.names), chain(first_chunks, remaining), workers
        )
    except RunFailed as error:
        fix = "If memory ran out, use fewer `workers`"
        raise RunFailed(f"encoding failed: {error.what}", fix=fix) from None


def _encoder(definition: str, names: dict[str, str]) -> Callable[[Sequence[str]], Encoded]:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes already run in parallel
    return partial(encode, Tokenizer(definition, names))
