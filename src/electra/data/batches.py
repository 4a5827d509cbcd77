"""Batches: a pure function of the example numbers, with no state to save.

The documents are laid end to end in one virtual stream, with two slots between neighbours for [SEP] and
[CLS]. Block b is the b-th run of `length - 2` slots, put between [CLS] and [SEP]:

    [CLS] end of document a [SEP] [CLS] all of document b [SEP] [CLS] start of document c [SEP]

Separators at a block's edge would make an empty piece; they are dropped, and the row is filled with [PAD] at
its end. So every token is used exactly once per epoch, and only such rows and the last one hold any padding.
Models keep pieces apart by `piece_ids`. The order of an epoch is a keyed permutation of the blocks: example n
is block permute(n mod N) of epoch n // N.

Departs from the paper's code, which cuts each line at the length and loses the rest
(build_pretraining_dataset.py), pads the remnants of documents, and joins two random segments.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from electra import seeds
from electra.data.specials import Specials
from electra.data.store import TokenDocuments
from electra.errors import ConfigError, StoreError

Int64 = npt.NDArray[np.int64]
SHORTEST = 5  # with 3 slots between [CLS] and [SEP], every block holds at least one token


@dataclass(frozen=True)
class Rows:
    """Rows of token ids, ready for a model. B rows of T positions."""

    input_ids: Int64  # [B, T]
    position_ids: Int64  # [B, T] from 0 in each piece; 0 at padding
    piece_ids: Int64  # [B, T] 0, 1, 2, ... in each row; -1 at padding
    special: npt.NDArray[
        np.bool_
    ]  # [B, T] true at [CLS], [SEP], [PAD] and [MASK], wherever they stand: never masked, never replaced
    packed: bool  # true when a row holds more than one piece, or padding: then attention needs the piece ids


@dataclass(frozen=True)
class Batch(Rows):
    examples: npt.NDArray[
        np.uint64
    ]  # [B] the global example numbers, which key every random draw about a row

    @cached_property
    def digest(self) -> str:
        """64 bits over the example numbers and the ids: two runs that print the same saw the same batch."""
        state = hashlib.blake2b(self.examples.astype("<u8").tobytes(), digest_size=8)
        state.update(self.input_ids.astype("<u4").tobytes())
        return state.hexdigest()


class Batches:
    """All rows of length `length` that `documents` make, in the order that `seed` gives them."""

    def __init__(self, documents: TokenDocuments, *, length: int, seed: int, specials: Specials) -> None:
        if length < SHORTEST:
            raise ConfigError(
                f"sequence length {length}", fix=f"The shortest that packs documents is {SHORTEST}"
            )
        ends = np.asarray(documents.ends).astype(np.int64)
        sizes = np.diff(ends, prepend=0)
        if not sizes.any():
            raise StoreError("no tokens to make batches of")
        self._sizes: Int64 = sizes[sizes > 0]  # a store of another maker may hold empty documents
        # of each document, in the virtual stream
        self._starts: Int64 = ends[sizes > 0] - self._sizes + 2 * np.arange(len(self._sizes))
        self._tokens = np.asarray(documents.tokens)
        self._slots = int(self._starts[-1] + self._sizes[-1])
        self.length, self.seed, self.specials = length, seed, specials
        self.num_blocks = -(-self._slots // (length - 2))

    def batch(self, step: int, batch_size: int, start: int = 0, stop: int | None = None) -> Batch:
        """Examples `start` to `stop` (a process's share) of the global batch of `batch_size` at `step`."""
        first = step * batch_size
        examples = np.arange(first + start, first + (batch_size if stop is None else stop), dtype=np.uint64)
        epochs, places = np.divmod(examples, np.uint64(self.num_blocks))
        blocks = np.empty_like(examples)
        for epoch in np.unique(epochs):
            chosen = epochs == epoch
            blocks[chosen] = seeds.permute(
                places[chosen], self.num_blocks, seeds.key(self.seed, "order", int(epoch))
            )
        rows = self.rows(blocks)
        return Batch(rows.input_ids, rows.position_ids, rows.piece_ids, rows.special, rows.packed, examples)

    def rows(self, blocks: npt.ArrayLike) -> Rows:
        """The rows of the given block numbers, in their order."""
        numbers = np.asarray(blocks, dtype=np.int64)
        width = self.length - 2
        begin, begin_document = self._first_token(numbers * width)
        end, end_document = self._last_token(np.minimum(numbers * width + width, self._slots) - 1)
        used = (end - begin + 1)[:, None]  # slots of each row between its first [CLS] and last [SEP]

        column = np.arange(self.length)[None, :]
        opens = np.zeros((len(numbers), self.length), dtype=bool)  # where a piece begins
        opens[:, 0] = True
        inner = end_document - begin_document  # documents that begin inside each row
        row = np.repeat(np.arange(len(numbers)), inner)
        nth = np.arange(len(row)) - np.repeat(np.cumsum(inner) - inner, inner)
        opens[row, self._starts[begin_document[row] + 1 + nth] - begin[row]] = True

        piece = np.cumsum(opens, axis=1, dtype=np.int64) - 1
        position = column - np.maximum.accumulate(np.where(opens, column, 0), axis=1)
        padding = column > used + 1
        closes = np.zeros_like(opens)
        closes[:, :-1] = opens[:, 1:]
        closes |= column == used + 1

        # each token slot's place in the flat array
        source = begin[:, None] + column - 1 - 2 * (begin_document[:, None] + piece)
        ids = self._tokens[np.where(opens | closes | padding, 0, source)].astype(np.int64)
        ids[opens], ids[closes], ids[padding] = self.specials.cls, self.specials.sep, self.specials.pad
        piece[padding], position[padding] = -1, 0
        # A store of another maker may hold special tokens inside its documents, such as an end-of-text after
        # each.
        special = np.isin(ids, (self.specials.pad, self.specials.cls, self.specials.sep, self.specials.mask))
        return Rows(ids, position, piece, special, packed=bool(padding.any() or inner.any()))

    def padding(self) -> float:
        """The share of [PAD] in the rows of an epoch."""
        padded, width = 0, self.length - 2
        for first in range(0, self.num_blocks, 1 << 20):
            slots = np.arange(first, min(first + (1 << 20), self.num_blocks)) * width
            begin, _ = self._first_token(slots)
            end, _ = self._last_token(np.minimum(slots + width, self._slots) - 1)
            padded += int((width - (end - begin + 1)).sum())
        return padded / (self.num_blocks * self.length)

    def _first_token(self, slots: Int64) -> tuple[Int64, Int64]:
        """The first slot from each of `slots` on that holds a token, and the document it belongs to."""
        document = np.searchsorted(self._starts, slots, side="right") - 1
        # on a separator: the next document's start
        document += slots >= self._starts[document] + self._sizes[document]
        return np.maximum(slots, self._starts[document]), document

    def _last_token(self, slots: Int64) -> tuple[Int64, Int64]:
        """The last slot up to each of `slots` that holds a token, and the document it belongs to."""
        document = np.searchsorted(self._starts, slots, side="right") - 1
        return np.minimum(slots, self._starts[document] + self._sizes[document] - 1), document
