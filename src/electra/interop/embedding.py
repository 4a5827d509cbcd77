"""One vector of each text: the mean of its tokens' last hidden states, or the one at [CLS].

A text longer than the model's positions is read in overlapping windows, as in detection: each token counts
once, where it stands farthest from a cut edge; [CLS] is that of the first window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from electra.arrays import Vectors
from electra.config import convert
from electra.interop.detection import TEXTS_AT_ONCE, cut, split
from electra.interop.load import Loaded
from electra.interop.pooling import Pooling
from electra.model.passes import Pass, read


def embed(
    loaded: Loaded,
    texts: Sequence[str],
    pooling: Pooling | None = None,
    *,
    overlap: float = 0.25,
    progress: Callable[[float], None] = lambda share: None,
) -> Vectors:
    """float32 [N, D] of N texts, in their order.

    pooling: "mean" over all tokens, special ones included, or "cls"; None: what the model says.
    progress: told the share that is done.
    """
    pooling = convert(Pooling | None, pooling, "pooling") or loaded.pooling
    vectors = np.zeros((len(texts), loaded.config.hidden_size), np.float32)
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        chunk = texts[start : start + TEXTS_AT_ONCE]
        vectors[start : start + len(chunk)] = _of_chunk(loaded, chunk, pooling, overlap)
        progress((start + len(chunk)) / len(texts))
    return vectors


def _of_chunk(
    loaded: Loaded, texts: Sequence[str], pooling: Pooling, overlap: float
) -> npt.NDArray[np.float64]:
    specials, size = loaded.tokenizer.specials, loaded.config.max_positions - 2
    rows: list[npt.NDArray[np.int64]] = []
    parts: list[tuple[int, int, int]] = []  # of each row: its text, and which of its positions count there
    for number, text in enumerate(texts):
        ids = split(loaded.tokenizer, text).ids
        windows = cut(len(ids), size, int(size * overlap)) or [(0, 0, 0, 0)]
        for index, (start, stop, keep_from, keep_to) in enumerate(windows):
            first, last = index == 0, index == len(windows) - 1
            rows.append(np.array([specials.cls, *ids[start:stop], specials.sep], np.int64))
            begin, end = keep_from - start + (not first), keep_to - start + 1 + last
            parts.append((number, begin, end) if pooling == "mean" else (number, 0, int(first)))

    def summed(one: Pass) -> list[npt.NDArray[np.float64]]:
        hidden_BTD = loaded.encoder(one.input_ids, piece_ids=one.piece_ids).double().cpu().numpy()
        spans = (parts[row] for row in one.index)
        return [
            hidden_TD[begin:end].sum(0) for hidden_TD, (_, begin, end) in zip(hidden_BTD, spans, strict=True)
        ]

    sums = np.zeros((len(texts), loaded.config.hidden_size))
    counts = np.zeros((len(texts), 1))
    for (number, begin, end), total in zip(
        parts, read(rows, summed, loaded.device, pad=specials.pad), strict=True
    ):
        sums[number] += total
        counts[number] += end - begin
    return sums / np.maximum(counts, 1)
