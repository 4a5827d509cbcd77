"""Where do the heads look? Entropy, distance, and the share that goes to [CLS] and [SEP], layer by layer and
head by head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from electra.analysis.contract import Progress, Report
from electra.analysis.representations import attention_heads, by_depth
from electra.analysis.representations.encoders import UNTRAINED, Named, rows_of_words, within
from electra.analysis.representations.treebank import TreebankConfig, TreebankProbe
from electra.analysis.texts.reading import Sentence
from electra.model import hidden

Floats = npt.NDArray[np.float64]

MEASURES = {
    "entropy": (
        "Entropy of attention",
        "share of the highest possible",
        "1: a token attends to all alike. 0: to one.",
    ),
    "distance": (
        "Distance of attention",
        "tokens",
        "How far away the ordinary tokens lie that a token attends to.",
    ),
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
    source = "Asked by a reader's review of the paper. Method: Clark et al. 2019, What does BERT look at?"
    version = 1
    config: Config

    def look(self, encoders: Sequence[Named], sentences: Sequence[Sentence], progress: Progress) -> Report:
        looked = {
            encoder.name: look(encoder, sentences, within(progress, encoder.name, number, len(encoders)))
            for number, encoder in enumerate(encoders)
        }
        tables, figures, headline = [], [], {}
        first = encoders[0].name
        tokens = looked[first].tokens
        for key, (title, unit, note) in MEASURES.items():
            # Each layer's mean over its heads; layers are counted from 1, so depth 0 stays empty.
            points = {name: list(found.sums[key].mean(2).T) for name, found in looked.items()}
            found = {
                name: by_depth.ratios(
                    {name: rows}, looked[name].tokens, np.arange(len(sentences)), self.config.resamples
                )[name]
                for name, rows in points.items()
            }
            tables.append(by_depth.table(f"{title}, mean of the heads", found, f"In {unit}. {note}", first=1))
            figures.append(by_depth.figure(key, title, note=note, y=unit, found=found, first=1))
            headline[f"{title}, last layer"] = found[first][-1]
        means = {
            f"{name}: {key}": values.sum(0) / max(1, seen.tokens.sum())
            for name, seen in looked.items()
            if name != UNTRAINED
            for key, values in seen.sums.items()
        }
        tables.append(attention_heads.table(means))
        uniform = float(sum(_uniform_distance(n) * n for n in tokens) / max(1, tokens.sum()))
        notes = [
            f"{int(tokens.sum())} tokens of {len(sentences)} sentences, by {first}'s tokenizer.",
            (
                f"Attention that is the same everywhere has a mean distance of {uniform:.2f} tokens in these"
                " sentences."
            ),
            (
                "Weights are made again from the layers' queries and keys; a test holds them against what the"
                " layers computed."
            ),
        ]
        return Report(headline, tables, figures, notes)


@dataclass(frozen=True)
class Looked:
    tokens: npt.NDArray[np.int64]  # [sentences] ordinary tokens of each
    sums: dict[
        str, Floats
    ]  # measure -> [sentences, layers, heads] summed over the sentence's ordinary tokens


def look(encoder: Named, sentences: Sequence[Sentence], progress: hidden.Progress) -> Looked:
    loaded = encoder.loaded
    rows = rows_of_words(
        loaded.tokenizer, [sentence.words for sentence in sentences], loaded.config.max_positions
    )
    shape = (len(rows), loaded.config.num_layers, loaded.config.num_heads)
    sums = {key: np.zeros(shape) for key in MEASURES}
    for i, layer, weights_HTT in attention_heads.weights(loaded.encoder, rows, progress):
        for key, values in measure(weights_HTT).items():
            sums[key][i, layer] = values
    return Looked(np.array([row.num_tokens for row in rows], np.int64), sums)


def measure(weights_HTT: Floats) -> dict[str, Floats]:
    """Each measure [H] of one sentence's attention, summed over its ordinary tokens: all but the first and
    the last.
    """
    size = weights_HTT.shape[-1]
    given = weights_HTT[:, 1:-1]
    entropy = -(given * np.log(np.maximum(given, 1e-30))).sum(-1) / np.log(size)
    ordinary = given[:, :, 1:-1]
    shares = ordinary / np.maximum(ordinary.sum(-1, keepdims=True), 1e-30)
    places = np.arange(size - 2)
    distance = (shares * np.abs(places[:, None] - places)).sum(-1)
    return {
        "entropy": entropy.sum(-1),
        "distance": distance.sum(-1),
        "specials": 1.0 * (1 - ordinary.sum(-1)).sum(-1),
    }


def _uniform_distance(size: int) -> float:
    """The mean distance between two places of `size`, drawn alike."""
    return (size**2 - 1) / (3 * size) if size else 0.0
