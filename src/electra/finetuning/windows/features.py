"""Converts texts to token ids, and windows of ids to batches of similar length.

A batch is padded to its own longest window. Padding has the piece id -1, so no token attends to it: an
example's output does not depend on the rest of its batch (tests/finetuning checks it). Departure from the
original code, which pads the training set to a whole number of batches with dummy examples, shuffles it once
when it is written, and lower-cases regardless of the tokenizer's own settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from electra.data.tokenizer import Tokenizer
from electra.foundation.errors import ConfigError
from electra.foundation.seeds import key, permute
from electra.model.passes import PaddedBatch, pad_rows

Ids = npt.NDArray[np.int64]
NO_TARGET = -100  # the target of positions that have none
POOL = 64  # batches sorted by length together: enough for little padding, few enough to stay well shuffled


class Tokens:
    """Encodes the texts of examples with a model's tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.pad, self.cls, self.sep = tokenizer.specials.pad, tokenizer.specials.cls, tokenizer.specials.sep
        empty = tokenizer.encode("", "")
        self.like_bert = empty.ids == [self.cls, self.sep, self.sep] and empty.segments == [0, 0, 1]

    def join(self, texts: Sequence[Sequence[str]], max_length: int) -> list[tuple[Ids, Ids, bool]]:
        """Encodes one text, or two, of every example.

        Args:
            texts: all the first texts, then, for pairs, all the second ones.
            max_length: the most tokens of an input; longer ones are truncated.

        Returns:
            For every example, ids with special tokens, token types, and whether it was truncated.
        """
        if not self.like_bert:  # the tokenizer has another template for special tokens
            return [
                self._encode(row[0], row[1] if len(row) > 1 else None, max_length)
                for row in zip(*texts, strict=True)
            ]
        first, *rest = (self.tokenizer.encode_corpus(column) for column in texts)
        second = rest[0] if rest else [None] * len(first)
        return [
            join(a, b, cls=self.cls, sep=self.sep, max_length=max_length)
            for a, b in zip(first, second, strict=True)
        ]

    def _encode(self, first: str, second: str | None, max_length: int) -> tuple[Ids, Ids, bool]:
        whole = self.tokenizer.encode(first, second)
        cut = len(whole.ids) > max_length
        kept = self.tokenizer.encode(first, second, max_length) if cut else whole
        return np.array(kept.ids, np.int64), np.array(kept.segments, np.int64), cut


@dataclass(frozen=True)
class Windows:
    """The inputs of the encoder.

    Usually one window for each example; more if both orders of a pair are read, a text is split, or each
    answer has its own input.
    """

    input_ids: list[Ids]
    token_type_ids: list[Ids]
    example: Ids  # the example each window belongs to
    targets: list[npt.NDArray[Any]] | None  # of each window: a scalar, a vector, or one per token
    token_targets: bool = False  # whether they are one per token, padded with NO_TARGET
    group: int = 1  # consecutive windows that are always in one training batch
    texts: Sequence[tuple[str, ...]] = ()  # the text or texts of each window, in its order
    context: Sequence[Any] = ()  # what maps each window's outputs back to the text (words, offsets)
    truncated: int = 0  # examples that lost tokens
    notes: tuple[str, ...] = ()  # reported to the user: other changes to the data

    def __len__(self) -> int:
        return len(self.input_ids)

    def lengths(self) -> Ids:
        """Returns the number of tokens of each window."""
        return np.fromiter((len(ids) for ids in self.input_ids), np.int64, len(self))

    @property
    def num_groups(self) -> int:
        """The number of groups of windows."""
        return len(self) // self.group

    def epoch(self, batch_size: int, seed: int, epoch: int) -> list[Ids]:
        """Returns the windows of each batch of an epoch; a batch has `batch_size` groups."""
        longest = self.lengths().reshape(-1, self.group).max(1)
        offsets = np.arange(self.group)
        return [
            (groups[:, None] * self.group + offsets).ravel()
            for groups in epoch_order(longest, batch_size, seed, epoch)
        ]


@dataclass(frozen=True)
class Batch:
    """The tensors of one batch [B, T], and the numbers of its windows in `index` [B]."""

    index: Ids
    input_ids: torch.Tensor
    token_type_ids: torch.Tensor
    piece_ids: torch.Tensor | None  # -1 at padding; None if no window is padded
    targets: torch.Tensor | None
    texts: Sequence[tuple[str, ...]] = ()


def join(
    first: npt.NDArray[Any], second: npt.NDArray[Any] | None, *, cls: int, sep: int, max_length: int
) -> tuple[Ids, Ids, bool]:
    """Builds [CLS] first [SEP] second [SEP] with token types 0 and 1.

    Tokens are removed from the longer text until both have the same length, then from both: transformers'
    "longest_first".

    Returns:
        Ids, token types, and whether the input was truncated.

    Raises:
        ConfigError: `max_length` leaves no room for text.
    """
    if max_length < (3 if second is None else 5):
        raise ConfigError(f"{max_length} tokens leave no room for text", key="max_length")
    if second is None:
        ids = np.concatenate([[cls], first[: max_length - 2], [sep]]).astype(np.int64)
        return ids, np.zeros(len(ids), np.int64), len(first) > max_length - 2
    room = max_length - 3
    short, long = sorted((len(first), len(second)))
    cut = short + long > room
    if cut:
        short = min(short, room // 2)
        long = room - short
    size_first, size_second = (short, long) if len(first) <= len(second) else (long, short)
    ids = np.concatenate([[cls], first[:size_first], [sep], second[:size_second], [sep]]).astype(np.int64)
    types = np.zeros(len(ids), np.int64)
    types[size_first + 2 :] = 1
    return ids, types, cut


def epoch_order(lengths: Ids, batch_size: int, seed: int, epoch: int) -> list[Ids]:
    """Returns the batches of an epoch.

    The windows are shuffled, then sorted by length within pools of `POOL` batches, and the batches are
    shuffled. A pure function of its arguments, so a run that resumes within an epoch reads the rest of it and
    nothing twice.
    """
    count = len(lengths)
    shuffled = permute(np.arange(count), count, key(seed, "order", epoch)).astype(np.int64)
    pool = POOL * batch_size
    batches: list[Ids] = []
    for start in range(0, count, pool):
        members = shuffled[start : start + pool]
        members = members[np.argsort(lengths[members], kind="stable")]
        batches += [members[i : i + batch_size] for i in range(0, len(members), batch_size)]
    order = permute(np.arange(len(batches)), len(batches), key(seed, "order/batches", epoch))
    return [batches[i] for i in order.astype(np.int64)]


def collate(windows: Windows, index: Ids, pad: int, device: torch.device | str = "cpu") -> Batch:
    """Returns the windows of `index`, in that order, as a training batch."""
    return batch_of(windows, pad_rows(index, [windows.input_ids[i] for i in index], device, pad))


def batch_of(windows: Windows, rows: PaddedBatch) -> Batch:
    """Returns padded rows with their token types, targets and texts."""
    types = rows.padded([windows.token_type_ids[i] for i in rows.index])
    targets = None
    if windows.targets is not None:
        chosen = [windows.targets[i] for i in rows.index]
        if windows.token_targets:
            targets = rows.padded(chosen, NO_TARGET).to(types.device)
        else:
            targets = torch.from_numpy(np.stack(chosen)).to(types.device)
    texts = [windows.texts[i] for i in rows.index] if windows.texts else ()
    return Batch(rows.index, rows.input_ids, types, rows.piece_ids, targets, texts)
