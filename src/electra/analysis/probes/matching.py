"""Does a token look for itself in the other sentence? Attention between equal tokens of two sentences, layer
by layer and head by head.

Whoever compares two sentences begins with what they share. A replaced token gives itself away where the same
text holds the original elsewhere, so a discriminator has a reason to look; a masked token has no identity to
look for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from electra.analysis.contract import Findings, ProbeDataError, Progress
from electra.analysis.representations import attention_heads, by_depth
from electra.analysis.representations.encoder_probe import PairsConfig, PairsProbe
from electra.analysis.representations.encoders import Named
from electra.arrays import Bools, Floats
from electra.labelled.sentence_pairs import ScoredPair
from electra.model import hidden
from electra.progress import Share, part

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
    version = 1
    config: Config

    def look(self, encoders: Sequence[Named], pairs: Sequence[ScoredPair], progress: Progress) -> Findings:
        texts = [pair[:2] for pair in pairs]
        looked = {
            encoder.name: look(encoder, texts, part(progress, encoder.name, number, len(encoders)))
            for number, encoder in enumerate(encoders)
        }
        findings, first = Findings(), encoders[0].name
        if not looked[first].tokens.any():
            fix = "Give pairs in the models' language"
            raise ProbeDataError("no two sentences of a pair share a token", where="the pairs", fix=fix)
        found: by_depth.Found = {}
        for name, seen in looked.items():
            best = seen.given.sum(0).argmax(1)  # of each layer, the head that gives most
            points = {name: [seen.given[:, layer, head] for layer, head in enumerate(best)]}
            found |= by_depth.ratios(points, seen.tokens, np.arange(len(pairs)), self.config.resamples)
        uniform = float(looked[first].chance.sum() / looked[first].tokens.sum())
        note = (
            "Share of its attention that a token gives to the same token in the other sentence. Uniform"
            " attention"
            f" would give {uniform:.3f}."
        )
        references = {"uniform attention": uniform}
        title = "The strongest head of each layer"
        shown = {"figure": "same-token", "unit": "share", "axis": "layer"}
        by_depth.show(findings, title, found, note=note, references=references, **shown)
        shares = {name: seen.given.sum(0) / max(1.0, seen.tokens.sum()) for name, seen in looked.items()}
        attention_heads.show(findings, shares)
        strongest = max(found[first], key=lambda one: one.value or 0.0)
        findings.headline["Attention to the same token, strongest head"] = strongest
        findings.notes += [
            f"{int(looked[first].tokens.sum())} tokens of {len(pairs)} pairs also occur in the other"
            " sentence.",
            "The strongest head is chosen on the pairs it is measured on, which flatters it a little.",
        ]
        return findings


@dataclass(frozen=True)
class Looked:
    tokens: Floats  # [pairs] tokens with their like in the other sentence
    given: Floats  # [pairs, layers, heads] attention to that like, summed over those tokens
    chance: Floats  # [pairs] what attention that is the same everywhere would give


def look(encoder: Named, pairs: Sequence[tuple[str, str]], progress: Share) -> Looked:
    loaded = encoder.loaded
    rows = [two_sentences(loaded.tokenizer, pair, loaded.config.max_positions) for pair in pairs]
    same = [equal_tokens(row) for row in rows]
    given = np.zeros((len(rows), loaded.config.num_layers, loaded.config.num_heads))
    for i, layer, weights_HTT in attention_heads.weights(loaded.encoder, rows, progress):
        given[i, layer] = (weights_HTT * same[i]).sum((1, 2))
    tokens = np.array([like.any(1).sum() for like in same], np.float64)
    chance = np.array([like.sum() / len(like) for like in same])
    return Looked(tokens, given, chance)


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
