"""Similarity of two encoders at each depth: debiased centred kernel alignment (CKA) of the words' vectors.

CKA (Kornblith et al. 2019) is HSIC(X, Y) / sqrt(HSIC(X, X) HSIC(Y, Y)) with linear kernels: 1 for
representations that are equal up to rotation and scaling. With the usual estimate of HSIC, unrelated features
seem similar if there are few words and many features, so HSIC is estimated without bias (Song et al. 2012;
used by Nguyen et al. 2021): unrelated features get 0 on average. It is computed from the features, without
the words-by-words kernel matrices. Shapes: n words, D and E features.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import override

from electra.finetuning.labelled.examples import Example
from electra.foundation.arrays import Floats, Ints, Vectors
from electra.foundation.errors import ConfigError, ModelError
from electra.laboratory.analysis import contract
from electra.laboratory.analysis.contract import Data, Estimate, Findings, Input, Progress, StudiedModel
from electra.laboratory.analysis.measures.bootstrap import half_samples
from electra.laboratory.analysis.scoring.scorers import word_ids_at
from electra.laboratory.analysis.texts import at_least_0, sample, tagged_sentences
from electra.model import hidden

if TYPE_CHECKING:
    from electra.data.corpus.tokenizer import Tokenizer
    from electra.exchange.load import Loaded

SAME_DEPTH = "Similarity at the same depth"
UNTRAINED = "untrained"
MIN_WORDS = 8  # for the measures of representations to be defined


@dataclass(frozen=True)
class Config:
    """Options of the probe."""

    sentences: int = at_least_0(500)
    """Treebank sentences to use (0: all)."""
    resamples: int = at_least_0(100)
    """Half-samples of the sentences for the intervals."""
    untrained: bool = True
    """Include an untrained encoder."""


class Probe(contract.Probe):
    """Compares the first encoder with each other encoder, at the same depth."""

    title = "Similarity of representations, depth by depth"
    question = "How do the representations differ from BERT's, and by more than those of two seeds of one training?"
    source = (
        "Method: Kornblith et al. 2019; debiased by the estimate of Song et al. 2012. Pass the masked"
        " language model and other seeds as well: the difference between seeds is the yardstick."
    )
    version = 1
    needs = ("encoder",)
    config: Config

    @override
    def inputs(self) -> tuple[Input, ...]:
        patterns = ("*dev.conllu*", "*test.conllu*")
        return (Input("treebank", "Universal Dependencies dev or test file", patterns),)

    @override
    def run(self, models: Sequence[StudiedModel], data: Data, progress: Progress) -> Findings:
        encoders, findings = encoders_of(models, self.config.untrained), Findings()
        if len(encoders) < 2:
            fix = "Pass another model, or omit this option"
            raise ConfigError("one encoder: nothing to compare it with", key="untrained", fix=fix)
        treebank = [sentence for path in data["treebank"] for sentence in tagged_sentences(path)]
        sentences = sample(treebank, self.config.sentences)
        vectors, sentence = common_words(encoders, sentences, progress)
        first = models[0].name
        about = f"Debiased CKA of {first} and each other encoder. 1: equal up to rotation and scale. 0:"
        about += " nothing in common. Depth 0 is the input to the first layer."
        findings.table(SAME_DEPTH, "depth", across="encoder", note=about, measure=SAME_DEPTH)
        shown = {"note": f"{about} Bands are 95 % intervals.", "unit": "CKA"}
        findings.figure("same-depth", SAME_DEPTH, "depth", "encoder", {"measure": SAME_DEPTH}, **shown)
        for index, (name, other) in enumerate([*zip(encoders, vectors, strict=True)][1:], 1):
            progress(f"{first} and {name}", index / len(encoders))
            row = same_depth(vectors[0], other, sentence, self.config.resamples)
            findings.headline[f"CKA with {name}, last depth"] = row[-1]
            for depth, estimate in enumerate(row[: min(len(vectors[0]), len(other))]):
                findings.add(estimate, measure=SAME_DEPTH, encoder=name, depth=depth)
        findings.notes += [
            f"{len(sentence)} words of {len(sentences)} sentences.",
            "Intervals are not over further training runs: compare with the row of another seed.",
        ]
        return findings


def same_depth(first: Vectors, other: Vectors, sentence: Ints, resamples: int) -> list[Estimate]:
    """Returns CKA at each common depth and, if one encoder is deeper, of both last depths at the end."""
    depths = [(depth, depth) for depth in range(min(len(first), len(other)))]
    if len(first) != len(other):
        depths.append((len(first) - 1, len(other) - 1))

    def measure(items: Ints) -> list[float]:
        return [cka(first[a][items], other[b][items]) for a, b in depths]

    return half_samples(measure, sentence, resamples=resamples)


def cka(first: Vectors, other: Vectors) -> float:
    """Returns CKA of [n, D] and [n, E]: 1 if equal, about 0 or below if unrelated, NaN if one is constant."""
    centred = [x - x.mean(0) for x in (first.astype(np.float64), other.astype(np.float64))]
    # CKA does not depend on scale
    norms = [max(float(np.linalg.norm(x)), np.finfo(float).tiny) for x in centred]
    x, y = (each / norm * math.sqrt(len(each)) for each, norm in zip(centred, norms, strict=True))
    product = _hsic(x, x) * _hsic(y, y)
    return _hsic(x, y) / math.sqrt(product) if product > 0 else math.nan


def _hsic(x: Floats, y: Floats) -> float:
    """Returns the unbiased estimate of HSIC (Song et al. 2012, equation 4); needs at least four words."""
    # The kernels are taken without their diagonals. Their rows sum to zero over all words, because the
    # features are centred; so without the diagonal they sum to minus the diagonal.
    n, a, b = len(x), (x**2).sum(1), (y**2).sum(1)
    assert n > 3
    trace = float(((x.T @ y) ** 2).sum()) - float(a @ b)
    sums = float(a.sum() * b.sum()) / ((n - 1) * (n - 2))
    return (trace + sums - 2.0 / (n - 2) * float(a @ b)) / (n * (n - 3))


def encoders_of(models: Sequence[StudiedModel], untrained: bool) -> dict[str, "Loaded"]:
    """Returns the models' encoders by name; if `untrained`, also one like the first but with random weights.

    The untrained encoder shows what the architecture and the tokenizer provide without training. Raises
    ModelError if a model cannot be loaded, or has the untrained encoder's name.
    """
    from electra.model.pair import build_encoder, initialise

    encoders = {model.name: model.network("encoder") for model in models}
    if not untrained:
        return encoders
    if UNTRAINED in encoders:
        problem = f"{UNTRAINED!r} is the name of the encoder with random weights, so no model's"
        raise ModelError(problem, fix="Pass a link with another name")
    first = next(iter(encoders.values()))
    encoder = build_encoder(first.config).eval()
    initialise(encoder, 0, "fan_in")
    changed = replace(first, encoder=encoder.to(first.device), head=None, kind="encoder", notes=())
    return {**encoders, UNTRAINED: replace(changed, head_weights={})}


def rows_of_words(
    tokenizer: "Tokenizer", sentences: Sequence[Sequence[str]], max_positions: int
) -> list[tuple[Ints, Ints]]:
    """Returns the token ids of sentences given as words, and each token's word: see `hidden.word_vectors`.

    Words are joined by spaces; a token belongs to the word with its last character. Tokens beyond the model's
    positions are dropped, so a word may have no token.
    """
    rows, specials = [], tokenizer.specials
    for words in sentences:
        encoding = tokenizer.encode(" ".join(words))
        kept = [i for i, special in enumerate(encoding.special) if not special][: max_positions - 2]
        ids = np.array([specials.cls, *(encoding.ids[i] for i in kept), specials.sep], np.int64)
        rows.append((ids, word_ids_at(words, [encoding.offsets[i] for i in kept])))
    return rows


def common_words(
    encoders: Mapping[str, "Loaded"], sentences: Sequence[Example], progress: Progress
) -> tuple[list[Vectors], Ints]:
    """Returns vectors of the words that every encoder has a token for, so that vocabularies may differ.

    They are [depths, words, D] for each encoder; the second value is the index [words] of each word's
    sentence. Raises ProbeDataError if there are fewer than `MIN_WORDS`.
    """
    counts = [len(sentence.texts) for sentence in sentences]
    vectors, present = [], np.ones(sum(counts), bool)
    for i, (name, loaded) in enumerate(encoders.items()):
        texts = [sentence.texts for sentence in sentences]
        rows = rows_of_words(loaded.tokenizer, texts, loaded.config.max_positions)
        progress(f"reading by {name}", i / len(encoders))
        states, has_token = hidden.word_vectors(loaded.encoder, rows, counts)
        vectors.append(states)
        present &= has_token
    if present.sum() < MIN_WORDS:
        problem = f"only {present.sum()} of {len(present):,} words have a token in every model's vocabulary"
        raise contract.ProbeDataError(problem, fix="Use more sentences, in the models' language")
    return [states[:, present] for states in vectors], np.repeat(np.arange(len(counts)), counts)[present]
