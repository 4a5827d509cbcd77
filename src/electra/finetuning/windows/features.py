"""Converts texts to token ids, and windows of ids to batches of similar length.

A batch is padded to its longest window. Padding has the document id -1, so no token attends to it, and an
example's output does not depend on the rest of its batch (tests/finetuning checks this). Departure: the
original code pads the training set to a whole number of batches with dummy examples, shuffles it once, when
it is written, and lower-cases regardless of the tokenizer's own settings.
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
NO_TARGET = -100  # the target of positions that the loss ignores
BATCHES_PER_POOL = 64  # sorted by length together: a compromise between little padding and good shuffling


class Tokens:
    """Encodes the texts of examples with a model's tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.pad, self.cls, self.sep = tokenizer.specials.pad, tokenizer.specials.cls, tokenizer.specials.sep
        empty_pair = tokenizer.encode("", "")
        self.like_bert = empty_pair.ids == [self.cls, self.sep, self.sep] and empty_pair.segments == [0, 0, 1]

    def join(self, texts: Sequence[Sequence[str]], max_length: int) -> list[tuple[Ids, Ids, bool]]:
        """Encodes the text or the pair of texts of every example.

        Args:
            texts: a list of all first texts and, for pairs, a list of all second texts.
            max_length: the number of tokens to which longer inputs are truncated.

        Returns:
            For every example, its ids with special tokens, its token types, and whether it was truncated.

        Raises:
            ConfigError: `max_length` leaves no room for text.
        """
        if not self.like_bert:  # special tokens or token types differ from those that `join` writes
            return [
                self._encode(row[0], row[1] if len(row) > 1 else None, max_length)
                for row in zip(*texts, strict=True)
            ]
        first_ids, *other_ids = (self.tokenizer.encode_corpus(column) for column in texts)
        second_ids = other_ids[0] if other_ids else [None] * len(first_ids)
        return [
            join(a, b, cls=self.cls, sep=self.sep, max_length=max_length)
            for a, b in zip(first_ids, second_ids, strict=True)
        ]

    def _encode(self, first: str, second: str | None, max_length: int) -> tuple[Ids, Ids, bool]:
        encoding = self.tokenizer.encode(first, second)
        is_truncated = len(encoding.ids) > max_length
        if is_truncated:
            encoding = self.tokenizer.encode(first, second, max_length)
        return np.array(encoding.ids, np.int64), np.array(encoding.segments, np.int64), is_truncated


@dataclass(frozen=True)
class Windows:
    """The inputs of the encoder.

    An example usually has one window. It has several if both orders of a pair are read, if its text is split,
    or if each of its texts has its own input.
    """

    input_ids: list[Ids]
    token_type_ids: list[Ids]
    example: Ids  # the index of each window's example
    targets: list[npt.NDArray[Any]] | None  # per window: scalar, vector or token values; None: no answers
    token_targets: bool = False  # whether targets have a value for each token, padded with NO_TARGET
    group: int = 1  # number of consecutive windows that always share a training batch
    texts: Sequence[tuple[str, ...]] = ()  # the text or texts of each window
    context: Sequence[Any] = ()  # maps each window's outputs back to the text, for tasks that need it
    truncated: int = 0  # the number of examples that were truncated
    notes: tuple[str, ...] = ()  # other changes to the data, reported to the user

    def __len__(self) -> int:
        return len(self.input_ids)

    def lengths(self) -> Ids:
        """Returns the number of tokens of each window."""
        return np.fromiter((len(ids) for ids in self.input_ids), np.int64, len(self))

    @property
    def num_groups(self) -> int:
        """The number of groups of `group` windows."""
        return len(self) // self.group

    def epoch(self, batch_size: int, seed: int, epoch: int) -> list[Ids]:
        """Returns the indices of each batch's windows in an epoch, at most `batch_size` groups per batch."""
        group_lengths = self.lengths().reshape(-1, self.group).max(1)
        offsets = np.arange(self.group)
        return [
            (groups[:, None] * self.group + offsets).ravel()
            for groups in epoch_order(group_lengths, batch_size, seed, epoch)
        ]


@dataclass(frozen=True)
class Batch:
    """The tensors of one batch [B, T]."""

    index: Ids  # the index of each row's window [B]
    input_ids: torch.Tensor
    token_type_ids: torch.Tensor
    document_ids: torch.Tensor | None  # -1 at padding; None if no window is padded
    targets: torch.Tensor | None  # [B], [B, outputs] or [B, T]; None if an example has no answer
    texts: Sequence[tuple[str, ...]] = ()  # the texts of each row, if the task stores them


def join(
    first: npt.NDArray[Any], second: npt.NDArray[Any] | None, *, cls: int, sep: int, max_length: int
) -> tuple[Ids, Ids, bool]:
    """Builds [CLS] first [SEP] second [SEP] with token types 0 and 1; [CLS] first [SEP] if `second` is None.

    The longer text is truncated to the length of the shorter one, then both are truncated, as by
    transformers' "longest_first".

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
    shorter_size, longer_size = sorted((len(first), len(second)))
    is_truncated = shorter_size + longer_size > room
    if is_truncated:
        shorter_size = min(shorter_size, room // 2)
        longer_size = room - shorter_size
    size_first, size_second = (
        (shorter_size, longer_size) if len(first) <= len(second) else (longer_size, shorter_size)
    )
    ids = np.concatenate([[cls], first[:size_first], [sep], second[:size_second], [sep]]).astype(np.int64)
    types = np.zeros(len(ids), np.int64)
    types[size_first + 2 :] = 1
    return ids, types, is_truncated


def epoch_order(lengths: Ids, batch_size: int, seed: int, epoch: int) -> list[Ids]:
    """Returns the indices of the windows in each batch of an epoch.

    The windows are shuffled, then sorted by length within pools of `BATCHES_PER_POOL` batches; then the
    batches are shuffled. The order depends only on the arguments, so a run that resumes within an epoch reads
    exactly the rest of it.
    """
    count = len(lengths)
    shuffled_indices = permute(np.arange(count), count, key(seed, "order", epoch)).astype(np.int64)
    pool_size = BATCHES_PER_POOL * batch_size
    batches: list[Ids] = []
    for start in range(0, count, pool_size):
        indices = shuffled_indices[start : start + pool_size]
        indices = indices[np.argsort(lengths[indices], kind="stable")]
        batches += [indices[i : i + batch_size] for i in range(0, len(indices), batch_size)]
    order = permute(np.arange(len(batches)), len(batches), key(seed, "order/batches", epoch))
    return [batches[i] for i in order.astype(np.int64)]


def collate(windows: Windows, index: Ids, pad: int, device: torch.device | str = "cpu") -> Batch:
    """Returns the windows with the indices `index`, in that order, as a batch."""
    return batch_of(windows, pad_rows(index, [windows.input_ids[i] for i in index], device, pad))


def batch_of(windows: Windows, rows: PaddedBatch) -> Batch:
    """Returns the batch of padded rows, with their token types, targets and texts."""
    types = rows.padded([windows.token_type_ids[i] for i in rows.index])
    targets = None
    if windows.targets is not None:
        row_targets = [windows.targets[i] for i in rows.index]
        if windows.token_targets:
            targets = rows.padded(row_targets, NO_TARGET).to(types.device)
        else:
            targets = torch.from_numpy(np.stack(row_targets)).to(types.device)
    texts = [windows.texts[i] for i in rows.index] if windows.texts else ()
    return Batch(rows.index, rows.input_ids, types, rows.document_ids, targets, texts)
