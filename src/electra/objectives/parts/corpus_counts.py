"""Token counts of the training text, computed when an objective first needs them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from electra.data.store import TokenStore, count_ids
from electra.foundation.arrays import Bools, Ints
from electra.foundation.errors import ConfigError


@dataclass(frozen=True)
class CorpusCounts:
    """Token statistics of a store's training split."""

    store: TokenStore

    @cached_property
    def counts(self) -> Ints:
        """Number of occurrences of each token, int64 [V]."""
        return count_ids(self.store.train, self.store.vocab_size)

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
