"""Matching: attention between equal tokens of two sentences, by layer and by head.

A comparison of two sentences begins with what they share. A replaced token can be recognised if the text
holds the original elsewhere, so a discriminator has a reason to look for it. A masked token has no identity
to look for, but a model could find it by its context, so the same is measured with each token masked in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from typing_extensions import override

from electra.finetuning.labelled.sentence_pairs import read_scored_pairs
from electra.foundation.arrays import Bools, Floats
from electra.foundation.progress import Share, part_progress
from electra.laboratory.analysis import contract
from electra.laboratory.analysis.contract import Data, Findings, Input, Model, ProbeDataError, Progress
from electra.laboratory.analysis.representations import by_depth
from electra.laboratory.analysis.representations.encoders import NamedEncoder, encoders_of
from electra.laboratory.analysis.texts.sampling import sample
from electra.model import hidden
from electra.model.encoder import Encoder
from electra.model.passes import padded_batches

if TYPE_CHECKING:
    from electra.data.tokenizer import Tokenizer


HEAD = "layer.head"  # the axis of the table of all heads


@dataclass(frozen=True)
class Config:
    """Options of the probe."""

    sentences: int = 400
    """Sentence pairs to use (0: all)."""
    resamples: int = 500
    """Bootstrap samples of the pairs for the intervals."""
    untrained: bool = True
    """Include an untrained encoder."""


class Probe(contract.Probe):
    """Measures how strongly heads attend to the same token in the other sentence."""

    title = "Equal tokens of two sentences"
    question = "Does a token attend to itself in the other sentence, before any fine-tuning on pairs?"
    source = "Heads that attend to the same token: Voita et al. 2019, Olsson et al. 2022."
    version = 2
    needs = ("encoder",)
    config: Config

    @override
    def inputs(self) -> tuple[Input, ...]:
        patterns = ("sts-b/dev.tsv*", "STS-B/dev.tsv*", "*sts*dev*.tsv*", "dev.tsv*")
        return (Input("pairs", "STS-B dev file", patterns),)

    @override
    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Findings:
        encoders = encoders_of(models, self.config.untrained)
        all_pairs = [pair[:2] for path in data["pairs"] for pair in read_scored_pairs(path)]
        pairs = sample(all_pairs, self.config.sentences)
        sums_of = {}
        for i, encoder in enumerate(encoders):
            share_read = part_progress(progress, encoder.name, i, len(encoders))
            sums_of[encoder.name] = measure_pairs(encoder, pairs, share_read)
        findings, first_name = Findings(), encoders[0].name
        num_tokens = int(sums_of[first_name].tokens.sum())
        if not num_tokens:
            fix = "Use pairs in the models' language"
            raise ProbeDataError("no two sentences of a pair share a token", where="the pairs", fix=fix)
        uniform = float(sums_of[first_name].chance.sum() / num_tokens)
        shares: dict[str, Floats] = {}
        for condition in (VISIBLE, MASKED):
            estimates: by_depth.ByDepth = {}
            for name, sums in sums_of.items():
                attention = condition.attention(sums)
                strongest = attention.sum(0).argmax(1)  # the strongest head of each layer
                points = {name: [attention[:, layer, head] for layer, head in enumerate(strongest)]}
                groups, resamples = np.arange(len(pairs)), self.config.resamples
                estimates |= by_depth.ratios(points, sums.tokens, groups, resamples)
                shares[f"{name}{condition.suffix}"] = attention.sum(0) / max(1.0, sums.tokens.sum())
            note = f"{condition.note} Uniform attention would give {uniform:.3f}."
            references = {"uniform attention": uniform}
            labels = {"figure": condition.figure, "unit": "share", "axis": "layer"}
            by_depth.add_measure(
                findings, condition.title, estimates, note=note, references=references, **labels
            )
            findings.headline[condition.headline] = by_depth.best(estimates[first_name])
        add_heads(findings, shares)
        findings.notes += [
            f"{num_tokens} tokens of {len(pairs)} pairs also occur in the other sentence.",
            "The strongest head is chosen on the pairs it is measured on, which biases it slightly upwards.",
            "Masked language models read [MASK] in training; discriminators do not, unless their objective"
            " has it.",
        ]
        return findings


@dataclass(frozen=True)
class MatchSums:
    """The attention of one encoder to equal tokens, summed within pairs."""

    tokens: Floats  # [pairs] number of tokens that also occur in the other sentence
    visible: Floats  # [pairs, layers, heads] attention to the same token there, summed over these tokens
    masked: Floats  # [pairs, layers, heads] the same with each of these tokens masked in turn
    chance: Floats  # [pairs] the same for uniform attention


@dataclass(frozen=True)
class Condition:
    """Visible or masked tokens: which attention [pairs, layers, heads] to report, and how."""

    attention: Callable[[MatchSums], Floats]
    title: str
    figure: str
    headline: str
    note: str
    suffix: str  # appended to a model's name in the table of all heads


VISIBLE = Condition(
    lambda sums: sums.visible,
    "The strongest head of each layer",
    "same-token",
    "Attention to the same token, strongest head",
    "Share of its attention that a token gives to the same token in the other sentence.",
    "",
)
MASKED = Condition(
    lambda sums: sums.masked,
    "The strongest head of each layer, from [MASK]",
    "masked-token",
    "Attention from [MASK] to the token it hides, strongest head",
    "Share of its attention that [MASK] gives to the token it hides, where that stands in the other sentence;"
    " each token in turn.",
    ", from [MASK]",
)


def measure_pairs(encoder: NamedEncoder, pairs: Sequence[tuple[str, str]], progress: Share) -> MatchSums:
    """Measures an encoder's attention in each pair of sentences."""
    loaded = encoder.loaded
    rows = [two_sentences(loaded.tokenizer, pair, loaded.config.max_positions) for pair in pairs]
    match_masks = [equal_tokens(row) for row in rows]
    shared_tokens = [
        (i, t) for i, matches in enumerate(match_masks) for t in np.flatnonzero(matches.any(1)).tolist()
    ]
    mask = loaded.tokenizer.specials.mask
    masked_rows = [mask_token(rows[i], t, mask) for i, t in shared_tokens]
    visible = np.zeros((len(rows), loaded.config.num_layers, loaded.config.num_heads))
    masked = np.zeros_like(visible)
    for row, layer, weights_HTT in head_weights(loaded.encoder, [*rows, *masked_rows], progress):
        if row < len(rows):
            visible[row, layer] = (weights_HTT * match_masks[row]).sum((1, 2))
        else:
            i, t = shared_tokens[row - len(rows)]
            masked[i, layer] += weights_HTT[:, t] @ match_masks[i][t]
    tokens = np.array([matches.any(1).sum() for matches in match_masks], np.float64)
    chance = np.array([matches.sum() / len(matches) for matches in match_masks])
    return MatchSums(tokens, visible, masked, chance)


