"""One vector per text, pooled from the last hidden states of its tokens.

A text with more tokens than the model has positions is read in overlapping windows, as in detection: each
token counts once, in the window where it is farthest from the edge. [CLS] counts in the first window only,
and [SEP] in the last.
"""

from collections.abc import Callable, Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt
import torch

from electra.artifacts.model_files import Pooling
from electra.data.tables.lines import is_blank
from electra.exchange.load import Loaded
from electra.exchange.pooling import Array, TextVector, pooled, reduced
from electra.foundation.arrays import Vectors
from electra.foundation.config import convert
from electra.inference.detection import TEXTS_PER_CHUNK, overlapping_windows, tokenize
from electra.model.passes import PaddedBatch, map_rows
from electra.model.precision import finite


def embed(
    loaded: Loaded,
    texts: Sequence[str],
    pooling: Pooling | None = None,
    *,
    progress: Callable[[float], None] = lambda share: None,
) -> Vectors:
    """Returns the vectors of N texts, float32 [N, D]; NaN for a text without any visible character.

    Raises ConfigError if the pooling is unknown, and RunFailed if a vector is not finite.

    Args:
        loaded: any model with an encoder.
        texts: the texts.
        pooling: "mean" or "max" over all tokens, including [CLS] and [SEP]; the "last" token; or "cls". None:
            as recorded in the model folder, with the steps of sentence-transformers before and after pooling;
            for a classifier, the pooling of its head.
        progress: called with the fraction that is done.
    """
    pooling = convert(Pooling | None, pooling, "pooling")
    recipe = loaded.text_vector if pooling is None else loaded.text_vector.with_pooling(pooling)
    vector_size = len(recipe.apply(np.zeros((1, loaded.config.hidden_size)))[0])
    vectors = np.full((len(texts), vector_size), np.nan, np.float32)
    written = [i for i, text in enumerate(texts) if not is_blank(text)]
    for start in range(0, len(written), TEXTS_PER_CHUNK):
        rows = written[start : start + TEXTS_PER_CHUNK]
        found = recipe.apply(_pool_texts(loaded, [texts[i] for i in rows], recipe))
        vectors[rows] = finite(torch.from_numpy(found).float()).numpy()
        progress((start + len(rows)) / len(written))
    return vectors


def as_json(vector: Vectors) -> list[float] | None:
    """Returns a vector [D] with digits that restore its float32 numbers; None for that of an empty text."""
    return None if np.isnan(vector[0]) else [float(f"{value:.9g}") for value in vector]


def _pool_texts(loaded: Loaded, texts: Sequence[str], recipe: TextVector) -> Array:
    specials, size = loaded.tokenizer.specials, loaded.config.max_positions - 2
    rows: list[npt.NDArray[np.int64]] = []
    # for each row: index of its text, and start and end of the tokens that count in this row
    sources: list[tuple[int, int, int]] = []
    for text_index, text in enumerate(texts):
        prompted_text = recipe.prompt + text
        ids = tokenize(loaded.tokenizer, prompted_text.lower() if recipe.lowercase else prompted_text).ids
        if recipe.max_length is not None:
            room = min(recipe.max_length - 2, size)
            ids = ids[-room:] if recipe.keep_end else ids[:room]
        windows = overlapping_windows(len(ids), size) or [(0, 0, 0, 0)]
        for window_index, (start, stop, keep_from, keep_to) in enumerate(windows):
            is_first, is_last = window_index == 0, window_index == len(windows) - 1
            rows.append(np.array([specials.cls, *ids[start:stop], specials.sep], np.int64))
            sources.append((text_index, keep_from - start + (not is_first), keep_to - start + 1 + is_last))

    def network(batch: PaddedBatch) -> list[tuple[Array, int]]:
        hidden_BTD = loaded.encoder(batch.input_ids, document_ids=batch.document_ids).cpu().double().numpy()
        places = (sources[row] for row in batch.index)
        return [
            reduced(recipe.pooling, hidden_TD[begin:end])
            for hidden_TD, (_, begin, end) in zip(hidden_BTD, places, strict=True)
        ]

    outputs = zip(sources, map_rows(rows, network, loaded.device, pad=specials.pad), strict=True)
    by_text = groupby(outputs, key=lambda output: output[0][0])
    return np.array([pooled(recipe.pooling, [window for _, window in group]) for _, group in by_text])
