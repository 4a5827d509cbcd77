"""Token counts of the training text, computed when an objective first needs them."""

from dataclasses import dataclass
from functools import cached_property

from electra.data.corpus.store import TokenStore, count_ids
from electra.foundation.arrays import Ints


@dataclass(frozen=True)
class CorpusCounts:
    """Token statistics of a store's training split."""

    store: TokenStore

    @cached_property
    def counts(self) -> Ints:
        """Number of occurrences of each token, int64 [V]."""
        return count_ids(self.store.train, self.store.vocab_size)
