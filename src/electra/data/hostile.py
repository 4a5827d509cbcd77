"""Tokenizer definitions that would take all memory, hang, or bring the library down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from electra.foundation.errors import TokenizerError

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
    ids, special = list(_numbers(entries, added)), _special_ids(definition.get("post_processor"))
    for number in (*ids, *special):
        if type(number) is not int or not 0 <= number < 2 * MOST_ENTRIES:
            raise TokenizerError(f"{number!r} is no token id", where=origin)
    if special and max(special) > max(ids, default=-1):
        what = f"its post-processor adds token id {max(special)}, which is outside its vocabulary"
        raise TokenizerError(what, where=origin)
    if _growth(definition.get("normalizer")) > MOST_GROWTH:
        what = f"its normalizer makes over {MOST_GROWTH:,} characters of one"
        raise TokenizerError(what, where=origin, fix="Download it again from its source")


def _numbers(entries: Any, added: Any) -> Iterator[Any]:
    """The ids of a vocabulary (a list numbers its entries) and of added tokens."""
    if isinstance(entries, Mapping):
        yield from entries.values()
    elif isinstance(entries, list):
        yield from range(len(entries))
    yield from (token["id"] for token in added if isinstance(token, Mapping) and "id" in token)


def _special_ids(processor: Any) -> list[Any]:
    """The ids that a post-processor adds: of a template's tokens, or of BERT's and RoBERTa's pair."""
    if not isinstance(processor, Mapping):
        return []
    parts, tokens = processor.get("processors"), processor.get("special_tokens")
    found = [number for part in parts for number in _special_ids(part)] if isinstance(parts, list) else []
    for token in tokens.values() if isinstance(tokens, Mapping) else ():
        found += token["ids"] if isinstance(token, Mapping) and isinstance(token.get("ids"), list) else []
    pairs = (processor.get(name) for name in ("cls", "sep"))
    return found + [pair[1] for pair in pairs if isinstance(pair, list) and len(pair) == 2]


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
    """Turn a panic of the library, which is no Exception, or its bare Exception into one line."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException" and type(error) is not Exception:  # what it raises
            raise
        what = (
            f"its tokenizer library gave up ({str(error).splitlines()[0][:200] if str(error) else 'a panic'})"
        )
        fix = "A pattern that backtracks without end, or no entry for its unk_token? Use another tokenizer"
        raise TokenizerError(what, where=origin, fix=fix) from None
