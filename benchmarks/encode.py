"""Compares the speed of preparing a token store with that of a plain loop over the tokenizers library.

    python benchmarks/encode.py [CORPUS] [--tokenizer DIR] [--vocab-size N] [--rounds N] [--workers N]

The two sides take turns, with the same documents and tokenizer. The plain side calls `encode_batch` on a
hundred documents at a time, with the library's own threads on all cores, and appends the ids to a file. Ours
builds the whole store, with duplicates, held-out documents, hashes and audit. The ids are compared. The
assembly of a batch of 128 rows of 128 is timed, too. The last line of output is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import tokenizers

from electra.data.corpus.batches import Batches
from electra.data.corpus.documents import Documents
from electra.data.corpus.encoding import id_dtype
from electra.data.corpus.store import TokenStore
from electra.data.corpus.store_builder import build_store
from electra.data.corpus.tokenizer import Tokenizer
from electra.data.text_settings import CorpusConfig, TokenizerConfig


def cpu_seconds() -> float:
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Returns the wall-clock and processor seconds of `work`."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    work()
    return time.perf_counter() - wall, cpu_seconds() - cpu


def plain(corpus: str, tokenizer: Tokenizer, out: Path) -> None:
    raw = tokenizers.Tokenizer.from_str(tokenizer.definition)
    texts = [document.text.strip() for document in Documents([corpus], CorpusConfig(), out.parent)]
    ends = []
    with open(out, "wb") as file:
        for first in range(0, len(texts), 100):
            for encoding in raw.encode_batch(texts[first : first + 100], add_special_tokens=False):
                file.write(np.array(encoding.ids, dtype=id_dtype(tokenizer.vocab_size)).data)
                ends.append(len(encoding.ids))
    np.cumsum(ends).astype("<u8").tofile(f"{out}.index")


def same_ids(store: TokenStore, file: Path) -> bool:
    """Whether each document of the plain side is the next one in a split of the store, or a duplicate."""
    tokens, ends = (
        np.fromfile(file, dtype=store.train.tokens.dtype),
        np.fromfile(f"{file}.index", dtype="<u8").astype(np.int64),
    )
    positions = {"train": 0, "heldout": 0}
    distinct = set()
    for ids in np.split(tokens, ends[:-1]):
        for split, position in positions.items():
            documents = getattr(store, split)
            if position < documents.num_documents and np.array_equal(documents.document(position), ids):
                positions[split] += 1
                break
        else:
            if ids.tobytes() not in distinct:
                return False
        distinct.add(ids.tobytes())
    return all(position == getattr(store, split).num_documents for split, position in positions.items())


def default_corpus() -> str:
    beside = Path(__file__).parents[2] / "shared" / "data"
    shard = Path(os.environ.get("ELECTRA_TEST_DATA") or beside) / "corpora" / "enwiki-2015.0.jsonl.zst"
    return str(shard) if shard.exists() else "python-docs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "corpus",
        nargs="?",
        default=default_corpus(),
        help="default: a shard of enwiki-2015 if it is available, else python-docs",
    )
    parser.add_argument("--tokenizer", help="a tokenizer folder (default: train one on the corpus)")
    parser.add_argument("--vocab-size", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if options.tokenizer:
            tokenizer = Tokenizer.load(options.tokenizer)
        else:
            config = TokenizerConfig(vocab_size=options.vocab_size, sample_mb=10)
            tokenizer = build_store([options.corpus], config, work / "first").tokenizer
        rounds = []
        for number in range(options.rounds):
            out = work / f"store{number}"
            reference = timed(lambda: plain(options.corpus, tokenizer, work / "plain.ds"))
            build = partial(build_store, [options.corpus], tokenizer, out, workers=options.workers)
            ours = timed(build)
            rounds.append((reference, ours))
            print(
                f"round {number + 1}: plain {reference[0]:.2f} s ({reference[1]:.2f} cpu),"
                f" store {ours[0]:.2f} s"
                f" ({ours[1]:.2f} cpu)",
                file=sys.stderr,
            )
        store = TokenStore.open(out)
        batches = Batches(store.train, length=128, seed=0, specials=store.specials)
        assembly = min(timed(lambda step=step: batches.batch(step, 128))[0] for step in range(50))  # type: ignore[misc]
        result = {
            "megabytes": round(store.audit["characters"] / 1e6, 1),
            "tokens": store.audit["tokens"],
            "workers": options.workers,
            "identical_ids": same_ids(store, work / "plain.ds"),
            "plain_s": round(statistics.median(reference[0] for reference, _ in rounds), 2),
            "store_s": round(statistics.median(ours[0] for _, ours in rounds), 2),
            "speedup_wall": round(statistics.median(reference[0] / ours[0] for reference, ours in rounds), 2),
            "speedup_cpu": round(statistics.median(reference[1] / ours[1] for reference, ours in rounds), 2),
            "batch_128x128_ms": round(1000 * assembly, 3),
        }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
