"""Does an encoder spread its words over the space it has? Anisotropy and effective rank, depth by depth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from electra.analysis.parts import by_depth, interface
from electra.analysis.parts.encoders import TREEBANK, Named, Words, common_words, encoders_of, treebank
from electra.analysis.parts.halves import Ints, half_samples
from electra.analysis.parts.hidden import Floats
from electra.analysis.parts.interface import Data, Estimate, Input, Progress, Report
from electra.analysis.parts.models import Model
from electra.analysis.parts.shape import effective_rank, mean_cosine


@dataclass(frozen=True)
class Config:
    sentences: int = 500
    """Treebank sentences whose words are looked at (0: all)."""
    resamples: int = 100
    """Half-samples of the sentences, for the intervals."""
    untrained: bool = True
    """Look at an untrained encoder too."""


class Probe(interface.Probe):
    title = "The shape of the space"
    question = "Do words fill the space, or lie in a narrow cone or in few directions of it?"
    source = "Asked by a reader's review of the paper. Methods: Ethayarajh 2019 (mean cosine), Roy and Vetterli 2007 (effective rank)."
    version = 1
    needs = ("encoder",)
    config: Config

    def inputs(self) -> tuple[Input, ...]:
        return (TREEBANK,)

    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Report:
        encoders = encoders_of(models, self.config.untrained)
        sentences = treebank(data["treebank"], self.config.sentences)
        words = common_words(encoders, sentences, lambda what, share: progress(what, 0.5 * share))
        progress("anisotropy", 0.5)
        cosines = self._measure(encoders, words, lambda vectors, items: mean_cosine(vectors, words.sentence[items]))
        progress("effective rank", 0.7)
        ranks = self._measure(encoders, words, lambda vectors, _: effective_rank(vectors))
        first = encoders[0].name
        headline = {"mean cosine, last depth": cosines[first][-1], "effective rank, last depth": ranks[first][-1]}
        dimensions = sorted({states.shape[2] for states in words.vectors})
        notes = [
            f"{len(words.kept)} words of {len(sentences)} sentences, in {' or '.join(map(str, dimensions))} dimensions.",
            "The mean cosine is over all pairs of words of different sentences; the effective rank is of the centred vectors.",
            "Intervals are from halves of the sentences.",
        ]
        figures = [
            by_depth.figure("mean-cosine", "Anisotropy", note="0: no common direction.", y="mean cosine of two words", found=cosines),
            by_depth.figure("effective-rank", "Effective rank", note="How many directions are in use.", y="directions", found=ranks),
        ]
        return Report(headline, [by_depth.table("Mean cosine", cosines), by_depth.table("Effective rank", ranks)], figures, notes)

    def _measure(self, encoders: Sequence[Named], words: Words, measure: Callable[[Floats, Ints], float]) -> dict[str, list[Estimate]]:
        def at_each_depth(items: Ints, states: Floats) -> list[float]:
            return [measure(depth[items], items) for depth in states]

        return {
            encoder.name: half_samples(partial(at_each_depth, states=states), words.sentence, resamples=self.config.resamples)
            for encoder, states in zip(encoders, words.vectors, strict=True)
        }
