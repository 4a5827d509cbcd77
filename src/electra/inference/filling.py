"""A generator's most probable tokens for each [MASK] of a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from electra.exchange.load import Loaded
from electra.foundation.errors import ModelError
from electra.inference.detection import tokenize
from electra.model.passes import PaddedBatch, map_rows
from electra.model.precision import to_float64


@dataclass(frozen=True)
class Candidate:
    """A token for a masked position, and its probability."""

    token: str
    p: float


def fill(loaded: Loaded, texts: Sequence[str], top: int = 5) -> list[list[list[Candidate]]]:
    """Returns, for each [MASK] of each text, a generator's `top` most probable tokens, most probable first.

    Raises ModelError if a text has no mask, or more tokens than the model has positions.
    """
    tokenizer = loaded.tokenizer
    mask = tokenizer.id_to_token(tokenizer.specials.mask)
    rows = [
        np.array([tokenizer.specials.cls, *_ids(loaded, text, mask), tokenizer.specials.sep])
        for text in texts
    ]

    def candidates(batch: PaddedBatch) -> list[list[list[Candidate]]]:
        hidden_BTD = loaded.encoder(batch.input_ids, document_ids=batch.document_ids)
        rows = []
        for hidden_TD, ids_T in zip(hidden_BTD, batch.input_ids, strict=True):
            logits_MV = loaded.token_logits(hidden_TD[ids_T == tokenizer.specials.mask])
            p_MK, ids_MK = to_float64(logits_MV).softmax(-1).topk(min(top, logits_MV.shape[-1]))
            tokens_MK = [map(tokenizer.readable, slot) for slot in ids_MK.tolist()]
            rows.append([[*map(Candidate, *slot)] for slot in zip(tokens_MK, p_MK.tolist(), strict=True)])
        return rows

    return list(map_rows(rows, candidates, loaded.device, pad=tokenizer.specials.pad))


def _ids(loaded: Loaded, text: str, mask: str) -> list[int]:
    """Returns the token ids of a text, whose parts between the masks are tokenised separately."""
    first_ids, *other_ids = (tokenize(loaded.tokenizer, part).ids.tolist() for part in text.split(mask))
    ids: list[int] = first_ids + [i for part in other_ids for i in (loaded.tokenizer.specials.mask, *part)]
    room = loaded.config.max_positions - 2
    if not other_ids:
        raise ModelError(f"a text has no {mask} to fill", fix=f"Write {mask} in place of a word")
    if len(ids) > room:
        raise ModelError(f"a text has {len(ids)} tokens; the model reads at most {room}", fix="Shorten it")
    return ids


def to_json(slots: Sequence[Sequence[Candidate]]) -> list[list[dict[str, Any]]]:
    """Returns the candidates of each mask as JSON data; probabilities have 6 decimals."""
    return [[{"token": word.token, "p": round(word.p, 6)} for word in candidates] for candidates in slots]
