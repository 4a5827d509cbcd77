"""Similarity of two encoders at each depth: centred kernel alignment of their vectors of the same words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from typing_extensions import override

from electra.finetuning.labelled.tagged_sentences import Sentence
from electra.foundation.arrays import Ints
from electra.foundation.progress import scaled_progress
from electra.laboratory.analysis.contract import Estimate, Figure, Findings, Progress, Table
from electra.laboratory.analysis.contract.findings import Selection
from electra.laboratory.analysis.contract.origin import OBJECTIVE, SEED, UNKNOWN, difference
from electra.laboratory.analysis.measures.cka import Features, cka, cka_matrix
from electra.laboratory.analysis.measures.half_samples import half_samples
from electra.laboratory.analysis.representations import by_depth
from electra.laboratory.analysis.representations.encoder_probe import TreebankConfig, TreebankProbe
from electra.laboratory.analysis.representations.encoders import NamedEncoder, Words, common_words

Config = TreebankConfig
Kinds = Mapping[str, Sequence[tuple[int, int]]]
"""How two encoders' trainings differ -> the pairs, by number, that differ so."""
TITLE = "Across seeds, and across objectives"
LIKENESS = "Likeness at the same depth"


class Probe(TreebankProbe):
    """Compares the first encoder with each other one, within and across depths."""

    title = "Similarity of representations, depth by depth"
    question = (
        "How do the representations differ from BERT's, and by more than between two seeds of one training?"
    )
    source = (
        "Method: Kornblith et al. 2019; debiased by the estimate of Song et al. 2012. Pass the masked"
        " language model and other seeds as well: the difference between seeds is the yardstick."
    )
    version = 1

    @override
    def run_on_encoders(
        self, encoders: Sequence[NamedEncoder], sentences: Sequence[Sentence], progress: Progress
    ) -> Findings:
        words = common_words(encoders, sentences, scaled_progress(progress, 0, 0.3))
        findings, names, kinds = (
            Findings(),
            [encoder.name for encoder in encoders],
            pairs_by_difference(encoders),
        )
        labels = {other: _label(encoders[0], encoders[other]) for other in range(1, len(names))}
        if labels:
            note = f"Debiased CKA of {names[0]} and each other encoder. Bands are 95 % intervals."
            keep = {"measure": LIKENESS}
            findings.figures.append(Figure("same-depth", LIKENESS, "depth", "encoder", keep, note, "CKA"))
        if all(kinds.values()):
            across = self._across(words, kinds)
            note = f"Debiased CKA, means over pairs. {_pairs_note(kinds, names)}"
            by_depth.add_measure(findings, TITLE, across, note=note)
            both: Selection = {"measure": TITLE, "encoder": ("across seeds", "across objectives")}
            about = "Debiased CKA, means over pairs. Bands are 95 % intervals."
            findings.figures.append(Figure("across", TITLE, "depth", "encoder", both, about, "CKA"))
            findings.headline.update({f"CKA {name}, last depth": row[-1] for name, row in across.items()})
        for other, name in enumerate(names):
            progress(f"{names[0]} and {name}", 0.3 + 0.7 * other / len(names))
            _matrix(findings, words, names, other)
            if other:
                estimates, last = self._same_depth(findings, words, names, other)
                findings.headline[f"CKA with {name}, last depth"] = last
                for depth, estimate in enumerate(estimates):
                    findings.add(estimate, measure=LIKENESS, encoder=labels[other], depth=depth)
        findings.notes += self._notes(words, len(sentences), kinds)
        return findings

    def _same_depth(
        self, findings: Findings, words: Words, names: list[str], other: int
    ) -> tuple[list[Estimate], Estimate]:
        """CKA at each common depth, with intervals, and that of the last depths of both."""
        first, second = words.vectors[0], words.vectors[other]
        pairs = [(depth, depth) for depth in range(min(len(first), len(second)))]
        if len(first) != len(second):
            pairs.append((len(first) - 1, len(second) - 1))

        def measure(items: Ints) -> list[float]:
            both = [(Features(first[a][items]), Features(second[b][items])) for a, b in pairs]
            return [cka(x, y) for x, y in both]

        estimates = half_samples(measure, words.sentence, resamples=self.config.resamples)
        title = f"CKA of {names[0]} and {names[other]}"
        for (a, b), estimate in zip(pairs, estimates, strict=True):
            at = {"depth": str(a) if a == b else f"{a} and {b}", "between": title}
            biased = cka(Features(first[a]), Features(second[b]), debiased=False)
            findings.add_all({"debiased": estimate, "biased": biased}, **at)
        note = (
            "1: equal up to rotation and scale. 0: nothing in common. Depth 0 is the input of the first"
            " layer."
        )
        findings.tables.append(Table(title, ("depth",), keep={"between": title}, note=note))
        return estimates[: min(len(first), len(second))], estimates[-1]

    def _across(self, words: Words, kinds: Kinds) -> by_depth.ByDepth:
        """The mean CKA of each kind of pairs, and how much more similar seeds are, at each common depth."""
        involved = {i for pairs in kinds.values() for pair in pairs for i in pair}
        depths = range(min(len(words.vectors[i]) for i in involved))

        def measure(items: Ints) -> list[float]:
            values: list[float] = []
            for depth in depths:
                features = {i: Features(words.vectors[i][depth][items]) for i in involved}
                seeds, objectives = (
                    float(np.mean([cka(features[i], features[j]) for i, j in kinds[kind]]))
                    for kind in (SEED, OBJECTIVE)
                )
                values += [seeds, objectives, seeds - objectives]
            return values

        flat = half_samples(measure, words.sentence, resamples=self.config.resamples)
        names = ("across seeds", "across objectives", "difference")
        return {name: flat[place::3] for place, name in enumerate(names)}

    def _notes(self, words: Words, sentences: int, kinds: Kinds) -> list[str]:
        notes = [
            f"{len(words.kept)} words of {sentences} sentences; a word's vector is the mean of its tokens',"
            " so vocabularies may differ.",
            "Intervals: the spread over halves of the sentences, since a bootstrap would count repeated words"
            " as similarity.",
        ]
        if not kinds[SEED]:
            consequence = "without that yardstick a difference between two objectives cannot be judged"
            notes.append(f"No two of these encoders are known to be seeds of one training: {consequence}.")
        return notes


