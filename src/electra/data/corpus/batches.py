"""Builds batches as a pure function of the indices of their examples, so that there is no state to save.

The documents are laid end to end in one virtual stream, with two slots between neighbours for [SEP] and
[CLS]. Block b is the b-th stretch of `length - 2` slots, between [CLS] and [SEP]:

    [CLS] end of document a [SEP] [CLS] all of document b [SEP] [CLS] start of document c [SEP]

Separators at the edge of a block would delimit an empty segment. They are dropped, and the row is padded at
its end. So every token is used exactly once per epoch, and only such rows and the last one have padding. In
attention, `document_ids` separate the documents of a row. The order of an epoch is a keyed permutation of the
N blocks: example n is block permute(n mod N) of epoch n // N.

This differs from the paper's code (build_pretraining_dataset.py), which truncates each line to the length,
pads the remainders of documents, and joins two random segments.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from electra.data.corpus.store import TokenDocuments
from electra.data.corpus.tokenizer_folder import Specials
from electra.foundation import seeds
from electra.foundation.errors import ConfigError, StoreError

Int64 = npt.NDArray[np.int64]
_BLOCK = 1 << 17  # documents read at a time
_MARK = 256  # the position of every 256th document is kept in memory; a power of two
SHORTEST = 5  # tokens in a row; a block then has 3 slots, of which at least one is a token


@dataclass(frozen=True)
class TokenRows:
    """Rows of token ids, ready for a model: B rows of T positions."""

    input_ids: Int64  # [B, T]
    position_ids: Int64  # [B, T] from 0 in each document; 0 at padding
    document_ids: Int64  # [B, T] 0, 1, 2, ... for the documents of a row; -1 at padding
    # [B, T] true at [CLS], [SEP], [PAD] and [MASK], also inside documents; never masked or replaced
    special: npt.NDArray[np.bool_]
    packed: bool  # whether a row has several documents or padding, so that attention needs `document_ids`


@dataclass(frozen=True)
class Batch(TokenRows):
    """The rows of one step, or a process's part of them."""

    examples: npt.NDArray[
        np.uint64
    ]  # [B] their indices in the training, which key all random draws for a row

    @cached_property
    def digest(self) -> str:
        """A hash of the examples' indices and the ids, 64 bits in hexadecimal; equal for equal batches."""
        hasher = hashlib.blake2b(self.examples.astype("<u8").tobytes(), digest_size=8)
        hasher.update(self.input_ids.astype("<u4").tobytes())
        return hasher.hexdigest()


class Batches:
    """The rows of `length` tokens packed from `documents`, in the order given by `seed`.

    Raises ConfigError if `length` is below `SHORTEST`, and StoreError if the documents have no tokens.
    """

    def __init__(self, documents: TokenDocuments, *, length: int, seed: int, specials: Specials) -> None:
        if length < SHORTEST:
            raise ConfigError(f"the sequence length {length} is too short", fix=f"Use at least {SHORTEST}")
        self._stream = _Stream(documents)
        self._tokens = documents.tokens
        self._slots = self._stream.slots
        self.length, self.seed, self.specials = length, seed, specials
        self.num_blocks = -(-self._slots // (length - 2))  # rows in an epoch

    def batch(self, step: int, batch_size: int, start: int = 0, stop: int | None = None) -> Batch:
        """Returns examples `start` to `stop` (None: the end) of the batch at `step`, for one process."""
        first_example = step * batch_size
        stop = batch_size if stop is None else stop
        examples = np.arange(first_example + start, first_example + stop, dtype=np.uint64)
        epochs, positions = np.divmod(examples, np.uint64(self.num_blocks))
        blocks = np.empty_like(examples)
        for epoch in np.unique(epochs):
            mask, key = epochs == epoch, seeds.key(self.seed, "order", int(epoch))
            blocks[mask] = seeds.permute(positions[mask], self.num_blocks, key)
        return Batch(**vars(self.rows(blocks)), examples=examples)

    def rows(self, blocks: npt.ArrayLike) -> TokenRows:
        """Returns the rows of the blocks with these indices [B], in the same order."""
        indices = np.asarray(blocks, dtype=np.int64)
        width = self.length - 2
        slots = indices * width
        begin_document = self._stream.document(slots)
        begin_document += slots >= self._stream.stop(begin_document)  # on a separator: the next document
        begin = np.maximum(slots, self._stream.start(begin_document))  # the first slot with a token
        last = np.minimum(slots + width, self._slots) - 1
        end_document = self._stream.document(last)
        end = np.minimum(last, self._stream.stop(end_document) - 1)  # the last token, before a separator
        num_slots = (end - begin + 1)[:, None]  # slots of each row between its first [CLS] and last [SEP]

        column = np.arange(self.length)[None, :]
        opens = np.zeros((len(indices), self.length), dtype=bool)  # true where a document starts
        opens[:, 0] = True
        inner = end_document - begin_document  # documents that begin inside each row
        row = np.repeat(np.arange(len(indices)), inner)
        nth = np.arange(len(row)) - np.repeat(np.cumsum(inner) - inner, inner)
        opens[row, self._stream.start(begin_document[row] + 1 + nth) - begin[row]] = True

        document_ids = np.cumsum(opens, axis=1, dtype=np.int64) - 1
        position = column - np.maximum.accumulate(np.where(opens, column, 0), axis=1)
        padding = column > num_slots + 1
        closes = np.zeros_like(opens)
        closes[:, :-1] = opens[:, 1:]
        closes |= column == num_slots + 1

        # the index of each slot's token in the flat array
        token_index = begin[:, None] + column - 1 - 2 * (begin_document[:, None] + document_ids)
        ids = self._tokens[np.where(opens | closes | padding, 0, token_index)].astype(np.int64)
        ids[opens], ids[closes], ids[padding] = self.specials.cls, self.specials.sep, self.specials.pad
        document_ids[padding], position[padding] = -1, 0
        # Stores of other programs may have special tokens inside documents, such as an end-of-text token.
        special = np.isin(ids, (self.specials.pad, self.specials.cls, self.specials.sep, self.specials.mask))
        return TokenRows(ids, position, document_ids, special, packed=bool(padding.any() or inner.any()))


class _Stream:
    """The positions of documents in the virtual stream: every 256th in memory, the others in the index."""

    def __init__(self, documents: TokenDocuments) -> None:
        ends = np.asarray(documents.ends)
        blocks = [ends[max(first - 1, 0) : first + _BLOCK] for first in range(0, len(ends), _BLOCK)]
        if not len(ends) or ends[0] == 0 or any((block[1:] == block[:-1]).any() for block in blocks):
            ends = ends[np.diff(ends, prepend=np.uint64(0)) > 0]  # other programs may write empty documents
        if not len(ends):
            raise StoreError("the store has no tokens")
        self._ends, self.documents = ends, len(ends)
        self._marks = self.start(np.arange(0, len(ends), _MARK))
        self.slots = int(self.stop(np.array([len(ends) - 1]))[0])

    def start(self, document: Int64) -> Int64:
        previous_end = self._ends[np.maximum(document - 1, 0)].astype(np.int64)
        return np.where(document > 0, previous_end, 0) + 2 * document

    def stop(self, document: Int64) -> Int64:
        return self._ends[document].astype(np.int64) + 2 * document

    def document(self, slots: Int64) -> Int64:
        document = (np.searchsorted(self._marks, slots, side="right") - 1) * _MARK
        step = _MARK // 2
        while step:
            candidate = np.minimum(document + step, self.documents - 1)
            document = np.where(self.start(candidate) <= slots, candidate, document)
            step //= 2
        return document
