"""Accepts text in any form: names of sources, or texts.

Texts are strings that are not names of files, a DataFrame, a Hugging Face dataset, dicts with a field for the
text, or a generator of strings or dicts.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from glob import has_magic
from itertools import islice
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Annotated, Any

from electra.commands.framework.command import TypedNames
from electra.foundation.errors import ConfigError, CorpusError
from electra.foundation.options import OnCommandLine, Source, as_name
from electra.foundation.terminal_text import plural

if TYPE_CHECKING:
    from electra.data.sources import Argument, Texts

Text = Source | Iterable[Any]
"""Names of sources, or texts: what `sources_of` takes."""
Corpus = Annotated[Text, OnCommandLine(tuple[str, ...])]
SAMPLED_ITEMS = 100  # items that are examined to tell texts from names


def sources_of(data: Any, key: str, field: str, format: str, say: Callable[[str], None]) -> list[Argument]:
    """Returns the sources in the argument `key` of a command: names, or texts, which are read where they are.

    `field` is the field or column with the text, `format` what the user said of files (or auto). Raises
    ConfigError if the argument is neither or has no split train, and CorpusError for what is not text.
    """
    found = _names_or_texts(data, field, key)
    if isinstance(found, list):
        return list(found)
    if format not in ("auto", "jsonl"):
        raise ConfigError("applies to files, but texts were passed", key="format", fix="Omit it")
    say(f"{plural(sum(1 for _ in found.items), 'text')} passed (not names of files)")
    return [found]


@dataclass(frozen=True)
class _Column:
    """The texts of a table or list, checked as they are read."""

    items: Iterable[Any]
    field: str

    def __iter__(self) -> Iterator[str | None]:
        for number, item in enumerate(self.items, 1):
            yield _text(item, self.field, number)


def _names_or_texts(data: Any, field: str, key: str) -> list[str] | Texts:
    from electra.data.sources import Texts

    if isinstance(data, TypedNames):
        return [as_name(name, key) for name in data]
    if isinstance(data, Mapping):  # a data set with several splits
        if "train" not in data:
            fix = f"Pass one of its splits: {', '.join(map(str, data))}"
            raise ConfigError("the data set has no split named train", key=key, fix=fix)
        data = data["train"]
    if isinstance(data, str | os.PathLike) or not isinstance(data, Iterable):
        return [as_name(data, key)]
    table: Any = data
    columns = getattr(data, "column_names", None)  # a Hugging Face dataset; None if it streams
    if columns is None and hasattr(data, "to_dict") and hasattr(data, "columns"):  # a DataFrame
        columns = list(table.columns)
    if columns is not None:
        if field not in columns:
            problem = f"no column {field!r} (it has: {', '.join(map(str, columns))})"
            raise CorpusError(problem, where=key, fix="Pass the name of the column as `text_field`")
        return Texts(_Column(table[field], field), field)
    items: Iterable[Any] = data if iter(data) is not data else list(data)  # a generator is read once
    sample = list(islice(items, SAMPLED_ITEMS))
    are_names = all(isinstance(item, str | os.PathLike) for item in sample)
    if not any(isinstance(item, str | Mapping) for item in sample) or (are_names and not _are_texts(sample)):
        return [as_name(item, key) for item in items]
    return Texts(_Column(items, field), field)


def _are_texts(items: list[Any]) -> bool:
    """Whether strings are texts: none is the name of a source or a glob, and some have several words."""
    from electra.data.sources import must_be_source

    if any(isinstance(item, os.PathLike) or must_be_source(item) for item in items):
        return False
    with suppress(ValueError):  # a NUL character is in no name
        if any(os.path.exists(os.path.expanduser(item)) for item in items):
            return False
    words = [item.split() for item in items]
    globs = [item for item, split in zip(items, words, strict=True) if len(split) == 1 and has_magic(item)]
    return not globs and any(len(split) > 1 for split in words)


def _text(item: Any, field: str, number: int) -> str | None:
    if isinstance(item, Mapping):
        from electra.data.tables import get_field

        item = get_field(item, field)
    if item is None or (isinstance(item, float) and math.isnan(item)):  # pandas' missing value
        return None
    if not isinstance(item, str):
        raise CorpusError(f"{shortened(item)} is not text", where=f"text {number}")
    return item
