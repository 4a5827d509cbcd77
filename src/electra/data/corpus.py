"""A corpus: named sources of text, read as documents in a stable order, as often as needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

from electra.data import readers
from electra.data.mixture import named
from electra.data.readers import Text
from electra.data.settings import CorpusConfig
from electra.data.sources import Source, find_sources
from electra.foundation.errors import ConfigError

LARGE = 10_000_000  # characters of a document; a long novel has three million


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
        self.corpora: list[int] = []  # of each source, in a mixture
        self.found: list[str] = []  # notes
        self.faults = readers.Faults()  # of the last iteration
        self.large: list[tuple[str, int]] = []  # .txt files read as a single document, in the last iteration
        how = config.finding(self.found.append)
        found: list[Source] = []
        if config.mix_temperature is None:
            found = find_sources(sources, scratch, how)
        else:
            for number, part in enumerate(named(sources).values()):
                found += find_sources(part, scratch, how)
                self.corpora += [number] * (len(found) - len(self.corpora))
        index, count = shard
        if len(found) < count:
            what = f"{len(found)} files cannot be divided into {count} shards"
            raise ConfigError(what, key="shard", fix="Use fewer shards, or more and smaller files")
        self.sources = found[len(found) * index // count : len(found) * (index + 1) // count]

    def __iter__(self) -> Iterator[Text]:
        config, faults = self.config, readers.Faults()
        self.faults, self.large = faults, []
        for source, corpus in zip(self.sources, self.corpora or repeat(0)):  # noqa: B905
            read = readers.read(source, config.unit, config.text_field, config.encoding, faults)
            if config.unit == "file" and source.format == "txt":
                read = self._noting_size(read, source)
            yield from (text._replace(corpus=corpus) for text in read) if corpus else read
        faults.check(config.broken_rows)

    def notes(self) -> list[str]:
        """What a user should know of how the text was found and read, a line each."""
        fix = "if it holds several, `data.unit` blank-line or line separates them"
        large = [
            f"{name} is one document of {size / 1e6:,.0f} million characters; {fix}"
            for name, size in self.large
        ]
        return self.found + large + self.faults.notes()

    def _noting_size(self, read: Iterator[Text], source: Source) -> Iterator[Text]:
        for text in read:
            if len(text.text) > LARGE:
                self.large.append((source.name, len(text.text)))
            yield text

    def describe(self) -> list[dict[str, Any]]:
        return [source.describe() for source in self.sources]
