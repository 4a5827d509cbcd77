"""A token store: text as token ids, with the tokenizer that made them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from electra.artifacts.store import StoreFolder
from electra.commands.framework.command import Source
from electra.commands.results.artifact import Artifact

if TYPE_CHECKING:
    from electra.data.store import TokenStore
    from electra.data.tokenizer import Tokenizer


class Store(Artifact[StoreFolder]):
    """A folder made by `prepare`. Raises StoreError where there is none, or a damaged one."""

    FOLDER = StoreFolder

    def __init__(self, path: Source) -> None:
        from electra.data.store import TokenStore

        super().__init__(path)
        self.tokens: TokenStore = TokenStore.open(self.path)
        """The documents' token ids, mapped into memory."""

    @property
    def audit(self) -> dict[str, Any]:
        """What became of the text: documents, characters, words and tokens, with every loss counted."""
        return self.tokens.audit

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that made the ids."""
        return self.tokens.tokenizer

    @property
    def vocab_size(self) -> int:
        """Entries of the tokenizer's vocabulary."""
        return self.tokens.vocab_size

    @property
    def num_tokens(self) -> int:
        """Tokens to train on, without the held-out ones and without special tokens."""
        return self.tokens.train.num_tokens

    @property
    def num_documents(self) -> int:
        """Documents to train on, without the held-out ones."""
        return self.tokens.train.num_documents

    def verify(self) -> None:
        """Read everything and compare it with its digests. Raises StoreError naming what is damaged."""
        self.tokens.verify()
