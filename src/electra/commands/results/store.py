"""A token store: a corpus as token ids, with its tokenizer."""

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
    """A folder written by `prepare`. Raises StoreError if it is missing or damaged."""

    FOLDER = StoreFolder

    def __init__(self, path: Source) -> None:
        from electra.data.store import TokenStore

        super().__init__(path)
        self.tokens: TokenStore = TokenStore.open(self.path)
        """The documents' token ids, mapped into memory."""

    @property
    def audit(self) -> dict[str, Any]:
        """Counts of documents, characters, words and tokens, and of everything that was left out."""
        return self.tokens.audit

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that encoded the text."""
        return self.tokens.tokenizer

    @property
    def vocab_size(self) -> int:
        """The number of entries in the vocabulary."""
        return self.tokens.vocab_size

    @property
    def num_tokens(self) -> int:
        """The number of tokens to train on, without held-out and special tokens."""
        return self.tokens.train.num_tokens

    @property
    def num_documents(self) -> int:
        """The number of documents to train on, without held-out ones."""
        return self.tokens.train.num_documents

    def verify(self) -> None:
        """Reads all files and compares their checksums. Raises StoreError naming a damaged file."""
        self.tokens.verify()
