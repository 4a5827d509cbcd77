"""Counts over the training documents that objectives may ask for, made when first asked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from electra.arrays import Bools, Ints
from electra.data.store import TokenStore
from electra.errors import ConfigError

BLOCK = 1 << 24  # ids counted at once
CONTINUES = "##"  # how WordPiece marks a token that goes on with a word


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
        tokenizer = self.store.tokenizer
        marked = [
            tokenizer.id_to_token(token).startswith(CONTINUES) for token in range(self.store.vocab_size)
        ]
        if not any(marked):
            raise ConfigError(
                f'cannot tell whole words: no token of this tokenizer begins with "{CONTINUES}"',
                key="objective.masking",
                fix="Use a WordPiece tokenizer, or mask uniform, frequency or span",
            )
        return np.array(marked)
