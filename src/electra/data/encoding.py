"""Encodes the text of a corpus many times faster than the `tokenizers` library, with identical ids.

In BERT's pipeline (clean, normalise, split at white space and punctuation, WordPiece), no step looks across
white space or an ASCII punctuation mark. So the ids of a text are the concatenated ids of its words. Words
recur, so their ids are cached, and arrays of words are looked up at once: the UTF-8 bytes of a word of up to
15 bytes, with its length, form a key of 128 bits. Longer and new words are looked up in a dictionary, and
encoded by the library if they are not in it.

White space means the four characters (space, tab, line feed, carriage return) that the cleaner turns into
spaces and never deletes; all other control characters are left to the library.
"""

from __future__ import annotations

import re
import string
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, count, islice
from typing import Any
from unicodedata import normalize

import numpy as np
import numpy.typing as npt
import tokenizers

from electra.data import wordpiece

Ids = npt.NDArray[np.unsignedinteger[Any]]
UInt64 = npt.NDArray[np.uint64]
Int64 = npt.NDArray[np.int64]

# The cache is emptied when it exceeds this many words (about 200 MB) or bytes of words.
_MAX_CACHED, _MAX_CACHED_BYTES = 1_000_000, 1 << 26
_SURROGATES = re.compile("[\ud800-\udfff]")
_SPACE, _MARK, _LETTER = 0, 1, 2
_KINDS = np.full(256, _LETTER, dtype=np.uint8)
_KINDS[list(b" \t\n\r")] = _SPACE
_KINDS[list(string.punctuation.encode())] = _MARK
_LOWER = np.array(list(bytes(range(256)).lower()), dtype=np.uint8)
# Masks that keep the first 0 to 8 bytes of a little-endian integer.
_BYTE_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], dtype=np.uint64)
_SHORT = 15  # bytes of the longest word that forms a key; the 16th byte of the key is the length
_SEPARATORS = ".,-()!?:'"  # candidates: no other character is normalised into one of them


def id_dtype(vocab_size: int) -> np.dtype[Any]:
    """Returns the narrowest dtype for token ids: little-endian uint16 or uint32."""
    return np.dtype("<u2" if vocab_size <= 65_535 else "<u4")


class CorpusEncoder:
    """Encodes texts without special tokens or offsets, with a cache of words if the pipeline is BERT's.

    `definition` is the content of the tokenizer.json of `raw`.
    """

    def __init__(self, raw: tokenizers.Tokenizer, definition: dict[str, Any], vocab_size: int) -> None:
        self._raw = raw
        self._dtype = id_dtype(vocab_size)
        steps = wordpiece.bert_steps(definition["normalizer"])
        vocabulary = definition["model"].get("vocab", {})
        self._separator = next((mark for mark in _SEPARATORS if mark in vocabulary), "")
        self._by_word = bool(
            definition["model"]["type"] == "WordPiece"
            and steps
            and (definition["pre_tokenizer"] or {}).get("type") == "BertPreTokenizer"
            and all(token["special"] for token in definition["added_tokens"])
            and self._separator
        )
        self._lowercase = bool(steps and steps[-1].get("lowercase"))
        self._composes = wordpiece.COMPOSED in steps
        self._separator_id = vocabulary.get(self._separator) if self._by_word else None
        self._clear_cache()

    def _clear_cache(self) -> None:
        # word -> its index, in the order of first use
        self._indices: defaultdict[bytes, int] = defaultdict(count().__next__)
        self._bytes = 0  # bytes of all cached words
        self._table = _Table()  # the indices of short words
        self._ids: Ids = np.empty(0, dtype=self._dtype)  # ids of all words, in the order of their indices
        # start of each word in _ids, and the end of the last
        self._starts: Int64 = np.zeros(1, dtype=np.int64)
        if self._by_word:
            encodings = self._raw.encode_batch_fast(list(string.punctuation), add_special_tokens=False)
            ids = [mark.ids for mark in encodings]
            self._append(
                np.array([i for mark in ids for i in mark], dtype=self._dtype),
                np.cumsum([len(mark) for mark in ids]),
            )
            for mark in string.punctuation:
                self._indices[mark.encode()]  # gets the next index, in the order of `ids`

    def __call__(self, texts: Sequence[str]) -> list[Ids]:
        """Returns the ids of each text; lone surrogates are read as U+FFFD."""
        if not self._by_word:
            encodings = self._raw.encode_batch_fast(
                [_utf8(text).decode() for text in texts], add_special_tokens=False
            )
            return [np.array(encoding.ids, dtype=self._dtype) for encoding in encodings]
        if len(self._indices) > _MAX_CACHED or self._bytes > _MAX_CACHED_BYTES:
            self._clear_cache()
        composed = (normalize("NFC", text) for text in texts) if self._composes else texts
        contents = [_utf8(text) for text in composed]
        # Padding, so that 16 bytes can be read from any position.
        content = np.frombuffer(b"\n".join([*contents, b"\n" * 16]), dtype=np.uint8)
        if self._lowercase:
            content = _LOWER[content]
        kinds = _KINDS[content]
        is_letter = kinds == _LETTER
        edges = is_letter[1:] != is_letter[:-1]  # true between two bytes of which exactly one is a letter
        begins, ends = kinds == _MARK, kinds == _MARK
        begins[1:] |= edges & is_letter[1:]
        begins[0] |= is_letter[0]
        ends[:-1] |= edges & is_letter[:-1]
        first, last = np.flatnonzero(begins), np.flatnonzero(ends)
        indices = self._look_up(content, first, last + 1 - first)

        sizes = np.diff(self._starts)[indices]
        stops = np.cumsum(sizes)
        num_ids = int(stops[-1]) if len(stops) else 0
        ids = self._ids[np.repeat(self._starts[indices] - stops + sizes, sizes) + np.arange(num_ids)]
        words_before = np.searchsorted(first, np.cumsum([len(text) + 1 for text in contents]))
        return np.split(ids, np.concatenate([[0], stops])[words_before[:-1]]) if len(texts) else []

    def _look_up(self, content: npt.NDArray[np.uint8], first: Int64, sizes: Int64) -> Int64:
        """Returns the index of each word, given by its first byte and size; encodes and caches new words."""
        # A view of `content`: entry i holds the 8 bytes that begin at position i.
        eight_bytes: UInt64 = np.ndarray(len(content) - 7, dtype="<u8", buffer=content.data, strides=(1,))
        low = eight_bytes[first] & _BYTE_MASKS[np.minimum(sizes, 8)]
        high = eight_bytes[first + 8] & _BYTE_MASKS[np.clip(sizes - 8, 0, 7)]
        is_short = sizes <= _SHORT
        # Long words get length 0, which no word has.
        high |= np.where(is_short, sizes, 0).astype(np.uint64) << np.uint64(56)
        indices = self._table.find(low, high)

        not_found = np.flatnonzero(indices < 0)
        num_cached = len(self._indices)
        if len(not_found):
            text, starts = content.tobytes(), first[not_found]
            indices[not_found] = [
                self._indices[text[start:stop]]
                for start, stop in zip(starts.tolist(), (starts + sizes[not_found]).tolist(), strict=True)
            ]
            self._encode_new(list(islice(reversed(self._indices), len(self._indices) - num_cached))[::-1])
            new_short = not_found[(indices[not_found] >= num_cached) & is_short[not_found]]
            new_indices, positions = np.unique(indices[new_short], return_index=True)
            self._table.add(low[new_short[positions]], high[new_short[positions]], new_indices)
        return indices

    def _encode_new(self, words: list[bytes]) -> None:
        """Encodes and caches words: many in one text, each followed by a separator that no word contains."""
        self._bytes += sum(map(len, words))
        groups = [words[i : i + 256] for i in range(0, len(words), 256)]
        texts = [self._separator.join(word.decode() for word in group) + self._separator for group in groups]
        encodings = self._raw.encode_batch_fast(texts, add_special_tokens=False)
        ids = np.fromiter(chain.from_iterable(encoding.ids for encoding in encodings), dtype=self._dtype)
        marks = np.flatnonzero(ids == self._separator_id)
        assert len(marks) == len(words), "a separator was not encoded as one token"
        self._append(np.delete(ids, marks), marks - np.arange(len(marks)))

    def _append(self, ids: Ids, ends: Int64) -> None:
        self._starts = np.concatenate([self._starts, len(self._ids) + ends])
        self._ids = np.concatenate([self._ids, ids])


