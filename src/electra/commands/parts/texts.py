"""Text as Python has it: names of sources, or texts, which are written to a file once and read from there.

Texts are strings that name no file, a DataFrame, a data set of the library `datasets`, dicts with the field
of the text, or a generator of any of these.
"""

from __future__ import annotations

import glob
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain, islice
from pathlib import Path
from reprlib import repr as shortened
from typing import Annotated, Any

from electra.commands.framework.command import OnCommandLine, Source, Words
from electra.foundation.errors import ConfigError, CorpusError
from electra.foundation.options import given_name

Text = Source | Iterable[Any]
"""Names of sources, or texts: what `named_sources` takes."""
Corpus = Annotated[Text | Mapping[str, Text], OnCommandLine(tuple[str, ...])]
LOOKED_AT = 100  # items by which texts are told from names


@contextmanager
def named_sources(
    given: Any, key: str, field: str, format: str, say: Callable[[str], None]
) -> Iterator[list[str]]:
    """The names of what was given for `key`. Texts are in a temporary file, which is removed at the end.

    field: of dicts and tables, that holds the text. format: as the user says the files are.
    """
    with ExitStack() as stack:

        def one(given: Any) -> list[str]:
            texts = _texts(given, field, key)
            if not isinstance(texts, Iterator):
                return texts
            if format not in ("auto", "jsonl"):
                raise ConfigError("texts are given, and this is for files", key="format", fix="Leave it out")
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="electra-")))
            count = 0
            with open(folder / "texts.jsonl", "w", encoding="utf-8") as file:
                for count, text in enumerate(texts, 1):  # noqa: B007
                    file.write(f"{json.dumps({field: text})}\n")
            say(f"{count:,} {'text' if count == 1 else 'texts'} given, none of them the name of a file")
            return [str(folder / "texts.jsonl")]

        if isinstance(given, Mapping) and not is_data_set(given):
            found = {str(name): one(each) for name, each in given.items()}
            if nothing := [name for name in found if not found[name]]:
                fix = "Give its files, or leave the corpus out"
                raise ConfigError("a corpus of no files", key=nothing[0], fix=fix)
            yield [f"{name}={each}" for name in found for each in found[name]]
        else:
            yield one(given)


def _texts(given: Any, field: str, key: str) -> list[str] | Iterator[str | None]:
    """Names as a list, or texts one by one."""
    if isinstance(given, Words):
        return [given_name(name, key) for name in given]
    if isinstance(given, Mapping):  # a data set of several splits
        if "train" not in given:
            fix = f"Give one of them: {', '.join(map(str, given))}"
            raise ConfigError("a data set without a split named train", key=key, fix=fix)
        given = given["train"]
    table: Any = given
    if isinstance(given, str | os.PathLike) or not isinstance(given, Iterable):
        return [given_name(given, key)]
    columns = getattr(given, "column_names", None)  # of `datasets`; None where it streams
    if columns is None and hasattr(given, "to_dict") and hasattr(given, "columns"):  # of pandas
        columns = list(given.columns)
    if columns is not None:
        if field not in columns:
            what = f"no column {field!r} (it has: {', '.join(map(str, columns))})"
            raise CorpusError(what, where=key, fix="Name the column with `text_field`")
        items: Iterator[Any] = iter(table[field])
        return (_text(item, field, number) for number, item in enumerate(items, 1))
    items = iter(given)
    first = list(islice(items, LOOKED_AT))
    names = all(isinstance(item, str | os.PathLike) for item in first)
    if not any(isinstance(item, str | Mapping) for item in first) or (names and not _are_texts(first)):
        return [given_name(item, key) for item in chain(first, items)]
    return (_text(item, field, number) for number, item in enumerate(chain(first, items), 1))


def is_data_set(given: Mapping[Any, Any]) -> bool:
    """Whether this is a data set of several splits of the library `datasets`, not corpora by name."""
    return (
        type(given) is not dict
        and bool(given)
        and all(hasattr(split, "column_names") for split in given.values())
    )


def _are_texts(items: list[Any]) -> bool:
    """Whether strings are texts: none names a source, and some could not, having spaces and no ending."""
    from electra.data.sources import is_name

    def exists(item: Any) -> bool:
        try:
            return isinstance(item, os.PathLike) or is_name(item) or os.path.exists(os.path.expanduser(item))
        except ValueError:  # a NUL character
            return False

    return (
        not any(map(exists, items))
        and any(len(item.split()) > 1 for item in items)
        and not any(glob.has_magic(item) and len(item.split()) == 1 for item in items)
    )


def _text(item: Any, field: str, number: int) -> str | None:
    if isinstance(item, Mapping):
        from electra.data.rows import get_field

        item = get_field(item, field)
    if item is None or (isinstance(item, float) and math.isnan(item)):  # how pandas writes nothing
        return None
    if not isinstance(item, str):
        raise CorpusError(f"{shortened(item)} is not a text", where=f"text {number}")
    return item
