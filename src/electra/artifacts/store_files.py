"""Token stores: documents as token ids on disk."""

from pathlib import Path

from electra.artifacts.folder import ChildPath, SealedFolder
from electra.foundation.errors import StoreError

SPLITS = ("train", "heldout")
TOKENIZER = "tokenizer"
DOCUMENTS_SUFFIX = ".ds"  # the suffix that datatrove uses
RECORDS_SUFFIX = ".docs"  # records of documents, while a store is built


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
        return [file.name for split in SPLITS for file in (folder.documents(split), folder.index(split))]


def index_path(documents: Path) -> Path:
    """Returns the path of the index of a file of documents."""
    return documents.with_name(documents.name + ".index")
