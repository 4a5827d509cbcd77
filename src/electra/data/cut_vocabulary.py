"""Cuts a WordPiece vocabulary down to the entries that a text needs most.

The normalisation, the names of the special tokens and the spelling of the remaining entries do not change.
A word whose entry is removed is encoded by shorter entries. So single letters are kept unless they are very
rare, both for the start and for the inside of a word.
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

TEXTS_PER_CALL = 1000
MIN_LETTER_SHARE = 1e-6  # of the text's characters; rarer letters beyond ASCII get no entry


@dataclass(frozen=True)
class VocabularyCut:
    """Settings of a cut: the `size` entries of `tokenizer` that a text needs most.

    They are counted in a sample of `sample_mb` million characters.
    """

    tokenizer: Tokenizer
    size: int
    sample_mb: int = 100


def counts_in(texts: Sequence[str], tokenizer: Tokenizer) -> Ints:
    """Returns the number of occurrences [V] of each token id in the texts."""
    counts = np.zeros(tokenizer.vocab_size, dtype=np.int64)
    for first in range(0, len(texts), TEXTS_PER_CALL):
        for ids in tokenizer.encode_corpus(texts[first : first + TEXTS_PER_CALL]):
            counts += np.bincount(ids, minlength=len(counts))
    return counts


def cut(tokenizer: Tokenizer, counts: npt.NDArray[Any], size: int) -> Tokenizer:
    """Returns the tokenizer with at most `size` of its entries, in their old order.

    Args:
        tokenizer: a WordPiece tokenizer.
        counts: the number of occurrences [V] of each id in the text.
        size: the number of entries to keep, including special tokens and letters.

    Raises:
        TokenizerError: the tokenizer is not WordPiece, or has added tokens outside its vocabulary.
        ConfigError: `size` is too small for the letters and special tokens.
    """
    content = json.loads(tokenizer.definition)
    if content["model"]["type"] != "WordPiece":
        problem = f"only WordPiece vocabularies can be cut, not {content['model']['type']}"
        raise TokenizerError(problem, where=tokenizer.origin, fix="Omit `cut_to`")
    vocabulary: dict[str, int] = content["model"]["vocab"]
    prefix = content["model"]["continuing_subword_prefix"]
    needed_pieces = {token["content"] for token in content["added_tokens"]} | set(tokenizer.names.values())
    letters: Counter[str] = Counter()
    for piece, id_ in vocabulary.items():
        if counts[id_] and piece not in needed_pieces:
            for letter in piece.removeprefix(prefix):
                letters[letter] += int(counts[id_])
    min_count = MIN_LETTER_SHARE * letters.total()
    for piece in vocabulary:
        letter = piece.removeprefix(prefix)
        if len(letter) == 1 and (letter.isascii() or letters[letter] > min_count):
            needed_pieces.add(piece)
    if size < len(needed_pieces):
        problem = (
            f"must be at least {len(needed_pieces):,} (this text's letters and special tokens), not {size:,}"
        )
        raise ConfigError(problem, key="tokenizer.cut_to")
    by_frequency = sorted(
        vocabulary.keys() - needed_pieces, key=lambda piece: (-counts[vocabulary[piece]], vocabulary[piece])
    )
    kept_pieces = (needed_pieces | set(by_frequency[: size - len(needed_pieces)])) & vocabulary.keys()
    ids = {piece: index for index, piece in enumerate(sorted(kept_pieces, key=vocabulary.__getitem__))}
    content["model"]["vocab"] = ids
    try:
        definition = json.dumps(_renumber(content, ids), ensure_ascii=False)
    except KeyError as outside:
        problem = f"the added token {outside} is not in its vocabulary, so it cannot be cut"
        raise TokenizerError(problem, where=tokenizer.origin, fix="Omit `cut_to`") from None
    return Tokenizer(definition, tokenizer.names, tokenizer.origin)


def ids_in_original(cut: Tokenizer, original: Tokenizer) -> Ints | None:
    """Returns the ids [V] in `original` of the entries of `cut`; None if `cut` is no cut of `original`."""
    definitions = [json.loads(tokenizer.definition) for tokenizer in (cut, original)]
    entries, all_entries = (definition["model"].get("vocab") for definition in definitions)
    if not isinstance(entries, dict) or not isinstance(all_entries, dict):
        return None
    if not entries.keys() <= all_entries.keys() or cut.names != original.names:
        return None
    for definition in definitions:
        definition["model"]["vocab"] = {}
    same_id = dict.fromkeys(all_entries, 0)
    try:
        without_ids = [_renumber(definition, same_id) for definition in definitions]
    except KeyError:  # an added token outside the vocabulary: `cut` refuses such tokenizers
        return None
    if without_ids[0] != without_ids[1]:
        return None
    return np.array(
        [all_entries[piece] for piece in sorted(entries, key=entries.__getitem__)], dtype=np.int64
    )


def _renumber(content: dict[str, Any], ids: dict[str, int]) -> dict[str, Any]:
    """Returns a tokenizer's definition with new `ids` wherever it contains ids outside its vocabulary."""
    added = [token | {"id": ids[token["content"]]} for token in content["added_tokens"]]
    return content | {
        "added_tokens": added,
        "post_processor": _renumber_processor(content["post_processor"], ids),
    }


def _renumber_processor(processor: Any, ids: dict[str, int]) -> Any:
    if not isinstance(processor, dict):
        return processor
    renumbered = dict(processor)
    if "processors" in renumbered:
        renumbered["processors"] = [_renumber_processor(inner, ids) for inner in renumbered["processors"]]
    for role in ("cls", "sep"):  # BertProcessing
        if isinstance(pair := renumbered.get(role), list):
            renumbered[role] = [pair[0], ids[pair[0]]]
    if isinstance(special_tokens := renumbered.get("special_tokens"), dict):  # TemplateProcessing
        renumbered["special_tokens"] = {
            name: token | {"ids": [ids[inner] for inner in token["tokens"]]}
            for name, token in special_tokens.items()
        }
    return renumbered