def pairs_by_difference(encoders: Sequence[NamedEncoder]) -> Kinds:
    """The pairs of encoders that differ by their seed alone, and those with different objectives."""
    kinds = {
        (i, j): difference(a.origin, b.origin) for (i, a), (j, b) in combinations(enumerate(encoders), 2)
    }
    return {kind: [pair for pair, of_pair in kinds.items() if of_pair == kind] for kind in (SEED, OBJECTIVE)}


def _pairs_note(kinds: Kinds, names: Sequence[str]) -> str:
    listed = {
        kind: "; ".join(f"{names[i]} and {names[j]}" for i, j in pairs) for kind, pairs in kinds.items()
    }
    return (
        f"Seeds: {listed[SEED]}. Objectives: {listed[OBJECTIVE]}. Intervals are over sentences, not over"
        " further trainings."
    )


def _label(first: NamedEncoder, other: NamedEncoder) -> str:
    kind = difference(first.origin, other.origin).partition(" (")[0]
    return other.name if kind == UNKNOWN else f"{other.name} ({kind})"


def _matrix(findings: Findings, words: Words, names: Sequence[str], other: int) -> None:
    """Add the CKA of each depth of the first encoder with each depth of the other."""
    first, second = ([Features(depth) for depth in words.vectors[number]] for number in (0, other))
    title = f"{names[0]} and {names[other]}" if other else f"{names[0]}, its depths with each other"
    axis = f"depth of {names[other]}"
    for (row, column), value in np.ndenumerate(cka_matrix(first, second)):
        findings.add(float(value), matrix=title, row=f"depth {row}", **{axis: str(column)})
    note = f"Debiased CKA. Rows: {names[0]}. Columns: {names[other]}."
    shown = Figure(
        f"cka-{other}", title, axis, "row", {"matrix": title}, note, axis, "matrix", y_range=(0.0, 1.0)
    )
    findings.figures.append(shown)
