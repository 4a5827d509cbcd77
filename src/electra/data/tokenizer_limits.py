"""Refuses tokenizer definitions that would exhaust memory, hang, or crash the library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from electra.foundation.errors import TokenizerError, reason_of

MAX_ENTRIES, MAX_ADDED = 2_000_000, 20_000  # the largest published vocabularies have a million
MAX_GROWTH = 1000  # characters into which a normalizer may turn one


def check(definition: Mapping[str, Any], origin: object) -> None:
    """Raises TokenizerError for a definition that is far too large, has invalid ids, or inflates texts."""
    model, added = definition.get("model"), definition.get("added_tokens") or []
    entries = model.get("vocab") if isinstance(model, Mapping) else None
    sizes = [(entries, MAX_ENTRIES, "vocabulary"), (added, MAX_ADDED, "list of added tokens")]
    for collection, maximum, name in sizes:
        if isinstance(collection, list | dict) and len(collection) > maximum:
            raise TokenizerError(
                f"its {name} has {len(collection):,} entries, over {maximum:,}", where=origin
            )
    ids, special_ids = list(_ids(entries, added)), _special_ids(definition.get("post_processor"))
    for id_ in (*ids, *special_ids):
        if type(id_) is not int or not 0 <= id_ < 2 * MAX_ENTRIES:
            raise TokenizerError(f"{id_!r} is not a token id", where=origin)
    if special_ids and max(special_ids) > max(ids, default=-1):
        problem = f"its post-processor adds token id {max(special_ids)}, which is outside its vocabulary"
        raise TokenizerError(problem, where=origin)
    if _growth(definition.get("normalizer")) > MAX_GROWTH:
        problem = f"its normalizer turns one character into over {MAX_GROWTH:,}"
        raise TokenizerError(problem, where=origin, fix="Download it again from its source")


def _ids(entries: Any, added: Any) -> Iterator[Any]:
    """Yields the ids of a vocabulary (for a list, the positions) and of added tokens."""
    if isinstance(entries, Mapping):
        yield from entries.values()
    elif isinstance(entries, list):
        yield from range(len(entries))
    yield from (token["id"] for token in added if isinstance(token, Mapping) and "id" in token)


def _special_ids(processor: Any) -> list[Any]:
    """Returns the ids that a post-processor adds: a template's tokens, or BERT's and RoBERTa's pair."""
    if not isinstance(processor, Mapping):
        return []
    parts, tokens = processor.get("processors"), processor.get("special_tokens")
    ids = [id_ for part in parts for id_ in _special_ids(part)] if isinstance(parts, list) else []
    for token in tokens.values() if isinstance(tokens, Mapping) else ():
        ids += token["ids"] if isinstance(token, Mapping) and isinstance(token.get("ids"), list) else []
    pairs = (processor.get(name) for name in ("cls", "sep"))
    return ids + [pair[1] for pair in pairs if isinstance(pair, list) and len(pair) == 2]


def _growth(normalizer: Any) -> int:
    """Returns the factor by which a normalizer can lengthen a text."""
    if not isinstance(normalizer, Mapping):
        return 1
    factor = 1
    parts = normalizer.get("normalizers")
    for part in parts if isinstance(parts, list) else []:
        factor = min(factor * _growth(part), MAX_GROWTH + 1)  # capped: the product may be astronomical
    contents = (normalizer.get(name) for name in ("content", "prepend"))
    return factor * max(1, *(len(text) for text in contents if isinstance(text, str)), 1)


@contextmanager
def explain_panics(origin: object) -> Iterator[None]:
    """Turns a panic of the library (not an Exception) or a bare Exception from it into a TokenizerError."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException" and type(error) is not Exception:
            raise
        reason = reason_of(error)[:200]
        fix = "Use another tokenizer; this one may have an endless pattern, or no entry for its unk_token"
        raise TokenizerError(f"the tokenizers library failed ({reason})", where=origin, fix=fix) from None
