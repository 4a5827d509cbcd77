"""Token stores: documents as token ids on disk, and the shards that a store is merged from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typing_extensions import override

from electra.artifacts.folder import ChildPath, Folder, SealedFolder
from electra.foundation.errors import StoreError

SPLITS = ("train", "heldout")
TOKENIZER = "tokenizer"
DOCUMENTS_SUFFIX = ".ds"  # the suffix that datatrove uses


class StoreFolder(SealedFolder):
    """The folder that `electra prepare` writes; `data.store.TokenStore` reads it.

    STORE/ train.ds, train.ds.index, heldout.ds, heldout.ds.index   tokenizer/   store.json   audit.json
           manifest.json
    """

    KIND = "token store"
    RECORD = "store.json"
    ERROR = StoreError

    tokenizer = ChildPath(TOKENIZER)
    audit = ChildPath("audit.json")  # how many documents were kept, and why the others were dropped

    def documents(self, split: str) -> Path:
        """Returns the file of a split's token ids, documents back to back."""
        return self.path / f"{split}{DOCUMENTS_SUFFIX}"

    def index(self, split: str) -> Path:
        """Returns the file with the position, in tokens, where each document of a split ends."""
        return index_path(self.documents(split))

    @classmethod
    def split_files(cls) -> list[str]:
        """Returns the names of the files that hold the splits."""
        folder = cls(Path())
        return [file.name for split in SPLITS for file in folder.files_of(split)]

    def files_of(self, split: str) -> list[Path]:
        """Returns the files that hold one split."""
        return [self.documents(split), self.index(split)]

    @override
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
    """One shard of a corpus, prepared on a separate machine; `electra prepare --merge` joins shards."""

    KIND = "shard of a token store"
    RECORD = "shard.json"

    def digests(self, split: str) -> Path:
        """Returns the file of document hashes with which the merge finds duplicates across shards."""
        return self.path / f"{split}.docs"

    @override
    def files_of(self, split: str) -> list[Path]:
        return [*super().files_of(split), self.digests(split)]

    @override
    def facts(self) -> Sequence[tuple[str, Any]]:
        return ()


def shard_name(number: int, count: int) -> str:
    """Returns the name under which a shard, counted from 0, is claimed as a piece of work: "shard 3/8"."""
    return f"shard {number}/{count}"


class ShardsFolder(Folder):
    """The shards of a store that several processes are making, until they are merged.

    .STORE.shards/ shards.json (settings), log.txt, 0/, 1/, ... (each a ShardFolder)
    """

    KIND = "set of shards"
    RECORD = "shards.json"

    @classmethod
    def of(cls, store: Path) -> ShardsFolder:
        """Returns the folder of the shards of a store."""
        return cls(store.with_name(f".{store.name}.shards"))

    def shard(self, number: int) -> ShardFolder:
        """Returns the folder of a shard, whether or not it exists."""
        return ShardFolder(self.path / str(number))

    def has(self, name: str) -> bool:
        """Whether the shard of this name, made by `shard_name`, is complete."""
        number, _, _ = name.removeprefix("shard ").partition("/")
        return self.shard(int(number)).exists()


def index_path(documents: Path) -> Path:
    """Returns the path of the index of a file of documents."""
    return documents.with_name(documents.name + ".index")
