"""A corpus: named sources of text, read as documents in a stable order, as often as needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

from electra.data import readers
from electra.data.mixture import parse_corpora
from electra.data.readers import Text
from electra.data.settings import CorpusConfig
from electra.data.sources import Source, find_sources
from electra.foundation.errors import ConfigError

LARGE = 10_000_000  # characters of a document; a long novel has three million


class Documents:
    """The documents of a corpus, which can be iterated repeatedly.

    Sources are files, folders, globs, `-`, remote addresses, `python-docs` and `hub:NAME[:CONFIG][:SPLIT]`.
    `scratch` is a folder for copies of sources that cannot be read twice. `shard` (i, n) selects the i-th
    (from 0) of n contiguous parts of the sources, so that the shards in order are the corpus.
    """

    def __init__(
        self,
        sources: Sequence[str | Path],
        config: CorpusConfig,
        scratch: Path,
        shard: tuple[int, int] = (0, 1),
    ) -> None:
        self.config = config
        self.corpora: list[int] = []  # the corpus number of each source, in a mixture
        self.search_notes: list[str] = []
        self.faults = readers.Faults()  # faults in the last iteration
        self.large: list[tuple[str, int]] = []  # .txt files read as a single document, in the last iteration
        options = config.source_options(self.search_notes.append)
        every: list[Source] = []
        if config.mix_temperature is None:
            every = find_sources(sources, scratch, options)
        else:
            for number, part in enumerate(parse_corpora(sources).values()):
                every += find_sources(part, scratch, options)
                self.corpora += [number] * (len(every) - len(self.corpora))
        index, count = shard
        if len(every) < count:
            problem = f"{len(every)} files cannot be divided into {count} shards"
            raise ConfigError(problem, key="shard", fix="Use fewer shards, or more and smaller files")
        self.sources = every[len(every) * index // count : len(every) * (index + 1) // count]

    def __iter__(self) -> Iterator[Text]:
        config, faults = self.config, readers.Faults()
        self.faults, self.large = faults, []
        for source, corpus in zip(self.sources, self.corpora or repeat(0)):  # noqa: B905
            read = readers.read_source(source, config.unit, config.text_field, config.encoding, faults)
            if config.unit == "file" and source.format == "txt":
                read = self._note_size(read, source)
            yield from (text._replace(corpus=corpus) for text in read) if corpus else read
        faults.check(config.broken_rows)

    def notes(self) -> list[str]:
        """Returns notes for the user on how the text was found and read, one line each."""
        fix = "if it holds several, separate them with --data.unit blank-line or line"
        large = [
            f"{name} is one document of {size / 1e6:,.0f} million characters; {fix}"
            for name, size in self.large
        ]
        return self.search_notes + large + self.faults.notes()

    def _note_size(self, read: Iterator[Text], source: Source) -> Iterator[Text]:
        for text in read:
            if len(text.text) > LARGE:
                self.large.append((source.name, len(text.text)))
            yield text

    def describe(self) -> list[dict[str, Any]]:
        """Returns what identifies each source; see `Source.describe`."""
        return [source.describe() for source in self.sources]
