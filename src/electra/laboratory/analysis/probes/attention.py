"""Where do the heads look? Entropy, distance, and the share that goes to [CLS] and [SEP], layer by layer and
head by head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from electra.finetuning.labelled.tagged_sentences import Sentence
from electra.foundation.arrays import Floats, Ints
from electra.foundation.progress import Share, part_progress
from electra.laboratory.analysis.contract import Findings, Progress
from electra.laboratory.analysis.representations import attention_heads, by_depth
from electra.laboratory.analysis.representations.encoder_probe import TreebankConfig, TreebankProbe
from electra.laboratory.analysis.representations.encoders import UNTRAINED, Named, rows_of_words

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
        "Heads with nothing to do are known to look there (Clark et al. 2019).",
    ),
}


@dataclass(frozen=True)
class Config(TreebankConfig):
    sentences: int = 300
    """Treebank sentences to read (0: all)."""
    resamples: int = 500
    """Bootstrap samples of the sentences."""


class Probe(TreebankProbe):
    title = "Where attention goes"
    question = "Do the heads of the two objectives look at different places?"
    source = "Method: Clark et al. 2019, What does BERT look at?"
    version = 1
    config: Config

    def look(self, encoders: Sequence[Named], sentences: Sequence[Sentence], progress: Progress) -> Findings:
        looked = {
            encoder.name: look(
                encoder, sentences, part_progress(progress, encoder.name, number, len(encoders))
            )
            for number, encoder in enumerate(encoders)
        }
        findings, first, groups = Findings(), encoders[0].name, np.arange(len(sentences))
        for key, (title, unit, about) in MEASURES.items():
            found: by_depth.Found = {}
            for name, seen in looked.items():  # each layer's mean over its heads
                points = {name: list(seen.sums[key].mean(2).T)}
                found |= by_depth.ratios(points, seen.tokens, groups, self.config.resamples)
            note, shown = (
                f"In {unit}. {about}",
                {"figure": key, "about": about, "unit": unit},
            )
            by_depth.show(
                findings,
                f"{title}, mean of the heads",
                found,
                note=note,
                references={},
                axis="layer",
                **shown,
            )
            findings.headline[f"{title}, last layer"] = found[first][-1]
        trained = {name: seen for name, seen in looked.items() if name != UNTRAINED}
        means = {
            f"{name}: {key}": values.sum(0) / max(1, seen.tokens.sum())
            for name, seen in trained.items()
            for key, values in seen.sums.items()
        }
        attention_heads.show(findings, means)
        tokens = looked[first].tokens
        uniform = float(sum(_uniform_distance(n) * n for n in tokens) / max(1, tokens.sum()))
        findings.notes += [
            f"{int(tokens.sum())} tokens of {len(sentences)} sentences, by {first}'s tokenizer.",
            f"Uniform attention has a mean distance of {uniform:.2f} tokens in these sentences.",
            "Attention weights are recomputed from the layers' queries and keys.",
        ]
        return findings


@dataclass(frozen=True)
class Looked:
    tokens: Ints  # [sentences] ordinary tokens of each
    sums: dict[
        str, Floats
    ]  # measure -> [sentences, layers, heads] summed over the sentence's ordinary tokens


def look(encoder: Named, sentences: Sequence[Sentence], progress: Share) -> Looked:
    loaded = encoder.loaded
    words = [sentence.words for sentence in sentences]
    rows = rows_of_words(loaded.tokenizer, words, loaded.config.max_positions)
    shape = (len(rows), loaded.config.num_layers, loaded.config.num_heads)
    sums = {key: np.zeros(shape) for key in MEASURES}
    for i, layer, weights_HTT in attention_heads.weights(loaded.encoder, rows, progress):
        for key, values in measure(weights_HTT).items():
            sums[key][i, layer] = values
    return Looked(np.array([row.num_tokens for row in rows], np.int64), sums)


def measure(weights_HTT: Floats) -> dict[str, Floats]:
    """Each measure [H] of one sentence's attention, summed over all tokens but the first and the last."""
    size = weights_HTT.shape[-1]
    given = weights_HTT[:, 1:-1]
    entropy = -(given * np.log(np.maximum(given, 1e-30))).sum(-1) / np.log(size)
    ordinary = given[:, :, 1:-1]
    shares = ordinary / np.maximum(ordinary.sum(-1, keepdims=True), 1e-30)
    places = np.arange(size - 2)
    distance = (shares * np.abs(places[:, None] - places)).sum(-1)
    specials = 1.0 * (1 - ordinary.sum(-1)).sum(-1)
    return {"entropy": entropy.sum(-1), "distance": distance.sum(-1), "specials": specials}


def _uniform_distance(size: int) -> float:
    """The mean distance between two places of `size`, drawn uniformly."""
    return (size**2 - 1) / (3 * size) if size else 0.0
