"""The shape of an encoder's space: anisotropy and effective rank of its word vectors at each depth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from typing_extensions import override

from electra.finetuning.labelled.tagged_sentences import Sentence
from electra.foundation.arrays import Ints, Vectors
from electra.foundation.progress import scaled_progress
from electra.laboratory.analysis.contract import Findings, Progress
from electra.laboratory.analysis.measures.half_samples import half_samples
from electra.laboratory.analysis.measures.space import effective_rank, mean_cosine
from electra.laboratory.analysis.representations import by_depth
from electra.laboratory.analysis.representations.encoder_probe import TreebankConfig, TreebankProbe
from electra.laboratory.analysis.representations.encoders import NamedEncoder, Words, common_words

Config = TreebankConfig


class Probe(TreebankProbe):
    """Measures anisotropy and effective rank at each depth of each encoder."""

    title = "The shape of the space"
    question = "Do word vectors fill the space, or lie in a narrow cone or in a few directions of it?"
    source = "Methods: Ethayarajh 2019 (mean cosine), Roy and Vetterli 2007 (effective rank)."
    version = 1

    @override
    def run_on_encoders(
        self, encoders: Sequence[NamedEncoder], sentences: Sequence[Sentence], progress: Progress
    ) -> Findings:
        words, findings = (
            common_words(encoders, sentences, scaled_progress(progress, 0, 0.5)),
            Findings(),
        )
        progress("anisotropy", 0.5)
        cosines = self._measure(
            encoders, words, lambda vectors, items: mean_cosine(vectors, words.sentence[items])
        )
        progress("effective rank", 0.7)
        ranks = self._measure(encoders, words, lambda vectors, _: effective_rank(vectors))
        about, unit = "Anisotropy. 0: no common direction.", "mean cosine of two words"
        by_depth.add_measure(findings, "Mean cosine", cosines, figure="mean-cosine", about=about, unit=unit)
        about = "The number of directions in use."
        by_depth.add_measure(
            findings, "Effective rank", ranks, figure="effective-rank", about=about, unit="directions"
        )
        findings.headline["mean cosine, last depth"] = cosines[encoders[0].name][-1]
        findings.headline["effective rank, last depth"] = ranks[encoders[0].name][-1]
        dimensions = " or ".join(map(str, sorted({states.shape[2] for states in words.vectors})))
        findings.notes += [
            f"{len(words.kept)} words of {len(sentences)} sentences, in {dimensions} dimensions.",
            "The mean cosine is taken over all pairs of words of different sentences, the effective rank over"
            " the centred vectors.",
            "Intervals come from halves of the sentences.",
        ]
        return findings

    def _measure(
        self, encoders: Sequence[NamedEncoder], words: Words, measure: Callable[[Vectors, Ints], float]
    ) -> by_depth.ByDepth:
        def at_each_depth(items: Ints, states: Vectors) -> list[float]:
            return [measure(depth[items], items) for depth in states]

        return {
            encoder.name: half_samples(
                partial(at_each_depth, states=states), words.sentence, resamples=self.config.resamples
            )
            for encoder, states in zip(encoders, words.vectors, strict=True)
        }
