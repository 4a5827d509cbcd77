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
from electra.data.sources import Argument, Source, find_sources


class Documents:
    """The documents of a corpus, which can be iterated repeatedly.

    Sources are files, folders, globs, `-`, remote addresses, `python-docs` and `hub:NAME[:CONFIG][:SPLIT]`.
    `scratch` is a folder for copies of sources that cannot be read twice; files need none.

    Raises ConfigError if a mixture has unnamed corpora, and CorpusError if a source does not exist.
    Iterating raises CorpusError if text cannot be read.
    """

    def __init__(self, sources: Sequence[Argument], config: CorpusConfig, scratch: Path = Path()) -> None:
        self.config = config
        self.corpora: list[int] = []  # the index of each source's corpus in a mixture; else empty
        self.search_notes: list[str] = []  # for the user, on how the sources were found
        self.faults = readers.Faults()  # faults in the last iteration
        options = config.source_options(self.search_notes.append)
        self.sources: list[Source] = []
        if config.mix_exponent is None:
            self.sources = find_sources(sources, scratch, options)
        else:
            for corpus, arguments in enumerate(parse_corpora(sources).values()):
                self.sources += find_sources(arguments, scratch, options)
                self.corpora += [corpus] * (len(self.sources) - len(self.corpora))

    def __iter__(self) -> Iterator[Text]:
        config, faults = self.config, readers.Faults()
        self.faults = faults
        for source, corpus in zip(self.sources, self.corpora or repeat(0)):  # noqa: B905
            texts = readers.read_source(source, config.unit, config.text_field, config.encoding, faults)
            yield from (text._replace(corpus=corpus) for text in texts) if corpus else texts
        faults.check(config.broken_rows)

    def notes(self) -> list[str]:
        """Returns notes for the user on how the text was found and read, one line each."""
        return self.search_notes + self.faults.notes()

    def describe(self) -> list[dict[str, Any]]:
        """Returns what identifies each source; see `Source.describe`."""
        return [source.describe() for source in self.sources]
