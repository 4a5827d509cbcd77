"""Token stores: documents as token ids on disk, and the shards that a store is merged from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electra.artifacts.folder import File, Sealed
from electra.foundation.errors import StoreError

SPLITS = ("train", "heldout")
TOKENIZER = "tokenizer"
ENDING = ".ds"  # of a file of documents; also of those that datatrove writes


class StoreFolder(Sealed):
    """What `electra prepare` writes; `data.store.TokenStore` reads it.

    STORE/ train.ds, train.ds.index, heldout.ds, heldout.ds.index   tokenizer/   store.json   audit.json
           manifest.json
    """

    KIND = "token store"
    RECORD = "store.json"
    ERROR = StoreError

    tokenizer = File(TOKENIZER)
    audit = File("audit.json")  # what became of the text

    def documents(self, split: str) -> Path:
        """The ids of a split, documents back to back."""
        return self.path / f"{split}{ENDING}"

    def index(self, split: str) -> Path:
        """Where each document of a split ends."""
        return index_of(self.documents(split))

    @classmethod
    def split_files(cls) -> list[str]:
        """The names of the files that hold the splits."""
        here = cls(Path())
        return [file.name for split in SPLITS for file in here.of_split(split)]

    def of_split(self, split: str) -> list[Path]:
        """The files that hold one split."""
        return [self.documents(split), self.index(split)]

    def facts(self) -> Sequence[tuple[str, Any]]:
        record = self.record
        return (
            ("documents", f"{record['train']['documents']:,}"),
            ("tokens", f"{record['train']['tokens']:,}"),
            ("held-out tokens", f"{record['heldout']['tokens']:,}"),
            ("vocabulary", f"{record['vocab_size']:,}"),
            ("data", str(record.get("digest", ""))[:16] or None),
        )


class ShardFolder(StoreFolder):
    """A part of a corpus, prepared on one machine of several; `electra prepare --merge` joins them."""

    KIND = "shard of a token store"
    RECORD = "shard.json"

    def digests(self, split: str) -> Path:
        """What is remembered of each document, so that duplicates are found across shards."""
        return self.path / f"{split}.docs"

    def of_split(self, split: str) -> list[Path]:
        return [*super().of_split(split), self.digests(split)]

    def facts(self) -> Sequence[tuple[str, Any]]:
        return ()


def index_of(documents: Path) -> Path:
    return documents.with_name(documents.name + ".index")
