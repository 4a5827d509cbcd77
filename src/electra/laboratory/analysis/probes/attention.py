"""Attention: entropy, distance, and the share that goes to [CLS] and [SEP], by layer and by head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from electra.finetuning.labelled.tagged_sentences import Sentence
from electra.foundation.arrays import Floats, Ints
from electra.foundation.progress import Share, part_progress
from electra.laboratory.analysis.contract import Findings, Progress
from electra.laboratory.analysis.representations import attention_heads, by_depth
from electra.laboratory.analysis.representations.encoder_probe import TreebankConfig, TreebankProbe
from electra.laboratory.analysis.representations.encoders import UNTRAINED, NamedEncoder, rows_of_words

MEASURES = {  # measure -> its title, unit and meaning
    "entropy": (
        "Entropy of attention",
        "share of the highest possible",
        "1: uniform. 0: one token.",
    ),
    "distance": ("Distance of attention", "tokens", "Mean distance to the ordinary tokens attended to."),
    "specials": (
        "Attention to [CLS] and [SEP]",
        "share",
        "Heads whose function does not apply are known to attend there (Clark et al. 2019).",
    ),
}


@dataclass(frozen=True)
class Config(TreebankConfig):
    """Options of the probe."""

    sentences: int = 300
    """Treebank sentences to use (0: all)."""
    resamples: int = 500
    """Bootstrap samples of the sentences for the intervals."""


class Probe(TreebankProbe):
    """Measures where the heads of each encoder attend."""

    title = "Where attention goes"
    question = "Do the heads of the two objectives attend to different tokens?"
    source = "Method: Clark et al. 2019, What does BERT look at?"
    version = 1
    config: Config

    @override
    def run_on_encoders(
        self, encoders: Sequence[NamedEncoder], sentences: Sequence[Sentence], progress: Progress
    ) -> Findings:
        sums_of = {
            encoder.name: sum_attention(
                encoder, sentences, part_progress(progress, encoder.name, number, len(encoders))
            )
            for number, encoder in enumerate(encoders)
        }
        findings, first, groups = Findings(), encoders[0].name, np.arange(len(sentences))
        for key, (title, unit, meaning) in MEASURES.items():
            estimates: by_depth.ByDepth = {}
            for name, attention in sums_of.items():  # each layer's mean over its heads
                points = {name: list(attention.sums[key].mean(2).T)}
                estimates |= by_depth.ratios(points, attention.tokens, groups, self.config.resamples)
            labels = {"note": f"In {unit}. {meaning}", "figure": key, "about": meaning, "unit": unit}
            table_title = f"{title}, mean of the heads"
            by_depth.add_measure(findings, table_title, estimates, references={}, axis="layer", **labels)
            findings.headline[f"{title}, last layer"] = estimates[first][-1]
        trained = {name: attention for name, attention in sums_of.items() if name != UNTRAINED}
        means = {
            f"{name}: {key}": values.sum(0) / max(1, attention.tokens.sum())
            for name, attention in trained.items()
            for key, values in attention.sums.items()
        }
        attention_heads.add_heads(findings, means)
        tokens = sums_of[first].tokens
        uniform = float(sum(_uniform_distance(n) * n for n in tokens) / max(1, tokens.sum()))
        findings.notes += [
            f"{int(tokens.sum())} tokens of {len(sentences)} sentences, by {first}'s tokenizer.",
            f"Uniform attention has a mean distance of {uniform:.2f} tokens in these sentences.",
            "Attention weights are recomputed from the layers' queries and keys.",
        ]
        return findings


@dataclass(frozen=True)
class AttentionSums:
    """The measures of one encoder, summed within sentences."""

    tokens: Ints
    """[sentences] ordinary tokens of each."""
    sums: dict[str, Floats]
    """Measure -> [sentences, layers, heads] summed over the sentence's ordinary tokens."""


def sum_attention(encoder: NamedEncoder, sentences: Sequence[Sentence], progress: Share) -> AttentionSums:
    """Measure an encoder's attention in each sentence."""
    loaded = encoder.loaded
    words = [sentence.words for sentence in sentences]
    rows = rows_of_words(loaded.tokenizer, words, loaded.config.max_positions)
    shape = (len(rows), loaded.config.num_layers, loaded.config.num_heads)
    sums = {key: np.zeros(shape) for key in MEASURES}
    for i, layer, weights_HTT in attention_heads.weights(loaded.encoder, rows, progress):
        for key, values in measure(weights_HTT).items():
            sums[key][i, layer] = values
    return AttentionSums(np.array([row.num_tokens for row in rows], np.int64), sums)


def measure(weights_HTT: Floats) -> dict[str, Floats]:
    """Each measure [H] of one sentence's attention, summed over all tokens but the first and the last."""
    size = weights_HTT.shape[-1]
    ordinary_rows = weights_HTT[:, 1:-1]
    entropy = -(ordinary_rows * np.log(np.maximum(ordinary_rows, 1e-30))).sum(-1) / np.log(size)
    to_ordinary = ordinary_rows[:, :, 1:-1]
    shares = to_ordinary / np.maximum(to_ordinary.sum(-1, keepdims=True), 1e-30)
    places = np.arange(size - 2)
    distance = (shares * np.abs(places[:, None] - places)).sum(-1)
    specials = 1.0 * (1 - to_ordinary.sum(-1)).sum(-1)
    return {"entropy": entropy.sum(-1), "distance": distance.sum(-1), "specials": specials}


def _uniform_distance(size: int) -> float:
    """The mean distance between two uniformly drawn positions of `size`."""
    return (size**2 - 1) / (3 * size) if size else 0.0
