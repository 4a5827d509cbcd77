"""Corpus text to ids at several times the speed of the library, with identical ids.

In BERT's pipeline (clean, normalise, split, WordPiece) nothing looks across white space, so the ids of a text are the ids of its
space-separated chunks in a row, and chunks recur: their ids are kept in a dictionary. The chunks are cut at the four characters
that the cleaner turns into space and never deletes (Python's own idea of white space includes control characters, which BERT deletes).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers

from electra.data.store import id_dtype

_REMEMBERED = 500_000  # chunks; some 100 MB
_LONG = 200  # characters of a chunk that is not worth remembering


class CorpusEncoder:
    def __init__(self, raw: tokenizers.Tokenizer, definition: dict[str, Any], vocab_size: int) -> None:
        self._raw = raw
        self._dtype = id_dtype(vocab_size)
        self._by_chunk = (
            definition["model"]["type"] == "WordPiece"
            and (definition["normalizer"] or {}).get("type") == "BertNormalizer"
            and (definition["pre_tokenizer"] or {}).get("type") == "BertPreTokenizer"
            and all(token["special"] for token in definition["added_tokens"])
        )
        self._known: dict[str, bytes] = {"": b""}

    def __call__(self, texts: Sequence[str]) -> list[npt.NDArray[np.unsignedinteger[Any]]]:
        if not self._by_chunk:
            encodings = self._raw.encode_batch_fast(list(texts), add_special_tokens=False)
            return [np.array(encoding.ids, dtype=self._dtype) for encoding in encodings]
        chunks = [text.replace("\n", " ").replace("\t", " ").replace("\r", " ").split(" ") for text in texts]
        new = list(set().union(*chunks).difference(self._known))
        if len(self._known) + len(new) > _REMEMBERED:
            self._known = {"": b""}
            new = list(set().union(*chunks).difference(self._known))
        for chunk, encoding in zip(new, self._raw.encode_batch_fast(new, add_special_tokens=False), strict=True):
            self._known[chunk] = np.array(encoding.ids, dtype=self._dtype).tobytes()
        look_up = self._known.__getitem__
        encoded = [np.frombuffer(b"".join(map(look_up, row)), dtype=self._dtype) for row in chunks]
        for chunk in new:
            if len(chunk) > _LONG:
                del self._known[chunk]
        return encoded
