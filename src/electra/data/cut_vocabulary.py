"""A WordPiece vocabulary cut to the entries that a text needs most. Nothing else changes: the normalisation,
the names of the special tokens, and what each entry that stays is written as.

A word whose entry is gone is spelt with shorter ones, so the single letters stay, at the beginning of a word
and inside it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from electra.data.tokenizer import Tokenizer
from electra.foundation.arrays import Ints
from electra.foundation.errors import ConfigError, TokenizerError

AT_ONCE = 1000  # texts
RARE = 1e-6  # share of the text's characters below which a letter is not kept


@dataclass(frozen=True)
class VocabularyCut:
    """A tokenizer to make: `tokenizer` with the `size` entries that the text needs most."""

    tokenizer: Tokenizer
    size: int
    sample_mb: int = 100


def counts_in(texts: Sequence[str], tokenizer: Tokenizer) -> Ints:
    """How often each id of the tokenizer occurs in the texts [V]."""
    counts = np.zeros(tokenizer.vocab_size, dtype=np.int64)
    for first in range(0, len(texts), AT_ONCE):
        for ids in tokenizer.encode_corpus(texts[first : first + AT_ONCE]):
            counts += np.bincount(ids, minlength=len(counts))
    return counts


def cut(tokenizer: Tokenizer, counts: npt.NDArray[Any], size: int) -> Tokenizer:
    """The tokenizer with at most `size` entries, numbered in their old order. counts: of each id in the
    text [V].
    """
    content = json.loads(tokenizer.definition)
    if content["model"]["type"] != "WordPiece":
        what = f"only WordPiece vocabularies can be cut, and this is {content['model']['type']}"
        raise TokenizerError(what, where=tokenizer.origin, fix="Leave `cut_to` out")
    vocabulary: dict[str, int] = content["model"]["vocab"]
    prefix = content["model"]["continuing_subword_prefix"]
    needed = {token["content"] for token in content["added_tokens"]} | set(tokenizer.names.values())
    letters: Counter[str] = Counter()
    for piece, number in vocabulary.items():
        if counts[number] and piece not in needed:
            for letter in piece.removeprefix(prefix):
                letters[letter] += int(counts[number])
    least = RARE * sum(letters.values())
    for piece in vocabulary:
        letter = piece.removeprefix(prefix)
        if len(letter) == 1 and (letter.isascii() or letters[letter] > least):
            needed.add(piece)
    if size < len(needed):
        what = f"must be at least {len(needed):,}, the letters and special tokens of this text, not {size:,}"
        raise ConfigError(what, key="tokenizer.cut_to")
    by_use = sorted(
        vocabulary.keys() - needed, key=lambda piece: (-counts[vocabulary[piece]], vocabulary[piece])
    )
    kept = needed | set(by_use[: size - len(needed)])
    new = {
        piece: place
        for place, piece in enumerate(sorted(kept & vocabulary.keys(), key=vocabulary.__getitem__))
    }
    content["model"]["vocab"] = new
    return Tokenizer(
        json.dumps(_numbered(content, new), ensure_ascii=False), tokenizer.names, tokenizer.origin
    )


def entries(small: Tokenizer, large: Tokenizer) -> Ints | None:
    """The id in `large` of each entry of `small` [V], where `small` was cut from it; None: it was not."""
    mine, theirs = (json.loads(each.definition) for each in (small, large))
    own, known = (each["model"].get("vocab") for each in (mine, theirs))
    if not isinstance(own, dict) or not isinstance(known, dict) or not own.keys() <= known.keys():
        return None
    for each in (mine, theirs):
        each["model"]["vocab"] = {}
    unnumbered = dict.fromkeys(known, 0)
    if small.names != large.names or _numbered(mine, unnumbered) != _numbered(theirs, unnumbered):
        return None
    return np.array([known[piece] for piece in sorted(own, key=own.__getitem__)], dtype=np.int64)


def _numbered(content: dict[str, Any], numbers: dict[str, int]) -> dict[str, Any]:
    """A tokenizer's definition with these ids where it repeats those of its vocabulary."""
    added = [token | {"id": numbers[token["content"]]} for token in content["added_tokens"]]
    return content | {
        "added_tokens": added,
        "post_processor": _renumbered(content["post_processor"], numbers),
    }


def _renumbered(processor: Any, numbers: dict[str, int]) -> Any:
    if not isinstance(processor, dict):
        return processor
    new = dict(processor)
    if "processors" in new:
        new["processors"] = [_renumbered(each, numbers) for each in new["processors"]]
    for role in ("cls", "sep"):  # BertProcessing
        if isinstance(pair := new.get(role), list):
            new[role] = [pair[0], numbers[pair[0]]]
    if isinstance(special := new.get("special_tokens"), dict):  # TemplateProcessing
        new["special_tokens"] = {
            name: token | {"ids": [numbers[each] for each in token["tokens"]]}
            for name, token in special.items()
        }
    return new
