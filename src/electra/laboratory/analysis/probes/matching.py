"""Matching: attention between equal tokens of two sentences, by the strongest head of each layer.

A comparison of two sentences begins with what they share. A replaced token can be recognised if the text
holds the original elsewhere, so a discriminator has a reason to look for it. A masked token has no identity
to look for, but a model could find it by its context, so the same is measured with each token masked in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from typing_extensions import override

from electra.finetuning.tasks import load_task
from electra.foundation.arrays import Bools, Floats
from electra.laboratory.analysis import contract
from electra.laboratory.analysis.contract import Data, Findings, Input, Model, ProbeDataError, Progress
from electra.laboratory.analysis.encoders import encoders_of
from electra.laboratory.analysis.measures import bootstrap
from electra.laboratory.analysis.texts import sample
from electra.model import hidden
from electra.model.encoder import Encoder
from electra.model.passes import padded_batches

if TYPE_CHECKING:
    from electra.data.tokenizer import Tokenizer
    from electra.exchange.load import Loaded

CONDITIONS = (  # field of MatchSums, title, figure, headline number, note
    (
        "visible",
        "The strongest head of each layer",
        "same-token",
        "Attention to the same token, strongest head",
        "Share of its attention that a token gives to the same token in the other sentence.",
    ),
    (
        "masked",
        "The strongest head of each layer, from [MASK]",
        "masked-token",
        "Attention from [MASK] to the token it hides, strongest head",
        "Share of its attention that [MASK] gives to the token it hides, where that stands in the other"
        " sentence; each token in turn.",
    ),
)


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
        encoders, findings, first = encoders_of(models, self.config.untrained), Findings(), models[0].name
        reader = load_task("stsb")
        examples = [example for path in data["pairs"] for example in reader.read(path).examples]
        all_pairs = [(example.texts[0], example.texts[1]) for example in examples]
        pairs = sample(all_pairs, self.config.sentences)
        sums_of = dict[str, MatchSums]()
        for name, loaded in encoders.items():
            progress(name, len(sums_of) / len(encoders))
            sums_of[name] = measure_pairs(loaded, pairs)
        if not (num_tokens := int(sums_of[first].tokens.sum())):
            fix = "Use pairs in the models' language"
            raise ProbeDataError("no two sentences of a pair share a token", where="the pairs", fix=fix)
        uniform = float(sums_of[first].chance.sum() / num_tokens)
        for field, title, figure, headline, note in CONDITIONS:
            for name, sums in sums_of.items():
                attention = getattr(sums, field)
                heads = attention.sum(0).argmax(1)  # the strongest of each layer
                shares = self._shares(
                    np.stack([attention[:, layer, head] for layer, head in enumerate(heads)]), sums
                )
                for layer, share in shares.items():
                    findings.add(share, measure=title, encoder=name, layer=layer)
                best = max(shares, key=lambda layer: shares[layer].value or 0.0)
                findings.notes.append(f"{title}: {name}, layer {best}, head {heads[best - 1] + 1}.")
                if name == first:
                    findings.headline[headline] = shares[best]
            about = f"{note} Uniform attention would give {uniform:.3f}."
            findings.table(title, "layer", across="encoder", note=about, measure=title)
            about, references = f"{about} Bands are 95 % intervals.", {"uniform attention": uniform}
            shown = {"note": about, "unit": "share", "references": references}
            findings.figure(figure, title, "layer", "encoder", {"measure": title}, **shown)
        findings.notes += [
            f"{num_tokens} tokens of {len(pairs)} pairs also occur in the other sentence.",
            "The strongest head is chosen on the pairs it is measured on, which biases it slightly upwards.",
            "Masked language models read [MASK] in training; discriminators do not, unless their objective"
            " has it.",
        ]
        return findings

    def _shares(self, attention: Floats, sums: MatchSums) -> dict[int, contract.Estimate]:
        """Returns, by layer from 1, attention [layers, pairs] as a share of that of the shared tokens."""

        def measure(weights: Floats) -> dict[int, float]:
            total = float(weights @ sums.tokens)
            shares = attention @ weights / total if total > 0 else np.full(len(attention), np.nan)
            return dict(enumerate(shares, 1))

        return bootstrap.estimates(measure, np.arange(len(sums.tokens)), resamples=self.config.resamples)


class MatchSums(NamedTuple):
    """The attention of one encoder to equal tokens, summed within pairs."""

    tokens: Floats  # [pairs] number of tokens that also occur in the other sentence
    visible: Floats  # [pairs, layers, heads] attention to the same token there, summed over these tokens
    masked: Floats  # [pairs, layers, heads] the same with each of these tokens masked in turn
    chance: Floats  # [pairs] the same for uniform attention


def measure_pairs(loaded: Loaded, pairs: Sequence[tuple[str, str]]) -> MatchSums:
    """Measures an encoder's attention in each pair of sentences."""
    rows = [two_sentences(loaded.tokenizer, pair, loaded.config.max_positions) for pair in pairs]
    equal = [equal_tokens(row) for row in rows]
    shared_tokens = [(i, t) for i, mask in enumerate(equal) for t in np.flatnonzero(mask.any(1)).tolist()]
    hidden_id = loaded.tokenizer.specials.mask
    masked_rows = [
        hidden.Row(np.where(np.arange(len(rows[i].ids)) == t, hidden_id, rows[i].ids), rows[i].words)
        for i, t in shared_tokens
    ]
    visible = np.zeros((len(rows), loaded.config.num_layers, loaded.config.num_heads))
    masked = np.zeros_like(visible)
    for row, layer, weights_HTT in head_weights(loaded.encoder, [*rows, *masked_rows]):
        if row < len(rows):
            visible[row, layer] = (weights_HTT * equal[row]).sum((1, 2))
        else:
            i, t = shared_tokens[row - len(rows)]
            masked[i, layer] += weights_HTT[:, t] @ equal[i][t]
    tokens = np.array([mask.any(1).sum() for mask in equal], np.float64)
    return MatchSums(tokens, visible, masked, np.array([mask.sum() / len(mask) for mask in equal]))


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


def head_weights(encoder: Encoder, rows: Sequence[hidden.Row]) -> Iterator[tuple[int, int, Floats]]:
    """Yields (row index, layer index from 0, weights [H, T, T] without padding), in no particular order."""
    for batch in padded_batches((row.ids for row in rows), next(encoder.parameters()).device):
        with torch.inference_mode():  # not around the yield, which would put the caller in this mode
            layers = hidden.attention_weights(encoder, batch.input_ids, batch.document_ids)
        for layer, weights_BHTT in enumerate(layers):
            for b, (row, length) in enumerate(zip(batch.index, batch.lengths, strict=True)):
                yield int(row), layer, weights_BHTT[b, :, :length, :length].cpu().double().numpy()
