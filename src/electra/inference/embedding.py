"""One vector of each text, pooled of its tokens' last hidden states as the model's folder says.

A text longer than the model's positions is read in overlapping windows, as in detection: each token counts
once, where it stands farthest from a cut edge; [CLS] is that of the first window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from electra.artifacts.model import Pooling
from electra.exchange.load import Loaded
from electra.exchange.pooling import PooledText, TextVector
from electra.foundation.arrays import Vectors
from electra.foundation.config import convert
from electra.inference.detection import TEXTS_AT_ONCE, cut, split
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

    pooling: "mean" over all tokens, special ones included, their "max", the "last" token's or "cls"; None:
        what the model's folder says, with all that sentence-transformers does before and after pooling.
    progress: told the share that is done.
    """
    given = convert(Pooling | None, pooling, "pooling")
    way = loaded.text_vector if given is None else loaded.text_vector.with_pooling(given)
    if given is None and loaded.kind == "classifier":
        way = TextVector((loaded.pooling,))
    vectors: list[Vectors] = []
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        chunk = texts[start : start + TEXTS_AT_ONCE]
        vectors.append(way.apply(_of_chunk(loaded, chunk, way, overlap)).astype(np.float32))
        progress((start + len(chunk)) / len(texts))
    size = len(way.apply(np.zeros((1, loaded.config.hidden_size * len(way.modes))))[0])
    return np.concatenate(vectors) if vectors else np.zeros((0, size), np.float32)


def _of_chunk(
    loaded: Loaded, texts: Sequence[str], way: TextVector, overlap: float
) -> npt.NDArray[np.float64]:
    specials, size = loaded.tokenizer.specials, loaded.config.max_positions - 2
    rows: list[npt.NDArray[np.int64]] = []
    parts: list[tuple[int, int, int, int]] = []  # of each row: its text, tokens before, which positions count
    for number, text in enumerate(texts):
        whole = way.prompt + text
        ids = split(loaded.tokenizer, whole.lower() if way.lowercase else whole).ids
        if way.max_length is not None:
            room = min(way.max_length - 2, size)
            ids = ids[-room:] if way.keep_end else ids[:room]
        windows = cut(len(ids), size, int(size * overlap)) or [(0, 0, 0, 0)]
        for index, (start, stop, keep_from, keep_to) in enumerate(windows):
            first, last = index == 0, index == len(windows) - 1
            rows.append(np.array([specials.cls, *ids[start:stop], specials.sep], np.int64))
            before = keep_from + (not first)
            parts.append((number, before, keep_from - start + (not first), keep_to - start + 1 + last))

    def pooled(one: Pass) -> list[PooledText]:
        hidden_BTD = loaded.encoder(one.input_ids, piece_ids=one.piece_ids).cpu().double().numpy()
        return [
            PooledText(way.modes, hidden_TD[begin:end], before)
            for hidden_TD, (_, before, begin, end) in zip(
                hidden_BTD, (parts[row] for row in one.index), strict=True
            )
        ]

    by_text: dict[int, PooledText] = {}
    for (number, *_), window in zip(parts, read(rows, pooled, loaded.device, pad=specials.pad), strict=True):
        if number in by_text:
            by_text[number].join(window)
        else:
            by_text[number] = window
    return np.array([by_text[number].vector() for number in range(len(texts))])