def _utf8(text: str) -> bytes:
    """Returns a text as UTF-8, with U+FFFD for lone surrogates."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text).encode()


class _Table:
    """A hash table from 128-bit keys to integers, for arrays: open addressing, at most half full."""

    def __init__(self, bits: int = 16) -> None:
        self._bits, self._used = bits, 0
        self._low, self._high = np.zeros(1 << bits, dtype=np.uint64), np.zeros(1 << bits, dtype=np.uint64)
        self._value = np.full(1 << bits, -1, dtype=np.int64)

    def _slots(self, low: UInt64, high: UInt64) -> Int64:
        with np.errstate(over="ignore"):
            hashes = (low ^ (high * np.uint64(0xBF58476D1CE4E5B9))) * np.uint64(0x9E3779B97F4A7C15)
            hashes = (hashes ^ (hashes >> np.uint64(32))) * np.uint64(0x94D049BB133111EB)
        return (hashes >> np.uint64(64 - self._bits)).astype(np.int64)

    def find(self, low: UInt64, high: UInt64) -> Int64:
        """Returns the value of each key, or -1 if it is absent."""
        slots = self._slots(low, high)
        values = self._value[slots]
        unresolved = np.flatnonzero((values >= 0) & ((self._low[slots] != low) | (self._high[slots] != high)))
        while len(unresolved):  # keys whose slot holds another key: try the next slot
            slot = slots[unresolved] = (slots[unresolved] + 1) & (len(self._value) - 1)
            values[unresolved] = self._value[slot]
            unresolved = unresolved[
                (values[unresolved] >= 0)
                & ((self._low[slot] != low[unresolved]) | (self._high[slot] != high[unresolved]))
            ]
        return values

    def add(self, low: UInt64, high: UInt64, values: Int64) -> None:
        """Adds keys that are all new and distinct."""
        if 2 * (self._used + len(values)) > len(self._value):
            old_slots = np.flatnonzero(self._value >= 0)
            low, high = (
                np.concatenate([self._low[old_slots], low]),
                np.concatenate([self._high[old_slots], high]),
            )
            values = np.concatenate([self._value[old_slots], values])
            self.__init__((4 * len(values)).bit_length())  # type: ignore[misc]
        self._used += len(values)
        slots = self._slots(low, high)
        waiting = np.arange(len(values))
        while len(waiting):
            slot = slots[waiting]
            is_free = self._value[slot] < 0
            # The last one written keeps a contested slot.
            self._value[slot[is_free]] = values[waiting[is_free]]
            is_done = self._value[slot] == values[waiting]
            self._low[slot[is_done]], self._high[slot[is_done]] = (
                low[waiting[is_done]],
                high[waiting[is_done]],
            )
            waiting = waiting[~is_done]
            slots[waiting] = (slots[waiting] + 1) & (len(self._value) - 1)