def mask_token(row: hidden.Row, position: int, mask: int) -> hidden.Row:
    """Returns the row with the token at `position` masked."""
    ids = row.ids.copy()
    ids[position] = mask
    return hidden.Row(ids, row.words)


def two_sentences(tokenizer: Tokenizer, pair: tuple[str, str], max_positions: int) -> hidden.Row:
    """Returns [CLS] a [SEP] b [SEP] with one token type; the row's "words" are the sentences, 0 and 1.

    The longer sentence is truncated to fit the positions.
    """
    encoding = tokenizer.encode(*pair, max_length=max_positions)
    special = np.array(encoding.special, bool)
    words = np.where(special, hidden.NO_WORD, special.cumsum() - 1)
    return hidden.Row(np.array(encoding.ids, np.int64), words)


def equal_tokens(row: hidden.Row) -> Bools:
    """Returns a mask [T, T] of pairs of positions that hold the same token in different sentences."""
    ordinary = row.words != hidden.NO_WORD
    other_sentence = (row.words[:, None] != row.words) & ordinary[:, None] & ordinary
    return np.asarray(other_sentence & (row.ids[:, None] == row.ids))


def head_weights(
    encoder: Encoder, rows: Sequence[hidden.Row], progress: Share
) -> Iterator[tuple[int, int, Floats]]:
    """Yields (row index, layer index from 0, weights [H, T, T]) for all rows and layers.

    Rows are read in batches of similar length, so they are not in order. T is the row's own length, without
    padding.
    """
    num_done = 0
    for batch in padded_batches((row.ids for row in rows), next(encoder.parameters()).device):
        with torch.inference_mode():  # not around the yield, which would put the caller in this mode
            layers = hidden.attention_weights(encoder, batch.input_ids, batch.document_ids)
        for layer, weights_BHTT in enumerate(layers):
            for b, (row, length) in enumerate(zip(batch.index, batch.lengths, strict=True)):
                yield int(row), layer, weights_BHTT[b, :, :length, :length].cpu().double().numpy()
        num_done += len(batch.index)
        progress(num_done / len(rows))


def add_heads(findings: Findings, columns: Mapping[str, Floats]) -> None:
    """Adds a table with a row for each head.

    Args:
        findings: Receives the numbers and the table.
        columns: Values [L, H] by column heading, one column per encoder and condition. Cells are empty where
            an encoder lacks that layer or head.
    """
    sizes = zip(*(values.shape for values in columns.values()), strict=True)
    for layer, head in np.ndindex(*map(max, sizes)):
        for name, values in columns.items():
            exists = layer < len(values) and head < len(values[0])
            at = {"measure": name, HEAD: f"{layer + 1}.{head + 1}"}
            findings.add(float(values[layer, head]) if exists else None, **at)
    findings.table("Each head", HEAD)
