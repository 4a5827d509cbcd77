"""Does a token look for itself in the other sentence? Attention between equal tokens of two sentences, layer
by layer and head by head.

Whoever compares two sentences begins with what they share. A replaced token gives itself away where the same
text holds the original elsewhere, so a discriminator has a reason to look. A masked token has no identity to
look for, but its model has to name it, and could find it there by what stands around it: so the same is
measured with each token hidden behind [MASK].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from electra.finetuning.labelled.sentence_pairs import ScoredPair
from electra.foundation.arrays import Bools, Floats
from electra.foundation.progress import Share, part_progress
from electra.laboratory.analysis.contract import Findings, ProbeDataError, Progress
from electra.laboratory.analysis.representations import attention_heads, by_depth
from electra.laboratory.analysis.representations.encoder_probe import PairsConfig, PairsProbe
from electra.laboratory.analysis.representations.encoders import Named
from electra.model import hidden

if TYPE_CHECKING:
    from electra.data.tokenizer import Tokenizer


@dataclass(frozen=True)
class Config(PairsConfig):
    sentences: int = 400
    """Pairs of sentences to read (0: all)."""


class Probe(PairsProbe):
    title = "Equal tokens of two sentences"
    question = "Does a token look for itself in the other sentence, before any fine-tuning on pairs?"
    source = "Heads that look for the same token: Voita et al. 2019, Olsson et al. 2022."
    version = 2
    config: Config

    def look(self, encoders: Sequence[Named], pairs: Sequence[ScoredPair], progress: Progress) -> Findings:
        texts = [pair[:2] for pair in pairs]
        looked = {
            encoder.name: look(encoder, texts, part_progress(progress, encoder.name, number, len(encoders)))
            for number, encoder in enumerate(encoders)
        }
        findings, first = Findings(), encoders[0].name
        tokens = int(looked[first].tokens.sum())
        if not tokens:
            fix = "Give pairs in the models' language"
            raise ProbeDataError("no two sentences of a pair share a token", where="the pairs", fix=fix)
        uniform = float(looked[first].chance.sum() / tokens)
        shares: dict[str, Floats] = {}
        for asked in (VISIBLE, MASKED):
            found: by_depth.Found = {}
            for name, seen in looked.items():
                given = asked.given(seen)
                best = given.sum(0).argmax(1)  # of each layer, the head that gives most
                points = {name: [given[:, layer, head] for layer, head in enumerate(best)]}
                found |= by_depth.ratios(points, seen.tokens, np.arange(len(pairs)), self.config.resamples)
                shares[f"{name}{asked.suffix}"] = given.sum(0) / max(1.0, seen.tokens.sum())
            note = f"{asked.note} Uniform attention would give {uniform:.3f}."
            references = {"uniform attention": uniform}
            shown = {"figure": asked.figure, "unit": "share", "axis": "layer"}
            by_depth.show(findings, asked.title, found, note=note, references=references, **shown)
            findings.headline[asked.headline] = max(found[first], key=lambda one: one.value or 0.0)
        attention_heads.show(findings, shares)
        findings.notes += [
            f"{tokens} tokens of {len(pairs)} pairs also occur in the other sentence.",
            "The strongest head is chosen on the pairs it is measured on, which flatters it a little.",
            "[MASK] is what masked language models read in training. A discriminator never does, unless its"
            " objective says so.",
        ]
        return findings


@dataclass(frozen=True)
class Looked:
    tokens: Floats  # [pairs] tokens with their like in the other sentence
    given: Floats  # [pairs, layers, heads] attention to that like, summed over those tokens
    masked: Floats  # [pairs, layers, heads] the same, each of those tokens hidden behind [MASK] in its turn
    chance: Floats  # [pairs] what attention that is the same everywhere would give


@dataclass(frozen=True)
class Asked:
    """One way to ask, and how its findings are shown."""

    given: Callable[[Looked], Floats]
    title: str
    figure: str
    headline: str
    note: str
    suffix: str  # of a model's name, in the table of all heads


VISIBLE = Asked(
    lambda seen: seen.given,
    "The strongest head of each layer",
    "same-token",
    "Attention to the same token, strongest head",
    "Share of its attention that a token gives to the same token in the other sentence.",
    "",
)
MASKED = Asked(
    lambda seen: seen.masked,
    "The strongest head of each layer, from [MASK]",
    "masked-token",
    "Attention from [MASK] to the token it hides, strongest head",
    "Share of its attention that [MASK] gives to the token it hides, where that stands in the other sentence;"
    " each token in turn.",
    ", from [MASK]",
)


def look(encoder: Named, pairs: Sequence[tuple[str, str]], progress: Share) -> Looked:
    loaded = encoder.loaded
    rows = [two_sentences(loaded.tokenizer, pair, loaded.config.max_positions) for pair in pairs]
    same = [equal_tokens(row) for row in rows]
    queries = [(i, place) for i, like in enumerate(same) for place in np.flatnonzero(like.any(1)).tolist()]
    mask = loaded.tokenizer.specials.mask
    hiding = [hide(rows[i], place, mask) for i, place in queries]
    given = np.zeros((len(rows), loaded.config.num_layers, loaded.config.num_heads))
    masked = np.zeros_like(given)
    for number, layer, weights_HTT in attention_heads.weights(loaded.encoder, [*rows, *hiding], progress):
        if number < len(rows):
            given[number, layer] = (weights_HTT * same[number]).sum((1, 2))
        else:
            i, place = queries[number - len(rows)]
            masked[i, layer] += weights_HTT[:, place] @ same[i][place]
    tokens = np.array([like.any(1).sum() for like in same], np.float64)
    chance = np.array([like.sum() / len(like) for like in same])
    return Looked(tokens, given, masked, chance)


def hide(row: hidden.Row, place: int, mask: int) -> hidden.Row:
    ids = row.ids.copy()
    ids[place] = mask
    return hidden.Row(ids, row.words)


def two_sentences(tokenizer: Tokenizer, pair: tuple[str, str], max_positions: int) -> hidden.Row:
    """[CLS] a [SEP] b [SEP], of one token type, as in pre-training; the "words" are the two sentences."""
    encoding = tokenizer.encode(*pair, max_length=max_positions)
    special = np.array(encoding.special, bool)
    words = np.where(special, hidden.NO_WORD, special.cumsum() - 1)
    return hidden.Row(np.array(encoding.ids, np.int64), words)


def equal_tokens(row: hidden.Row) -> Bools:
    """[T, T] whether two places hold the same token in different sentences."""
    ordinary = row.words != hidden.NO_WORD
    apart = (row.words[:, None] != row.words) & ordinary[:, None] & ordinary
    return np.asarray(apart & (row.ids[:, None] == row.ids))
