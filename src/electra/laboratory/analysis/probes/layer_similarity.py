"""Similarity of two encoders at each depth: centred kernel alignment of their vectors for the same words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from typing_extensions import override

from electra.finetuning.labelled.tagged_sentences import read_universal_dependencies
from electra.foundation.arrays import Ints
from electra.foundation.progress import scaled_progress
from electra.laboratory.analysis import contract
from electra.laboratory.analysis.contract import Data, Estimate, Findings, Input, Model, Progress
from electra.laboratory.analysis.contract.models import OBJECTIVE, SEED, UNKNOWN, difference
from electra.laboratory.analysis.measures.bootstrap import half_samples
from electra.laboratory.analysis.measures.cka import Features, cka
from electra.laboratory.analysis.representations import by_depth
from electra.laboratory.analysis.representations.encoders import (
    NamedEncoder,
    Words,
    common_words,
    encoders_of,
)
from electra.laboratory.analysis.texts.sampling import sample

Pairs = Mapping[str, Sequence[tuple[int, int]]]
"""SEED or OBJECTIVE -> the pairs of encoders, by index, whose training runs differ in it."""
TITLE = "Across seeds, and across objectives"
SAME_DEPTH = "Similarity at the same depth"


@dataclass(frozen=True)
class Config:
    """Options of the probe."""

    sentences: int = 500
    """Treebank sentences to use (0: all)."""
    resamples: int = 100
    """Half-samples of the sentences for the intervals."""
    untrained: bool = True
    """Include an untrained encoder."""


class Probe(contract.Probe):
    """Compares the first encoder with each other encoder, at the same depth and across depths."""

    title = "Similarity of representations, depth by depth"
    question = (
        "How do the representations differ from BERT's, and by more than those of two seeds of one training?"
    )
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
    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Findings:
        encoders = encoders_of(models, self.config.untrained)
        treebank = [sentence for path in data["treebank"] for sentence in read_universal_dependencies(path)]
        sentences = sample(treebank, self.config.sentences)
        words = common_words(encoders, sentences, scaled_progress(progress, 0, 0.3))
        findings, names = Findings(), [encoder.name for encoder in encoders]
        pairs = pairs_by_difference(encoders)
        about = "Bands are 95 % intervals."
        if len(names) > 1:
            shown = {"note": f"Debiased CKA of {names[0]} and each other encoder. {about}", "unit": "CKA"}
            keep = {"measure": SAME_DEPTH}
            findings.figure("same-depth", SAME_DEPTH, "depth", "encoder", keep, **shown)
        if all(pairs.values()):
            across = self._across(words, pairs)
            note = f"Debiased CKA, means over pairs. {_pairs_note(pairs, names)}"
            by_depth.add_measure(findings, TITLE, across, note=note)
            shown = {"note": f"Debiased CKA, means over pairs. {about}", "unit": "CKA"}
            both = {"measure": TITLE, "encoder": ("across seeds", "across objectives")}
            findings.figure("across", TITLE, "depth", "encoder", both, **shown)
            findings.headline.update({f"CKA {name}, last depth": row[-1] for name, row in across.items()})
        for index, name in enumerate(names):
            progress(f"{names[0]} and {name}", 0.3 + 0.7 * index / len(names))
            _add_matrix(findings, words, names, index)
            if index:
                row, last_estimate = self._same_depth(findings, words, names, index)
                findings.headline[f"CKA with {name}, last depth"] = last_estimate
                label = _label(encoders[0], encoders[index])
                for depth, estimate in enumerate(row):
                    findings.add(estimate, measure=SAME_DEPTH, encoder=label, depth=depth)
        findings.notes += [
            f"{len(words.index)} words of {len(sentences)} sentences. A word's vector is the mean of its"
            " tokens' vectors, so vocabularies may differ.",
            "Intervals: the spread over halves of the sentences, since a bootstrap would count repeated words"
            " as similarity.",
        ]
        if not pairs[SEED]:
            findings.notes.append(
                "No two of these encoders are known to be seeds of one training: without that yardstick a"
                " difference between two objectives cannot be judged."
            )
        return findings

    def _same_depth(
        self, findings: Findings, words: Words, names: Sequence[str], other: int
    ) -> tuple[list[Estimate], Estimate]:
        """Adds a table of CKA by depth; returns the estimates at common depths and at both last depths."""
        first, second = words.vectors[0], words.vectors[other]
        common = min(len(first), len(second))
        depths = [(depth, depth) for depth in range(common)]
        if len(first) != len(second):
            depths.append((len(first) - 1, len(second) - 1))

        def measure(items: Ints) -> list[float]:
            return [cka(Features(first[a][items]), Features(second[b][items])) for a, b in depths]

        estimates = half_samples(measure, words.sentence, resamples=self.config.resamples)
        title = f"CKA of {names[0]} and {names[other]}"
        for (a, b), estimate in zip(depths, estimates, strict=True):
            depth = str(a) if a == b else f"{a} and {b}"
            findings.add(estimate, measure="debiased", depth=depth, between=title)
        note = (
            "1: equal up to rotation and scale. 0: nothing in common. Depth 0 is the input to the first"
            " layer."
        )
        findings.table(title, "depth", note=note, between=title)
        return estimates[:common], estimates[-1]

    def _across(self, words: Words, pairs: Pairs) -> by_depth.ByDepth:
        """Returns the mean CKA across seeds and across objectives, and their difference, by common depth."""
        encoder_indices = {i for members in pairs.values() for pair in members for i in pair}
        depths = range(min(len(words.vectors[i]) for i in encoder_indices))

        def measure(items: Ints) -> list[float]:
            values: list[float] = []
            for depth in depths:
                features = {i: Features(words.vectors[i][depth][items]) for i in encoder_indices}
                across_seeds, across_objectives = (
                    float(np.mean([cka(features[i], features[j]) for i, j in pairs[kind]]))
                    for kind in (SEED, OBJECTIVE)
                )
                values += [across_seeds, across_objectives, across_seeds - across_objectives]
            return values

        estimates = half_samples(measure, words.sentence, resamples=self.config.resamples)
        names = ("across seeds", "across objectives", "difference")
        return {name: estimates[i::3] for i, name in enumerate(names)}


def pairs_by_difference(encoders: Sequence[NamedEncoder]) -> Pairs:
    """Returns the pairs of encoders that differ in the seed alone, and those with different objectives."""
    difference_of = {
        (i, j): difference(a.origin, b.origin) for (i, a), (j, b) in combinations(enumerate(encoders), 2)
    }
    return {
        kind: [pair for pair, other in difference_of.items() if other == kind] for kind in (SEED, OBJECTIVE)
    }


def _pairs_note(pairs: Pairs, names: Sequence[str]) -> str:
    listed = {
        kind: "; ".join(f"{names[i]} and {names[j]}" for i, j in members) for kind, members in pairs.items()
    }
    return (
        f"Seeds: {listed[SEED]}. Objectives: {listed[OBJECTIVE]}. Intervals are over sentences, not over"
        " further training runs."
    )


def _label(first: NamedEncoder, other: NamedEncoder) -> str:
    kind = difference(first.origin, other.origin).partition(" (")[0]
    return other.name if kind == UNKNOWN else f"{other.name} ({kind})"


def _add_matrix(findings: Findings, words: Words, names: Sequence[str], other: int) -> None:
    """Adds a matrix: the CKA of each depth of the first encoder with each depth of the other."""
    first, second = ([Features(depth) for depth in words.vectors[i]] for i in (0, other))
    title = f"{names[0]} and {names[other]}" if other else f"{names[0]}, its depths compared with each other"
    axis = f"depth of {names[other]}"
    for row, x in enumerate(first):
        for column, y in enumerate(second):
            findings.add(float(cka(x, y)), matrix=title, row=f"depth {row}", **{axis: str(column)})
    note, keep = f"Debiased CKA. Rows: {names[0]}. Columns: {names[other]}.", {"matrix": title}
    shown = {"note": note, "unit": axis, "kind": "matrix"}
    findings.figure(f"cka-{other}", title, axis, "row", keep, y_range=(0.0, 1.0), **shown)
