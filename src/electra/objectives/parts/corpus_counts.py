"""Counts over the training documents that objectives may ask for, made when first asked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from electra.data.store import TokenStore
from electra.foundation.arrays import Bools, Ints
from electra.foundation.errors import ConfigError

BLOCK = 1 << 24  # ids counted at once


@dataclass(frozen=True)
class CorpusCounts:
    store: TokenStore

    @cached_property
    def counts(self) -> Ints:
        """How often each token occurs [V]."""
        tokens, size = self.store.train.tokens, self.store.vocab_size
        total = np.zeros(size, dtype=np.int64)
        for start in range(0, len(tokens), BLOCK):
            total += np.bincount(tokens[start : start + BLOCK], minlength=size)
        return total

    @cached_property
    def continues(self) -> Bools:
        """True at the tokens that go on with a word [V]; refuses a tokenizer that does not say which do."""
        marked = self.store.tokenizer.continues
        if not marked.any():
            raise ConfigError(
                "cannot tell whole words: this tokenizer marks neither their beginning nor how they go on",
                key="objective.masking",
                fix="Use a tokenizer that electra prepare trains, or mask uniform, frequency or span",
            )
        return marked
