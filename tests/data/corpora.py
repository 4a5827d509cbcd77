"""Writes small corpora and files of every format, and reads the content of a store."""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import zstandard
from pyarrow import parquet

from electra.data.corpus.store import TokenDocuments

COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
WORDS = ["the", "chef", "cooked", "a", "meal", "and", "ate", "it", "with", "great", "pleasure", "slowly"]


def texts(count: int = 300, seed: int = 0) -> list[str]:
    chooser = random.Random(seed)
    return [" ".join(chooser.choices(WORDS, k=chooser.randint(1, 60))) + f" number {i}" for i in range(count)]


def write(folder: Path, documents: list[str], name: str = "corpus.jsonl") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
    return folder / name


def in_parquet(**columns: Any) -> bytes:
    content = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), content)
    return content.getvalue()


def contents(path: Path) -> dict[str, str]:
    return {
        str(f.relative_to(path)): hashlib.sha256(f.read_bytes()).hexdigest()
        for f in sorted(path.rglob("*"))
        if f.is_file()
    }


def all_ids(documents: TokenDocuments) -> list[list[int]]:
    return [documents.document(i).tolist() for i in range(documents.num_documents)]
