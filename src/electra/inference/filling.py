"""A generator's most probable tokens for each [MASK] of a text, and its suggestions for wrong words."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from electra.data.tables.printed import without_ligatures
from electra.exchange.load import Loaded
from electra.foundation.arrays import Ints
from electra.foundation.errors import ModelError
from electra.inference.detection import LONGEST, Candidate, Detection, Span, tokenize
from electra.inference.spellings import NEARNESS, Spellings
from electra.model.passes import PaddedBatch, map_rows
from electra.model.precision import to_float64

CONSIDERED = 30  # words by the language model alone


def fill(loaded: Loaded, texts: Sequence[str], top: int = 5) -> list[list[list[Candidate]]]:
    """Returns, for each [MASK] of each text, a generator's `top` most probable tokens, most probable first.

    Raises ModelError if a text has no mask, or more tokens than the model has positions.
    """
    tokenizer = loaded.tokenizer
    mask = tokenizer.id_to_token(tokenizer.specials.mask)
    rows = [np.array([tokenizer.specials.cls, *_ids(loaded, text, mask), tokenizer.specials.sep]) for text in texts]

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


def suggest(
    loaded: Loaded, detections: Sequence[Detection], spellings: Spellings, most: int, near: bool
) -> list[Detection]:
    """Returns detections with up to `most` suggestions for each marked word, by a masked language model.

    Considered are near spellings (`near`: nothing else) and what the model expects in the word's place. The
    probabilities, of the words considered, are those of the model times those of the edits (`NEARNESS`).
    """
    tokenizer, size = loaded.tokenizer, min(LONGEST, loaded.config.max_positions - 2)
    mask = tokenizer.specials.mask
    asked: list[tuple[Span, dict[str, int]]] = []  # of each row

    def rows() -> Iterator[Ints]:
        for found in detections:
            tokens = tokenize(tokenizer, found.text)
            for word in found.marked:
                over = [i for i, (a, b) in enumerate(tokens.offsets) if a < word.end and b > word.start]
                hidden = over or [len(tokens.ids)]
                asked.append((word, spellings.near(without_ligatures(word.text))))
                before = tokens.ids[: hidden[0]][-(size // 2) :]
                after = tokens.ids[hidden[-1] + 1 :][: size // 2 - 1]
                yield np.array([tokenizer.specials.cls, *before, mask, *after, tokenizer.specials.sep])

    def network(batch: PaddedBatch) -> list[tuple[Candidate, ...]]:
        hidden_BTD = loaded.encoder(batch.input_ids, document_ids=batch.document_ids)
        best = []
        for hidden_TD, ids_T, row in zip(hidden_BTD, batch.input_ids, batch.index, strict=True):
            word, edits = asked[int(row)]
            logits_V = to_float64(loaded.token_logits(hidden_TD[ids_T == mask]))[0]
            log_p_V = logits_V.log_softmax(-1).cpu().numpy()
            likeliest = np.argsort(-np.where(spellings.is_word, log_p_V, -np.inf))[:CONSIDERED].tolist()
            ids = {spellings.ids[each] for each in edits}.union([] if near else likeliest)
            names = {i: tokenizer.readable(i) for i in ids if spellings.is_word[i]}
            weights = {
                each: np.exp(log_p_V[i] + NEARNESS.get(edits.get(each, 0), 0.0))
                for i, each in names.items()
                if each.lower() != word.text.lower()
            }
            total, shown = sum(weights.values()), sorted(weights, key=lambda each: -weights[each])[:most]
            is_name = word.text[0].isupper()
            cased = [(word.capitalize() if is_name else word, word) for word in shown]
            best.append(tuple(Candidate(name, float(weights[word] / total)) for name, word in cased))
        return best

    found = map_rows(rows(), network, loaded.device, pad=tokenizer.specials.pad)
    return [replace(each, suggestions=tuple(islice(found, len(each.marked)))) for each in detections]
