"""Sentence similarity: STS-B with the mean vectors of frozen encoders, at each depth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from typing_extensions import override

from electra.finetuning.labelled.sentence_pairs import ScoredPair
from electra.foundation.arrays import Floats, Vectors
from electra.foundation.progress import Share, part_progress
from electra.laboratory.analysis.contract import Estimate, Findings, Progress, Table
from electra.laboratory.analysis.measures.bootstrap import estimates
from electra.laboratory.analysis.measures.correlation import pearson, ranks
from electra.laboratory.analysis.representations import by_depth
from electra.laboratory.analysis.representations.encoder_probe import PairsConfig, PairsProbe
from electra.laboratory.analysis.representations.encoders import NamedEncoder, rows_of_texts
from electra.model import hidden

Config = PairsConfig

OVERLAP = "word overlap"


class Probe(PairsProbe):
    """Correlates cosines of mean vectors with human similarity scores."""

    title = "Sentence similarity without training"
    question = "Does the cosine of two sentences' mean vectors rank pairs as people rank them?"
    source = "Data: STS-B, Cer et al. 2017. Spearman correlation with human scores."
    version = 1

    @override
    def run_on_encoders(
        self, encoders: Sequence[NamedEncoder], pairs: Sequence[ScoredPair], progress: Progress
    ) -> Findings:
        gold = np.array([pair[2] for pair in pairs])
        texts = [pair[0] for pair in pairs] + [pair[1] for pair in pairs]
        raw: dict[str, list[Floats]] = {}
        centred: dict[str, list[Floats]] = {}
        for number, encoder in enumerate(encoders):
            vectors = mean_vectors(
                encoder, texts, part_progress(progress, encoder.name, number, len(encoders))
            )
            raw[encoder.name] = [cosines(depth) for depth in vectors]
            centred[encoder.name] = [cosines(depth - depth.mean(0)) for depth in vectors]
        overlap = np.array([word_overlap(a, b) for a, b, _ in pairs])
        by_depth_raw, leads, baseline = self._rank(raw, overlap, gold)
        by_depth_centred, _, _ = self._rank(centred, overlap, gold)
        findings, first, title = Findings(), encoders[0].name, "Spearman correlation"
        references, unit = {OVERLAP: baseline.value or 0.0}, title
        note = "Cosine of the mean token vectors. Depth 0 is the input of the first layer."
        labels = {"figure": "spearman", "unit": unit, "about": "Cosine of mean vectors against human scores."}
        by_depth.add_measure(findings, title, by_depth_raw, note=note, references=references, **labels)
        if leads:
            note = "Paired over the same pairs."
            by_depth.add_measure(findings, f"{title}: how far {first} is ahead", leads, note=note)
        note = "The mean of all vectors is subtracted first."
        labels |= {"figure": "spearman-centred", "about": note}
        title = f"{title}, common direction removed"
        by_depth.add_measure(findings, title, by_depth_centred, note=note, references=references, **labels)
        findings.add(baseline, measure="Spearman", **{"without an encoder": OVERLAP})
        note = "Shared words over all words of the two sentences."
        findings.tables.append(Table("Without an encoder", ("without an encoder",), note=note))
        findings.headline["Spearman, best depth"] = by_depth.best(by_depth_raw[first])
        findings.notes.append(
            f"{len(pairs)} pairs. Intervals: bootstrap over pairs, the same samples for all encoders."
        )
        return findings

    def _rank(
        self, similar: dict[str, list[Floats]], overlap: Floats, gold: Floats
    ) -> tuple[by_depth.ByDepth, by_depth.ByDepth, Estimate]:
        """Spearman correlations, the first encoder's lead, and the correlation of word overlap."""
        first, *others = similar
        depths = {name: len(rows) for name, rows in similar.items()}
        shared = {f"ahead of {name}": min(depths[first], depths[name]) for name in others}

        def measure(weights: Floats) -> dict[str, float]:
            of_gold = ranks(gold, weights)

            def rank(values: Floats) -> float:
                return pearson(ranks(values, weights), of_gold, weights)

            correlations = {name: [rank(row) for row in rows] for name, rows in similar.items()}
            leads = [
                a - b
                for name in others
                for a, b in zip(correlations[first], correlations[name], strict=False)
            ]
            values = [*(value for rows in correlations.values() for value in rows), *leads, rank(overlap)]
            return {str(number): value for number, value in enumerate(values)}

        flat = iter(estimates(measure, np.arange(len(gold)), resamples=self.config.resamples).values())
        correlations, leads = (
            {name: [next(flat) for _ in range(count)] for name, count in counts.items()}
            for counts in (depths, shared)
        )
        return correlations, leads, next(flat)


def mean_vectors(encoder: NamedEncoder, texts: Sequence[str], progress: Share) -> Vectors:
    """[depths, texts, D] the mean over a text's tokens without [CLS] and [SEP]."""
    loaded = encoder.loaded
    rows = rows_of_texts(loaded.tokenizer, texts, loaded.config.max_positions)
    return hidden.word_vectors(loaded.encoder, rows, [1] * len(rows), progress)[0]


def cosines(vectors: Vectors) -> Floats:
    """The cosines [N] of the first half of the vectors [2N, D] with the second; 0 where one is zero."""
    first, second = np.split(vectors.astype(np.float64), 2)
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.asarray((first * second).sum(1) / np.where(lengths > 0, lengths, 1.0))


def word_overlap(first: str, second: str) -> float:
    """Shared words over all words, ignoring case (Jaccard 1901)."""
    a, b = set(first.lower().split()), set(second.lower().split())
    return len(a & b) / max(1, len(a | b))
