"""Rows made ready ahead of their update are the rows of that update."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch

from electra.data import chunks
from electra.data.chunks import ChunkedTokens
from electra.data.store import TokenDocuments
from electra.testing import toy
from electra.training.distributed import World
from electra.training.loop import update
from electra.training.prefetching import Prefetcher
from electra.training.start import start


def test_prefetched_rows_equal_those_made_on_demand() -> None:
    main, objective = threading.current_thread().name, toy.objective("rtd")
    for prefetch in (False, True):
        calls: list[tuple[int, str]] = []
        prefetcher, total = Prefetcher(), 4

        def make(step: int) -> list[Any]:
            calls.append((step, threading.current_thread().name))  # noqa: B023
            return [objective.corrupt(toy.batches().batch(step, 4), 3, step / total)]  # noqa: B023

        for step in range(4):
            if step == 2:
                total = 8  # a re-estimated time budget changes the progress too
            [part] = prefetcher.get(step, total, make, prefetch)
            expected = objective.corrupt(toy.batches().batch(step, 4), 3, step / total)
            assert torch.equal(part.masked_ids, expected.masked_ids)
            assert torch.equal(part.uniforms, expected.uniforms)
        assert {step for step, thread in calls if thread != main} <= ({1, 2, 3, 4} if prefetch else set())
        assert [step for step, thread in calls if thread == main] == ([0, 2] if prefetch else [0, 1, 2, 3])


def test_chunks_are_fetched_before_the_update_that_needs_them(
    tmp_path: Path,
) -> None:
    """Also where the rows are otherwise made on demand: training computes while they are in transfer."""
    local, size = toy.store(), 64
    content = local.train.tokens.tobytes()
    parts = [content[first : first + size] for first in range(0, len(content), size)]
    (tmp_path / "chunks").mkdir()
    for number, part in enumerate(parts):
        (tmp_path / "chunks" / chunks.chunk_name(number)).write_bytes(part)
    tokens = ChunkedTokens(
        f"file://{tmp_path}",
        tmp_path / "cache",
        [hashlib.sha256(part).hexdigest() for part in parts],
        chunk_bytes=size,
        tokens=len(local.train.tokens),
        dtype=local.train.tokens.dtype,
        limit=10 * size,
    )
    store = replace(local, train=TokenDocuments(cast("Any", tokens), local.train.ends))
    with start(toy.recipe(), tmp_path / "run", store, World()) as run:
        update(run)
        pending = run.prefetcher._next
        assert pending is not None and pending[1].result(timeout=30)  # the next rows are on their way
        assert pending[0] == (1, (run.total_steps, run.training.batch_size))
