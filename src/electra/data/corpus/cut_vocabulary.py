"""Cuts the vocabulary of a WordPiece, BPE or Unigram tokenizer down to the pieces that a text needs.

A text whose pieces all stay is encoded as before: WordPiece takes the longest match, Unigram the likeliest
path, BPE the first merge, and what wins among all pieces also wins among those that stay. A word whose piece
leaves is encoded by shorter ones. So letters stay unless they are very rare, and all bytes.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from electra.data.corpus.tokenizer import Tokenizer
from electra.foundation.arrays import Ints
from electra.foundation.errors import TokenizerError

TEXTS_PER_CALL = 10_000
MIN_LETTER_SHARE = 1e-6  # of the text's characters; rarer letters beyond ASCII may leave
LAST_PAD = 100  # up to this id of padding, all ids before it stay: RoBERTa counts positions from it
_BYTE = re.compile("<0x[0-9A-F]{2}>")


def counts_in(texts: Sequence[str], tokenizer: Tokenizer) -> Ints:
    """Returns the number of occurrences [V] of each token id in the texts."""
    counts = np.zeros(tokenizer.vocab_size, dtype=np.int64)
    for first in range(0, len(texts), TEXTS_PER_CALL):
        ids = np.concatenate(tokenizer.encode_corpus(texts[first : first + TEXTS_PER_CALL]))
        counts += np.bincount(ids, minlength=len(counts))
    return counts


def cut(tokenizer: Tokenizer, counts: npt.NDArray[Any], coverage: float) -> Tokenizer:
    """Returns the tokenizer with the most frequent pieces of a text, in their old order.

    `counts` [V] are those of the ids in the text, `coverage` is the share of its tokens whose pieces stay.
    Special and added tokens, letters and bytes stay in any case, and what BPE merges on its way to a piece.
    Raises TokenizerError if the tokenizer is no WordPiece, BPE or Unigram one.
    """
    content = json.loads(tokenizer.definition)
    model, vocabulary = content["model"], tokenizer.vocabulary
    if (kind := model["type"]) not in ("WordPiece", "BPE", "Unigram"):
        problem = f"only WordPiece, BPE and Unigram vocabularies can be cut, not {kind}"
        raise TokenizerError(problem, where=tokenizer.origin, fix="Omit `cut_to`")
    prefix, suffix = model.get("continuing_subword_prefix") or "", model.get("end_of_word_suffix") or ""
    entries: list[Any] = model["vocab"]
    unknown, pad = model.get("unk_token"), tokenizer.specials.pad
    kept = {token["content"] for token in content["added_tokens"]} | {*tokenizer.names.values()}
    kept |= {piece for piece, id_ in vocabulary.items() if id_ <= pad < LAST_PAD or _BYTE.fullmatch(piece)}
    if kind == "Unigram":
        unknown = None if model["unk_id"] is None else entries[model["unk_id"]][0]
        kept.add(min(entries, key=lambda entry: entry[1])[0])  # unknown characters have a little less
        entries = [entry for index, entry in enumerate(entries) if vocabulary[entry[0]] == index]
        model["vocab"] = dict(entries)
    if unknown in vocabulary:
        kept.add(unknown)

    count = {piece: int(counts[id_]) for piece, id_ in vocabulary.items()}
    bare = {piece: piece.removeprefix(prefix).removesuffix(suffix) for piece in vocabulary.keys() - kept}
    is_bytes = '"ByteLevel"' in json.dumps([content["pre_tokenizer"], content["decoder"]])
    kept |= _letters(bare, count, is_bytes)
    missing = coverage * sum(count.values()) - sum(map(count.__getitem__, kept))
    for piece in sorted(vocabulary.keys() - kept, key=lambda piece: (-count[piece], vocabulary[piece])):
        if missing <= 0 or not count[piece]:
            break
        kept.add(piece)
        missing -= count[piece]

    if kind == "BPE":
        pairs = [tuple(each.split(" ")) if isinstance(each, str) else tuple(each) for each in model["merges"]]
        ranks = {pair: -rank for rank, pair in enumerate(reversed(pairs))}  # of the first, if one recurs
        on_the_way = {part for piece in kept for part in _merged(piece, ranks, prefix, suffix)}
        kept |= on_the_way & vocabulary.keys()
        model["merges"] = [
            [left, right] for left, right in pairs if {left, right, left + right.removeprefix(prefix)} <= kept
        ]
    if len(kept) == len(vocabulary):
        return tokenizer
    ordered = sorted(kept, key=lambda piece: (piece not in model["vocab"], vocabulary[piece]))
    ids = {piece: index for index, piece in enumerate(ordered)}
    model["vocab"] = {piece: ids[piece] for piece in ordered if piece in model["vocab"]}
    if kind == "Unigram":
        model["vocab"] = [entry for entry in entries if entry[0] in kept]
        model["unk_id"] = ids.get(unknown)
    try:
        definition = json.dumps(_renumbered(content, ids), ensure_ascii=False)
    except KeyError as outside:
        problem = f"its post_processor adds {outside}, which is not in its vocabulary"
        raise TokenizerError(problem, where=tokenizer.origin, fix="Omit `cut_to`") from None
    made = Tokenizer(definition, tokenizer.names, tokenizer.origin)
    assert made.vocabulary == ids
    return made


def _letters(bare: Mapping[str, str], count: Mapping[str, int], is_bytes: bool) -> set[str]:
    """Returns the pieces that are one letter, of ASCII or with MIN_LETTER_SHARE of the text, or a byte."""
    letters = Counter[str]()
    for piece, text in bare.items():
        for letter in text:
            letters[letter] += count[piece]
    usual = {letter for letter, number in letters.items() if number > MIN_LETTER_SHARE * letters.total()}
    alone = {piece: text for piece, text in bare.items() if len(text) == 1}
    return {piece for piece, text in alone.items() if is_bytes or text.isascii() or text in usual}


def _merged(piece: str, ranks: Mapping[tuple[str, ...], int], prefix: str, suffix: str) -> Iterator[str]:
    """Yields the letters of a piece, and what BPE makes of them on its way to the piece."""
    letters = piece.removeprefix(prefix).removesuffix(suffix)
    parts = [prefix + letter for letter in letters]
    if parts:
        parts[0] = piece[: len(parts[0])] if piece.startswith(prefix) else letters[0]
        parts[-1] += suffix if piece.endswith(suffix) else ""
    yield from parts
    while known := [(ranks[pair], index) for index, pair in enumerate(pairwise(parts)) if pair in ranks]:
        _, index = min(known)
        left, right = parts[index : index + 2]
        parts[index : index + 2] = [left + right.removeprefix(prefix)]
        yield parts[index]


def ids_in_original(cut: Tokenizer, original: Tokenizer) -> Ints | None:
    """Returns the ids [V] in `original` of the pieces of `cut`; None if `cut` is no cut of `original`."""
    ids, all_ids = cut.vocabulary, original.vocabulary
    if not ids.keys() <= all_ids.keys() or cut.names != original.names:
        return None

    def without_ids(tokenizer: Tokenizer) -> dict[str, Any]:
        content = _renumbered(json.loads(tokenizer.definition), defaultdict(int))
        return content | {"model": content["model"] | {"vocab": None, "merges": None, "unk_id": None}}

    if without_ids(cut) != without_ids(original):
        return None
    return np.array([all_ids[piece] for piece in sorted(ids, key=ids.__getitem__)], dtype=np.int64)


def _renumbered(content: dict[str, Any], ids: Mapping[str, int]) -> dict[str, Any]:
    """Returns a tokenizer's definition with new `ids` wherever it contains ids outside its model."""

    def new(part: Any) -> Any:
        match part:
            case {"content": str(token), "id": int()}:  # an added token
                return part | {"id": ids[token]}
            case {"tokens": [*tokens], "ids": list()}:  # TemplateProcessing
                return part | {"ids": [ids[token] for token in tokens]}
            case [str(token), int()]:  # BertProcessing
                return [token, ids[token]]
            case dict():
                return {key: new(inner) for key, inner in part.items()}
            case list():
                return [new(inner) for inner in part]
        return part

    return content | {key: new(content[key]) for key in ("added_tokens", "post_processor")}
