"""Accepts text in any form: names of sources, or texts, which are written to a temporary file.

Texts are strings that are not names of files, a DataFrame, a Hugging Face dataset, dicts with a field for the
text, or a generator of strings or dicts.
"""

from __future__ import annotations

import glob
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain, islice
from pathlib import Path
from reprlib import repr as shortened
from typing import Annotated, Any

from electra.commands.framework.command import OnCommandLine, Source, TypedNames
from electra.foundation.errors import ConfigError, CorpusError
from electra.foundation.options import as_name
from electra.foundation.visible import plural

Text = Source | Iterable[Any]
"""Names of sources, or texts: what `source_names` takes."""
Corpus = Annotated[Text | Mapping[str, Text], OnCommandLine(tuple[str, ...])]
SAMPLED_ITEMS = 100  # items that are examined to tell texts from names


@contextmanager
def source_names(
    data: Any, key: str, field: str, format: str, say: Callable[[str], None]
) -> Iterator[list[str]]:
    """Yields the names of the sources in `data`. Texts are written to a temporary file.

    Args:
        data: the argument of a command.
        key: its name, for errors.
        field: the field or column with the text.
        format: the format that the user gave for files, or auto.
        say: shows a line.

    Raises:
        ConfigError: the argument is neither names nor texts, has no split train, or has an empty corpus.
        CorpusError: the text column is missing, or an item is not a text.
    """
    with ExitStack() as stack:

        def names_of(corpus: Any) -> list[str]:
            texts = _texts(corpus, field, key)
            if not isinstance(texts, Iterator):
                return texts
            if format not in ("auto", "jsonl"):
                raise ConfigError("applies to files, but texts were passed", key="format", fix="Omit it")
            import tempfile

            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="electra-")))
            count = 0
            with open(folder / "texts.jsonl", "w", encoding="utf-8") as file:
                for count, text in enumerate(texts, 1):  # noqa: B007
                    file.write(f"{json.dumps({field: text})}\n")
            say(f"{plural(count, 'text')} passed (not names of files)")
            return [str(folder / "texts.jsonl")]

        if isinstance(data, Mapping) and not is_data_set(data):
            corpora = {str(name): names_of(corpus) for name, corpus in data.items()}
            if empty := [name for name, names in corpora.items() if not names]:
                raise ConfigError(
                    "the corpus has no files", key=empty[0], fix="Pass files, or omit the corpus"
                )
            yield [f"{name}={source}" for name, names in corpora.items() for source in names]
        else:
            yield names_of(data)


def _texts(data: Any, field: str, key: str) -> list[str] | Iterator[str | None]:
    """Returns names as a list, or texts as an iterator."""
    if isinstance(data, TypedNames):
        return [as_name(name, key) for name in data]
    if isinstance(data, Mapping):  # a data set with several splits
        if "train" not in data:
            fix = f"Pass one of its splits: {', '.join(map(str, data))}"
            raise ConfigError("the data set has no split named train", key=key, fix=fix)
        data = data["train"]
    table: Any = data
    if isinstance(data, str | os.PathLike) or not isinstance(data, Iterable):
        return [as_name(data, key)]
    columns = getattr(data, "column_names", None)  # a Hugging Face dataset; None if it streams
    if columns is None and hasattr(data, "to_dict") and hasattr(data, "columns"):  # a DataFrame
        columns = list(data.columns)
    if columns is not None:
        if field not in columns:
            problem = f"no column {field!r} (it has: {', '.join(map(str, columns))})"
            raise CorpusError(problem, where=key, fix="Pass the name of the column as `text_field`")
        items: Iterator[Any] = iter(table[field])
        return (_text(item, field, number) for number, item in enumerate(items, 1))
    items = iter(data)
    sample = list(islice(items, SAMPLED_ITEMS))
    are_names = all(isinstance(item, str | os.PathLike) for item in sample)
    if not any(isinstance(item, str | Mapping) for item in sample) or (are_names and not _are_texts(sample)):
        return [as_name(item, key) for item in chain(sample, items)]
    return (_text(item, field, number) for number, item in enumerate(chain(sample, items), 1))


def is_data_set(data: Mapping[Any, Any]) -> bool:
    """Whether this is a Hugging Face dataset with several splits, rather than corpora by name."""
    splits = data.values()
    return type(data) is not dict and bool(data) and all(hasattr(each, "column_names") for each in splits)


def _are_texts(items: list[Any]) -> bool:
    """Whether strings are texts: none is the name of a source or a glob, and some have several words."""
    from electra.data.sources import must_be_source

    def exists(item: Any) -> bool:
        try:
            return (
                isinstance(item, os.PathLike)
                or must_be_source(item)
                or os.path.exists(os.path.expanduser(item))
            )
        except ValueError:  # a NUL character
            return False

    return (
        not any(map(exists, items))
        and any(len(item.split()) > 1 for item in items)
        and not any(glob.has_magic(item) and len(item.split()) == 1 for item in items)
    )


def _text(item: Any, field: str, number: int) -> str | None:
    if isinstance(item, Mapping):
        from electra.data.tables import get_field

        item = get_field(item, field)
    if item is None or (isinstance(item, float) and math.isnan(item)):  # pandas' missing value
        return None
    if not isinstance(item, str):
        raise CorpusError(f"{shortened(item)} is not text", where=f"text {number}")
    return item
