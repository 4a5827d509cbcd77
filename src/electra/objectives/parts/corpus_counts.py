"""Token counts of the training text, computed when an objective first needs them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from electra.data.store import TokenStore
from electra.foundation.arrays import Bools, Ints
from electra.foundation.errors import ConfigError

BLOCK = 1 << 24  # tokens per call of bincount, which bounds its memory


@dataclass(frozen=True)
class CorpusCounts:
    """Token statistics of a store's training split."""

    store: TokenStore

    @cached_property
    def counts(self) -> Ints:
        """Number of occurrences of each token, int64 [V]."""
        tokens, size = self.store.train.tokens, self.store.vocab_size
        counts = np.zeros(size, dtype=np.int64)
        for start in range(0, len(tokens), BLOCK):
            counts += np.bincount(tokens[start : start + BLOCK], minlength=size)
        return counts

    @cached_property
    def continues(self) -> Bools:
        """Bool [V]: True for tokens that continue a word.

        Raises:
            ConfigError: if the tokenizer does not mark where words begin or continue.
        """
        marked = self.store.tokenizer.continues
        if not marked.any():
            raise ConfigError(
                "whole_word needs a tokenizer that marks where words begin or continue; this one does not",
                key="objective.masking",
                fix="Use a tokenizer trained by electra prepare, or masking uniform or frequency",
            )
        return marked
