"""A corpus: named sources of text, read as documents in a stable order, as often as needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, Literal

from electra.data import readers
from electra.data.lines import encoding_of
from electra.data.mixture import Mixture, named
from electra.data.near import bands
from electra.data.readers import Text, Unit
from electra.data.sources import Finding, Source, find_sources
from electra.foundation.errors import ConfigError

Format = Literal["auto", "txt", "csv", "tsv", "json", "jsonl", "parquet", "arrow"]


@dataclass(frozen=True)
class CorpusConfig:
    """How text is read, and how much of it is set aside."""

    unit: Unit = "file"
    """What is one document of a .txt file: the whole file, a part between blank lines, or a line."""
    text_field: str = "text"
    """The field or column of tables (csv, JSON, parquet, hub data sets) that holds the text; a.b for a field
    within another.
    """
    format: Format = "auto"
    """The format of every source, for files whose suffix does not tell; stdin is txt unless told."""
    encoding: str | None = None
    """The encoding of text, csv and JSON, such as cp1252 (None: UTF-8, or UTF-16 where a file begins so)."""
    broken_rows: float = 0.01
    """The share of rows of tables that may be left out because they cannot be read or have no text."""
    heldout: float = 0.005
    """The share of documents held out for evaluation, chosen by a hash of their text; at least one."""
    near_duplicates: float | None = None
    """Documents at least so similar to an earlier one are dropped, from 0.5 to 1 (None: only equal ones)."""
    mix_temperature: float | None = None
    """Mix named corpora by this power of their sizes, from 0 to 1 (None: sources have no names)."""
    mix_seed: int = 0
    """Of the draw of the documents that a mixture repeats or leaves out."""

    def __post_init__(self) -> None:
        if self.encoding is not None:
            encoding_of(b"", self.encoding, "data.encoding")
        if self.near_duplicates is not None:
            bands(self.near_duplicates)
        if not 0 <= self.broken_rows <= 1:
            what = f"must lie between 0 and 1, not {self.broken_rows}"
            raise ConfigError(what, key="data.broken_rows")
        if not 0 < self.heldout < 1:
            raise ConfigError(f"a held-out share of {self.heldout}", fix="It must lie between 0 and 1")
        if self.mix_temperature is not None and not 0 <= self.mix_temperature <= 1:
            raise ConfigError(
                f"must lie between 0 and 1, not {self.mix_temperature}", key="data.mix_temperature"
            )

    def record(self, arguments: Sequence[str | Path]) -> dict[str, Any]:
        """The settings as a store records them."""
        settings = asdict(self)
        del settings["broken_rows"]  # it decides whether there is a store, not what is in it
        if self.encoding is None:  # as in stores that were made when there was no other
            del settings["encoding"]
        if self.mix_temperature is None:
            del settings["mix_temperature"], settings["mix_seed"]
        else:
            settings["corpora"] = {name: len(sources) for name, sources in named(arguments).items()}
        return settings

    def finding(self, say: Callable[[str], None] = lambda note: None) -> Finding:
        """How sources are found."""
        return Finding(self.format, self.text_field, self.encoding, say)

    def plain(self, arguments: Sequence[str | Path]) -> list[str]:
        """The sources without the names of corpora."""
        if self.mix_temperature is None:
            return list(map(str, arguments))
        return [source for sources in named(arguments).values() for source in sources]

    def mixture(self, arguments: Sequence[str | Path]) -> Mixture | None:
        if self.mix_temperature is None:
            return None
        return Mixture(list(named(arguments)), self.mix_temperature, self.mix_seed)


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
        self.faults = faults
        for source, corpus in zip(self.sources, self.corpora or repeat(0)):  # noqa: B905
            read = readers.read(source, config.unit, config.text_field, config.encoding, faults)
            yield from (text._replace(corpus=corpus) for text in read) if corpus else read
        faults.check(config.broken_rows)

    def notes(self) -> list[str]:
        """What a user should know of how the text was found and read, a line each."""
        return self.found + self.faults.notes()

    def describe(self) -> list[dict[str, Any]]:
        return [source.describe() for source in self.sources]
