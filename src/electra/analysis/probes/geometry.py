"""Does an encoder spread its words over the space it has? Anisotropy and effective rank, depth by depth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from electra.analysis.contract import Estimate, Progress, Report
from electra.analysis.measures.half_samples import half_samples
from electra.analysis.measures.space import effective_rank, mean_cosine
from electra.analysis.representations import by_depth
from electra.analysis.representations.encoders import Named, Words, common_words
from electra.analysis.representations.treebank import TreebankConfig, TreebankProbe
from electra.analysis.texts.reading import Sentence
from electra.model.hidden import Ints, Vectors

Config = TreebankConfig


class Probe(TreebankProbe):
    title = "The shape of the space"
    question = "Do words fill the space, or lie in a narrow cone or in few directions of it?"
    source = (
        "Asked by a reader's review of the paper. Methods: Ethayarajh 2019 (mean cosine), Roy and Vetterli"
        " 2007 (effective rank)."
    )
    version = 1

    def look(self, encoders: Sequence[Named], sentences: Sequence[Sentence], progress: Progress) -> Report:
        words = common_words(encoders, sentences, lambda what, share: progress(what, 0.5 * share))
        progress("anisotropy", 0.5)
        cosines = self._measure(
            encoders, words, lambda vectors, items: mean_cosine(vectors, words.sentence[items])
        )
        progress("effective rank", 0.7)
        ranks = self._measure(encoders, words, lambda vectors, _: effective_rank(vectors))
        first = encoders[0].name
        headline = {
            "mean cosine, last depth": cosines[first][-1],
            "effective rank, last depth": ranks[first][-1],
        }
        dimensions = sorted({states.shape[2] for states in words.vectors})
        notes = [
            (
                f"{len(words.kept)} words of {len(sentences)} sentences, in"
                f" {' or '.join(map(str, dimensions))} dimensions."
            ),
            (
                "The mean cosine is over all pairs of words of different sentences; the effective rank is of"
                " the centred vectors."
            ),
            "Intervals are from halves of the sentences.",
        ]
        figures = [
            by_depth.figure(
                "mean-cosine",
                "Anisotropy",
                note="0: no common direction.",
                y="mean cosine of two words",
                found=cosines,
            ),
            by_depth.figure(
                "effective-rank",
                "Effective rank",
                note="How many directions are in use.",
                y="directions",
                found=ranks,
            ),
        ]
        return Report(
            headline,
            [by_depth.table("Mean cosine", cosines), by_depth.table("Effective rank", ranks)],
            figures,
            notes,
        )

    def _measure(
        self, encoders: Sequence[Named], words: Words, measure: Callable[[Vectors, Ints], float]
    ) -> dict[str, list[Estimate]]:
        def at_each_depth(items: Ints, states: Vectors) -> list[float]:
            return [measure(depth[items], items) for depth in states]

        return {
            encoder.name: half_samples(
                partial(at_each_depth, states=states), words.sentence, resamples=self.config.resamples
            )
            for encoder, states in zip(encoders, words.vectors, strict=True)
        }
