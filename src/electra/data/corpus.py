"""A corpus: named sources of text, read as documents in a stable order, as often as needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from electra.data import readers
from electra.data.near import bands
from electra.data.readers import Text, Unit
from electra.data.sources import find_sources
from electra.errors import ConfigError


@dataclass(frozen=True)
class CorpusConfig:
    """How text is read, and how much of it is set aside."""

    unit: Unit = "file"
    """What is one document of a .txt file: the whole file, a part between blank lines, or a line."""
    text_field: str = "text"
    """The field (.jsonl) or column (.parquet, hub data sets) that holds the text."""
    format: Literal["auto", "txt", "jsonl", "parquet"] = "auto"
    """The format of every source, for files whose suffix does not tell; stdin is txt unless told."""
    heldout: float = 0.005
    """The share of documents held out for evaluation, chosen by a hash of their text; at least one."""
    near_duplicates: float | None = None
    """Documents at least so similar to an earlier one are dropped, from 0.5 to 1 (None: only equal ones)."""

    def __post_init__(self) -> None:
        if self.near_duplicates is not None:
            bands(self.near_duplicates)
        if not 0 < self.heldout < 1:
            raise ConfigError(f"a held-out share of {self.heldout}", fix="It must lie between 0 and 1")


class Documents:
    """The documents of `sources`: files, folders, globs, `-`, remote addresses, `python-docs`,
    `hub:NAME[:CONFIG][:SPLIT]`.

    Iterate as often as you like. `scratch` is a folder for copies of what cannot be read twice. `shard` (i,
    n) keeps the i-th of n runs of neighbouring sources, so that the shards one after the other are the
    corpus.
    """

    def __init__(
        self,
        sources: Sequence[str | Path],
        config: CorpusConfig,
        scratch: Path,
        shard: tuple[int, int] = (0, 1),
    ) -> None:
        self.config = config
        found = find_sources(sources, scratch, config.format)
        index, count = shard
        if len(found) < count:
            what = f"{len(found)} files cannot be divided into {count} shards"
            raise ConfigError(what, key="shard", fix="Use fewer shards, or more and smaller files")
        self.sources = found[len(found) * index // count : len(found) * (index + 1) // count]

    def __iter__(self) -> Iterator[Text]:
        for source in self.sources:
            yield from readers.read(source, self.config.unit, self.config.text_field)

    def describe(self) -> list[dict[str, Any]]:
        return [source.describe() for source in self.sources]
