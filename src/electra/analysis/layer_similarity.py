"""How alike are two encoders, depth by depth? Centred kernel alignment of the vectors they give the same words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from electra.analysis.parts import by_depth
from electra.analysis.parts.encoders import UNTRAINED, Named, Words, common_words
from electra.analysis.parts.halves import half_samples
from electra.analysis.parts.interface import Cell, Estimate, Figure, Progress, Report, Series, Table
from electra.analysis.parts.reading import Sentence
from electra.analysis.parts.similarity import Features, cka, cka_matrix
from electra.analysis.parts.treebank import TreebankConfig, TreebankProbe

Config = TreebankConfig


class Probe(TreebankProbe):
    title = "Likeness of representations, depth by depth"
    question = "How do the representations differ from BERT's, and by more than two seeds of one training do?"
    source = (
        "Asked by a reader's review of the paper. Method: Kornblith et al. 2019; debiased by the estimate of Song et al. 2012. "
        "Name the masked language model and other seeds with --against: the difference between seeds is the yardstick."
    )
    version = 1

    def look(self, encoders: Sequence[Named], sentences: Sequence[Sentence], progress: Progress) -> Report:
        words = common_words(encoders, sentences, lambda what, share: progress(what, 0.3 * share))
        names = [encoder.name for encoder in encoders]
        tables: list[Table] = []
        figures: list[Figure] = []
        headline: dict[str, Estimate] = {}
        same_depth: by_depth.Found = {}
        for other in range(len(names)):
            progress(f"{names[0]} and {names[other]}", 0.3 + 0.7 * other / len(names))
            title = f"{names[0]} and {names[other]}" if other else f"{names[0]}, its depths with each other"
            figures.append(_matrix(words, names, other, title))
            if other:
                table, found, headline[f"CKA with {names[other]}, last depth"] = self._same_depth(words, names, other)
                tables.append(table)
                same_depth[names[other]] = found
        if same_depth:
            note = f"Debiased CKA of {names[0]} and each other encoder."
            figures.insert(0, by_depth.figure("same-depth", "Likeness at the same depth", note=note, y="CKA", found=same_depth))
        return Report(headline, tables, figures, self._notes(words, len(sentences), sum(name != UNTRAINED for name in names)))

    def _same_depth(self, words: Words, names: list[str], other: int) -> tuple[Table, list[Estimate], Estimate]:
        """CKA at each depth that both have, with intervals; and that of the last depths of both."""
        mine, theirs = words.vectors[0], words.vectors[other]
        pairs = [(depth, depth) for depth in range(min(len(mine), len(theirs)))]
        if len(mine) != len(theirs):
            pairs.append((len(mine) - 1, len(theirs) - 1))

        def measure(items: np.ndarray) -> list[float]:
            both = [(Features(mine[a][items]), Features(theirs[b][items])) for a, b in pairs]
            return [cka(x, y, debiased=debiased) for debiased in (True, False) for x, y in both]

        found = half_samples(measure, words.sentence, resamples=self.config.resamples)
        rows: list[list[Cell]] = [
            [str(a) if a == b else f"{a} and {b}", found[i], found[i + len(pairs)].value] for i, (a, b) in enumerate(pairs)
        ]
        note = "1: equal up to rotation and scale. 0: nothing in common. Depth 0 is what enters the first layer."
        table = Table(f"CKA of {names[0]} and {names[other]}", ("depth", "debiased", "biased"), rows, note)
        return table, found[: min(len(mine), len(theirs))], found[len(pairs) - 1]

    def _notes(self, words: Words, sentences: int, models: int) -> list[str]:
        notes = [
            f"{len(words.kept)} words of {sentences} sentences; a word's vector is the mean of its tokens', so vocabularies may differ.",
            "Intervals: the spread over halves of the sentences, since a bootstrap would count a repeated word as likeness.",
        ]
        if models < 3:
            notes.append("No other seed was named: without that yardstick a difference between two objectives cannot be judged.")
        return notes


def _matrix(words: Words, names: list[str], other: int, title: str) -> Figure:
    mine, theirs = ([Features(depth) for depth in words.vectors[number]] for number in (0, other))
    values = cka_matrix(mine, theirs)
    columns = [str(depth) for depth in range(len(theirs))]
    series = [Series(f"depth {depth}", columns, list(row)) for depth, row in enumerate(values)]
    note = f"Debiased CKA. Rows: {names[0]}. Columns: {names[other]}."
    return Figure(f"cka-{other}", title, note, f"depth of {names[other]}", "", series, kind="matrix", y_range=(0.0, 1.0))
