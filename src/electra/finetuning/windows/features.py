"""Converts texts to token ids, and windows of ids to batches of similar length.

A batch is padded to its longest window. Padding has the document id -1, so no token attends to it, and an
example's output does not depend on the rest of its batch (tests/finetuning checks this). Departure: the
original code pads the training set to a whole number of batches with dummy examples, shuffles it once, when
it is written, and lower-cases regardless of the tokenizer's own settings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from electra.data.corpus.tokenizer import Tokenizer
from electra.foundation.errors import ConfigError
from electra.foundation.seeds import key, permute
from electra.model.passes import PaddedBatch, few_lengths, pad_rows

Ids = npt.NDArray[np.int64]
NO_TARGET = -100  # the target of positions that the loss ignores
BATCHES_PER_POOL = 64  # sorted by length together: a compromise between little padding and good shuffling


@dataclass(frozen=True)
class PairTemplate:
    """The special tokens and token types that a tokenizer adds to a pair of texts."""

    before: Ids
    between: Ids
    after: Ids
    types: tuple[int, ...]  # the types of `before`, the first text, `between`, the second text and `after`

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self:
        """Infers the template of a tokenizer from an encoded pair of equal texts."""
        encoding = tokenizer.encode("a", "a")
        positions = [i for i, special in enumerate(encoding.special) if not special]
        ids, half = np.array(encoding.ids, np.int64), len(positions) // 2
        first, second = positions[:half], positions[half:]
        cuts = [0, first[0], first[-1] + 1, second[0], second[-1] + 1, len(ids)]
        parts = [slice(*ends) for ends in pairwise(cuts)]
        types = tuple(encoding.segments[part][0] if encoding.segments[part] else 0 for part in parts)
        return cls(ids[parts[0]], ids[parts[2]], ids[parts[4]], types)

    def join(self, first: Ids, second: Ids) -> tuple[Ids, Ids]:
        """Returns the ids [tokens] and the token types [tokens] of a pair."""
        parts = [self.before, first, self.between, second, self.after]
        types = [np.full(len(part), kind, np.int64) for part, kind in zip(parts, self.types, strict=True)]
        return np.concatenate(parts).astype(np.int64), np.concatenate(types)

    @property
    def num_special(self) -> int:
        """The number of special tokens."""
        return len(self.before) + len(self.between) + len(self.after)


class Tokens:
    """Encodes the texts of examples with a model's tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer, self.template = tokenizer, PairTemplate.of(tokenizer)

    def join(self, texts: Sequence[Sequence[str]], max_length: int) -> list[tuple[Ids, Ids, bool]]:
        """Encodes the text or the pair of texts of every example, like `join`.

        `texts` is a list of all first texts and, for pairs, a list of all second texts.
        """
        columns = [self.tokenizer.encode_corpus(column) for column in texts]
        return [join(row, self.template, max_length) for row in zip(*columns, strict=True)]


@dataclass(frozen=True)
class Windows:
    """The inputs of the encoder: one for an example, or several (both orders of a pair, parts of a text)."""

    input_ids: list[Ids]
    token_type_ids: list[Ids]
    example: Ids  # the index of each window's example
    targets: list[npt.NDArray[Any]] | None  # per window: scalar, vector or token values; None: no answers
    token_targets: bool = False  # whether targets have a value for each token, padded with NO_TARGET
    texts: Sequence[tuple[str, ...]] = ()  # the text or texts of each window
    context: Sequence[Any] = ()  # maps each window's outputs back to the text, for tasks that need it
    truncated: int = 0  # the number of examples that were truncated
    notes: tuple[str, ...] = ()  # other changes to the data, reported to the user

    def __len__(self) -> int:
        return len(self.input_ids)

    @cached_property
    def longest(self) -> int:
        """The number of tokens of the longest window."""
        return int(self.lengths().max())

    def lengths(self) -> Ids:
        """Returns the number of tokens of each window."""
        return np.fromiter((len(ids) for ids in self.input_ids), np.int64, len(self))


@dataclass(frozen=True)
class LabelledBatch:
    """The tensors of one batch [B, T]."""

    index: Ids  # the index of each row's window [B]
    input_ids: torch.Tensor
    token_type_ids: torch.Tensor
    document_ids: torch.Tensor | None  # -1 at padding; None if no window is padded
    targets: torch.Tensor | None  # [B], [B, outputs] or [B, T]; None if an example has no answer
    texts: Sequence[tuple[str, ...]] = ()  # the texts of each row, if the task stores them
    context: Sequence[Any] = ()  # likewise what maps each row's outputs back to the text


def join(row: Sequence[npt.NDArray[Any]], template: PairTemplate, max_length: int) -> tuple[Ids, Ids, bool]:
    """Builds the input of a text or a pair, such as [CLS] first [SEP] second [SEP] with token types 0 and 1.

    The longer text is truncated to the length of the shorter one, then both are truncated, as by
    transformers' "longest_first". Returns ids, token types, and whether the input was truncated. Raises
    ConfigError if `max_length` leaves no room for text.
    """
    num_between = len(template.between) if len(row) > 1 else 0
    room = max_length - len(template.before) - num_between - len(template.after)
    if room < len(row):
        raise ConfigError(f"{max_length} tokens leave no room for text", key="max_length")
    first, second = row[0], row[-1]
    if len(row) == 1:
        ids = np.concatenate([template.before, first[:room], template.after]).astype(np.int64)
        return ids, np.full(len(ids), template.types[1], np.int64), len(first) > room
    sizes = [len(first), len(second)]
    if is_truncated := sum(sizes) > room:
        shorter = int(sizes[1] < sizes[0])
        sizes[shorter] = min(sizes[shorter], room // 2)
        sizes[1 - shorter] = room - sizes[shorter]
    return *template.join(first[: sizes[0]], second[: sizes[1]]), is_truncated


def epoch_order(lengths: Ids, batch_size: int, seed: int, epoch: int) -> list[Ids]:
    """Returns the indices of the windows in each batch of an epoch, which depend on the arguments alone.

    The windows are shuffled, then sorted by length within pools of `BATCHES_PER_POOL` batches; then the
    batches are shuffled.
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


def collate(
    windows: Windows, index: Ids, pad: int, device: torch.device | str = "cpu", precision: str = "fp32"
) -> LabelledBatch:
    """Returns the windows with the indices `index`, in that order, as a batch."""
    rows = [windows.input_ids[i] for i in index]
    length = max(map(len, rows))
    if precision == "bf16":
        length = min(few_lengths(length), windows.longest)
    return batch_of(windows, pad_rows(index, rows, device, pad, length))


def batch_of(windows: Windows, rows: PaddedBatch) -> LabelledBatch:
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
    context = [windows.context[i] for i in rows.index] if windows.context else ()
    return LabelledBatch(rows.index, rows.input_ids, types, rows.document_ids, targets, texts, context)
