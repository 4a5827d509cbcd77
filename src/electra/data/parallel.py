"""Encoding on all cores, with the results in the order of the input."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from electra.data.tokenizer import Tokenizer
from electra.errors import RunFailed


class Encoded(NamedTuple):
    """A chunk of documents as ids."""

    ids: npt.NDArray[np.unsignedinteger[Any]]  # of all documents, back to back
    sizes: npt.NDArray[np.int64]  # of each document; some may have no token at all
    characters: npt.NDArray[np.int64]  # of each document
    words: npt.NDArray[np.int64]  # of each document, separated by white space


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> Encoded:
    arrays = tokenizer.encode_corpus(texts)
    sizes = np.array([len(array) for array in arrays], dtype=np.int64)
    raw = [text.encode(errors="replace") for text in texts]
    content = np.frombuffer(b"\n".join([b"", *raw, b""]), dtype=np.uint8)
    written = content > ord(" ")
    begins = written[1:] & ~written[:-1]  # of a word
    first = np.cumsum([0, *(len(text) + 1 for text in raw[:-1])])  # of each document
    words = np.add.reduceat(begins, first, dtype=np.int64)
    return Encoded(
        np.concatenate(arrays), sizes, np.array([len(text) for text in texts], dtype=np.int64), words
    )


def encode_in_order(chunks: Iterable[list[str]], tokenizer: Tokenizer, workers: int) -> Iterator[Encoded]:
    """Encode chunks of texts, a few at any time; little text, or one worker, takes no processes."""
    coming = iter(chunks)
    first = list(islice(coming, 3))
    if workers < 2 or len(first) < 3:
        yield from (encode(tokenizer, chunk) for chunk in chain(first, coming))
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks
    with ProcessPoolExecutor(
        workers, context, _start_worker, (tokenizer.definition, tokenizer.names)
    ) as pool:
        under_way: deque[Future[Encoded]] = deque()
        try:
            for chunk in chain(first, coming):
                under_way.append(pool.submit(_encode_here, chunk))
                if len(under_way) > 2 * workers:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        except BrokenProcessPool:
            raise RunFailed(
                "an encoding process was killed",
                fix="If memory ran out, use fewer `workers`",
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


_tokenizer: Tokenizer  # of a worker process


def _start_worker(definition: str, names: dict[str, str]) -> None:
    global _tokenizer  # noqa: PLW0603
    # Ctrl-C reaches the whole group; the main process ends the workers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are the parallelism
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _tokenizer = Tokenizer(definition, names)


def _end_with_parent() -> None:
    """A main process that is killed takes its workers with it: their queues would never tell them."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _encode_here(texts: list[str]) -> Encoded:
    return encode(_tokenizer, texts)
