"""Encodes texts on all cores, with the results in the order of the input."""

import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from electra.data.corpus.tokenizer import Tokenizer
from electra.foundation.errors import RunFailed
from electra.foundation.signals import end_with_parent
from electra.foundation.threads import VARIABLES


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
    characters = np.array([len(text) for text in texts], dtype=np.int64)
    words = np.array([len(text.encode(errors="replace").split()) for text in texts], dtype=np.int64)
    return Encoded(np.concatenate(arrays), sizes, characters, words)


def encode_in_order(chunks: Iterable[list[str]], tokenizer: Tokenizer, workers: int) -> Iterator[Encoded]:
    """Encodes chunks of texts as they come, in child processes unless there is little text or one worker.

    Raises RunFailed if a process was killed, and TokenizerError if the tokenizer failed on a text.
    """
    remaining = iter(chunks)
    first_chunks = list(islice(remaining, 3))
    if workers < 2 or len(first_chunks) < 3:
        yield from (encode(tokenizer, chunk) for chunk in chain(first_chunks, remaining))
        return
    arguments = tokenizer.definition, tokenizer.names, os.getpid()
    pool = _process_pool(workers, initializer=_load, initargs=arguments)
    pending: deque[Future[Encoded]] = deque()
    try:
        for chunk in chain(first_chunks, remaining):
            pending.append(pool.submit(_encode, chunk))
            if len(pending) > 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenExecutor:
        fix = "If memory ran out, use fewer `workers`"
        raise RunFailed("encoding failed: a process was killed", fix=fix) from None
    finally:
        pool.shutdown(kill_workers=True)


def _process_pool(workers: int, **options: Any) -> Any:
    """Returns joblib's executor (`options`: of loky), which imports nothing from the working directory."""
    from multiprocessing import resource_tracker

    from joblib.externals.loky import ProcessPoolExecutor
    from joblib.externals.loky.backend.resource_tracker import ensure_running

    folders = map(os.path.abspath, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    safe = {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(f for f in folders if f in sys.path)}
    previous = {name: os.environ.get(name) for name in safe}
    os.environ.update(safe)  # for the trackers of their resources, which are processes too
    try:
        resource_tracker.ensure_running()
        ensure_running()
        return ProcessPoolExecutor(workers, env={**dict.fromkeys(VARIABLES, "1"), **safe}, **options)
    finally:
        for name, value in previous.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


_tokenizer: Tokenizer  # of a child process


def _load(definition: str, names: dict[str, str], parent: int) -> None:
    global _tokenizer  # noqa: PLW0603
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are parallel already
    _tokenizer = Tokenizer(definition, names)
    end_with_parent(parent)


def _encode(texts: Sequence[str]) -> Encoded:
    return encode(_tokenizer, texts)
