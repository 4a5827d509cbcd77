"""Tokenizer definitions that would take all memory, hang, or bring the library down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from electra.errors import TokenizerError

MOST_ENTRIES, MOST_ADDED = 2_000_000, 20_000  # the largest published vocabularies have a million
MOST_GROWTH = 1000  # characters that a normalizer may make of one


def refuse(definition: Mapping[str, Any], origin: object) -> None:
    """Refuse what no published tokenizer has, before the library builds it."""
    model, added = definition.get("model"), definition.get("added_tokens") or []
    entries = model.get("vocab") if isinstance(model, Mapping) else None
    sizes = [(entries, MOST_ENTRIES, "vocabulary"), (added, MOST_ADDED, "list of added tokens")]
    for found, most, name in sizes:
        if isinstance(found, list | dict) and len(found) > most:
            raise TokenizerError(f"its {name} has {len(found):,} entries, over {most:,}", where=origin)
    if _growth(definition.get("normalizer")) > MOST_GROWTH:
        what = f"its normalizer makes over {MOST_GROWTH:,} characters of one"
        raise TokenizerError(what, where=origin, fix="Download it again from its source")


def _growth(normalizer: Any) -> int:
    """By how much a normalizer can lengthen a text."""
    if not isinstance(normalizer, Mapping):
        return 1
    total = 1
    parts = normalizer.get("normalizers")
    for part in parts if isinstance(parts, list) else []:
        total = min(total * _growth(part), MOST_GROWTH + 1)  # no further: the numbers would grow, too
    contents = (normalizer.get(name) for name in ("content", "prepend"))
    return total * max(1, *(len(text) for text in contents if isinstance(text, str)), 1)


@contextmanager
def panics(origin: object) -> Iterator[None]:
    """Turn a panic of the library, which is no Exception, into one line."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        what = (
            f"its tokenizer library gave up ({str(error).splitlines()[0][:200] if str(error) else 'a panic'})"
        )
        fix = "A pattern that backtracks without end? Use a tokenizer from a source you know"
        raise TokenizerError(what, where=origin, fix=fix) from None
