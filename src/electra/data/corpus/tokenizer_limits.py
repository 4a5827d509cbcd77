"""Refuses tokenizer definitions that would exhaust memory, hang, or crash the library."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from electra.foundation.errors import TokenizerError, reason_of

MAX_ENTRIES, MAX_ADDED = 2_000_000, 20_000  # the largest published vocabularies have a million
MAX_GROWTH = 1000  # characters into which a normalizer may turn one


def check(definition: Mapping[str, Any], origin: object) -> None:
    """Raises TokenizerError for a definition that is far too large, or inflates texts."""
    model, added = definition.get("model"), definition.get("added_tokens") or []
    entries = model.get("vocab") if isinstance(model, Mapping) else None
    sizes = [(entries, MAX_ENTRIES, "vocabulary"), (added, MAX_ADDED, "list of added tokens")]
    for collection, maximum, name in sizes:
        if isinstance(collection, list | dict) and len(collection) > maximum:
            problem = f"its {name} has {len(collection):,} entries, over {maximum:,}"
            raise TokenizerError(problem, where=origin)
    if _growth(definition.get("normalizer")) > MAX_GROWTH:
        problem = f"its normalizer turns one character into over {MAX_GROWTH:,}"
        raise TokenizerError(problem, where=origin, fix="Download it again from its source")


def _growth(normalizer: Any) -> int:
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
