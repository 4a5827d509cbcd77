"""What a generator would put at each [MASK] of a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from electra.exchange.load import Loaded
from electra.foundation.errors import ModelError
from electra.inference.detection import split
from electra.model.passes import Pass, read
from electra.model.precision import wide


@dataclass(frozen=True)
class Candidate:
    """A token for a masked place, and its probability."""

    token: str
    p: float


def fill(loaded: Loaded, texts: Sequence[str], top: int = 5) -> list[list[list[Candidate]]]:
    """For each text, for each mask in it, the `top` likeliest tokens, likeliest first.

    Masks are written as the tokenizer names its mask token. Raises ModelError for a text without one, or
    longer than the model reads.
    """
    tokenizer = loaded.tokenizer
    mask = tokenizer.id_to_token(tokenizer.specials.mask)
    rows = [
        np.array([tokenizer.specials.cls, *_ids(loaded, text, mask), tokenizer.specials.sep])
        for text in texts
    ]

    def likeliest(one: Pass) -> list[list[list[Candidate]]]:
        hidden_BTD = loaded.encoder(one.input_ids, piece_ids=one.piece_ids)
        found = []
        for hidden_TD, ids_T in zip(hidden_BTD, one.input_ids, strict=True):
            logits_MV = loaded.token_logits(hidden_TD[ids_T == tokenizer.specials.mask])
            best = wide(logits_MV).softmax(-1).topk(min(top, logits_MV.shape[-1]))
            found.append(
                [
                    _candidates(loaded, *slot)
                    for slot in zip(best.indices.tolist(), best.values.tolist(), strict=True)
                ]
            )
        return found

    return list(read(rows, likeliest, loaded.device, pad=tokenizer.specials.pad))


def _ids(loaded: Loaded, text: str, mask: str) -> list[int]:
    """Token ids of a text; inside a text the tokenizer itself takes a mask's name for plain characters."""
    first, *rest = (split(loaded.tokenizer, part).ids.tolist() for part in text.split(mask))
    ids: list[int] = first + [number for part in rest for number in (loaded.tokenizer.specials.mask, *part)]
    room = loaded.config.max_positions - 2
    if not rest:
        raise ModelError(f"a text has no {mask} to fill", fix=f"Write {mask} where a word is wanted")
    if len(ids) > room:
        raise ModelError(f"a text has {len(ids)} tokens, the model reads {room}", fix="Shorten it")
    return ids


def _candidates(loaded: Loaded, ids: Sequence[int], probabilities: Sequence[float]) -> list[Candidate]:
    return [Candidate(loaded.tokenizer.readable(i), p) for i, p in zip(ids, probabilities, strict=True)]


def to_json(slots: Sequence[Sequence[Candidate]]) -> list[list[dict[str, Any]]]:
    return [[{"token": one.token, "p": round(one.p, 6)} for one in slot] for slot in slots]
