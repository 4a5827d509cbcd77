"""Linear probes: part of speech, chunk and tree depth from frozen vectors, at each depth.

A linear model is trained on the words of one file and tested on another's. Baselines without an encoder: the
most frequent label, and each word's most frequent one. Baseline without training: the same probe of an
encoder with random weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from typing_extensions import override

from electra.finetuning.labelled.tagged_sentences import Sentence, read_columns, universal_dependencies
from electra.foundation.arrays import Floats
from electra.laboratory.analysis import contract
from electra.laboratory.analysis.contract import Data, Findings, Input, Model, ProbeDataError, Progress, Table
from electra.laboratory.analysis.measures import linear
from electra.laboratory.analysis.representations import by_depth
from electra.laboratory.analysis.representations.encoders import (
    NamedEncoder,
    Words,
    common_words,
    encoders_of,
)
from electra.laboratory.analysis.texts.sampling import sample

PENALTY = 5.0  # weight of the squared weights, added to the sum of the cross-entropies
PER_WORD = "each word's usual answer"
MAJORITY = "the commonest answer"


@dataclass(frozen=True)
class Config:
    """Options of the probe."""

    sentences: int = 600
    """Training sentences, and as many test sentences (0: all)."""
    resamples: int = 500
    """Bootstrap samples of the test sentences for the intervals."""
    untrained: bool = True
    """Include an untrained encoder."""


@dataclass(frozen=True)
class Property:
    """A property of words that is predicted."""

    key: str
    title: str
    answers: Callable[[Sentence], Sequence[Any]]
    number: bool = False
    """The answers are numbers, scored by explained variance instead of accuracy."""

    @property
    def unit(self) -> str:
        """The unit of its score."""
        return "R\u00b2" if self.number else "accuracy"


PART_OF_SPEECH = Property("part-of-speech", "Part of speech", lambda sentence: sentence.columns[0])
TREE_DEPTH = Property(
    "tree-depth",
    "Depth in the tree",
    lambda sentence: linear.depths_in_tree(sentence.columns[1]),
    number=True,
)
CHUNK = Property("chunk", "Chunk tag", lambda sentence: sentence.columns[0])


@dataclass(frozen=True)
class Corpus:
    """Training and test sentences, and the properties they are annotated with."""

    train: list[Sentence]
    test: list[Sentence]
    properties: tuple[Property, ...]


class Probe(contract.Probe):
    """Trains a linear model on each encoder's vectors at each depth, for each property."""

    title = "Linear probes of frozen representations"
    question = "What can a linear model predict from the representations, and at which depth?"
    source = "Method: Alain and Bengio 2017. Data: Universal Dependencies; CoNLL-2000 chunks."
    version = 2
    needs = ("encoder",)
    config: Config

    @override
    def inputs(self) -> tuple[Input, ...]:
        return (
            Input("train", "Universal Dependencies training file", ("*train.conllu*",)),
            Input("judged", "Universal Dependencies dev or test file", ("*dev.conllu*", "*test.conllu*")),
            Input("chunks_train", "CoNLL-2000 training file", ("*conll2000*/train.txt*",), required=False),
            Input("chunks_judged", "CoNLL-2000 test file", ("*conll2000*/test.txt*",), required=False),
        )

    @override
    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Findings:
        encoders, findings = encoders_of(models, self.config.untrained), Findings()
        findings.notes += [
            "A word's vector is the mean of its tokens'. Differences are paired: all are scored on the same"
            " words.",
            "The best depth is chosen on the test words, which biases it slightly upwards.",
        ]
        corpora = self._corpora(data)
        count = sum(len(corpus.properties) for corpus in corpora)
        for corpus in corpora:
            train, test = (common_words(encoders, part, progress) for part in (corpus.train, corpus.test))
            for target in corpus.properties:
                progress(target.title, len(findings.figures) / count)
                self._probe_property(findings, target, encoders, corpus, (train, test))
                findings.notes.append(
                    f"{target.title}: {len(train.kept)} training words, {len(test.kept)} test words."
                )
        return findings

    def _corpora(self, data: Data) -> list[Corpus]:
        limit = self.config.sentences
        train, test = (
            sample([s for path in data[key] for s in universal_dependencies(path)], limit)
            for key in ("train", "judged")
        )
        corpora = [Corpus(train, test, (PART_OF_SPEECH, TREE_DEPTH))]
        if "chunks_train" in data and "chunks_judged" in data:
            train, test = (
                sample([s for path in data[key] for s in read_columns(path, columns=(2,))], limit)
                for key in ("chunks_train", "chunks_judged")
            )
            corpora.append(Corpus(train, test, (CHUNK,)))
        return corpora

    def _probe_property(
        self,
        findings: Findings,
        target: Property,
        encoders: Sequence[NamedEncoder],
        corpus: Corpus,
        words: tuple[Words, Words],
    ) -> None:
        """Add each encoder's score at each depth, the baselines', and the first encoder's lead."""
        train, test = words
        both = ((train, corpus.train), (test, corpus.test))
        scorer = PropertyScorer(
            target, *(vectors.select(target.answers(s) for s in part) for vectors, part in both)
        )
        forms = [
            [str(form).lower() for form in vectors.select(s.words for s in part)] for vectors, part in both
        ]
        points = {
            encoder.name: [
                scorer.by_vectors(x, z)
                for x, z in zip(train.vectors[number], test.vectors[number], strict=True)
            ]
            for number, encoder in enumerate(encoders)
        }
        no_forms = [""] * len(forms[0]), [""] * len(forms[1])
        fixed = {PER_WORD: [scorer.by_words(*forms)], MAJORITY: [scorer.by_words(*no_forms)]}
        draws = scorer.scale, test.sentence, self.config.resamples
        estimates = by_depth.ratios({**points, **fixed}, *draws)
        baselines = {name: estimates.pop(name)[0] for name in fixed}
        first, reference = encoders[0].name, {PER_WORD: baselines[PER_WORD].value or 0.0}
        note = f"{target.unit}. Depth 0 is the input of the first layer."
        labels = {"figure": target.key, "about": "Predicted by a linear model.", "unit": target.unit}
        by_depth.add_measure(findings, target.title, estimates, note=note, references=reference, **labels)
        title = f"{target.title}: without an encoder"
        for name, estimate in baselines.items():
            findings.add(estimate, measure=target.unit, property=title, answer=name)
        findings.tables.append(Table(title, ("answer",), keep={"property": title}))
        if len(points) > 1:
            leads, title = by_depth.ratios(by_depth.differences_to_first(points), *draws), target.title
            note = "Paired over the same words."
            by_depth.add_measure(findings, f"{title}: how far {first} is ahead", leads, note=note)
        findings.headline[f"{target.title}, best depth"] = by_depth.best(estimates[first])


class PropertyScorer:
    """Scores predictions of one property on the test words.

    A score is a ratio of sums over words, points / scale: correct answers over all (accuracy), or squared
    error saved over squared error of always predicting the training mean (R2).
    """

    def __init__(self, target: Property, train: linear.Answers, gold: linear.Answers) -> None:
        self.number, self.train, self.gold = target.number, train, gold
        # A word outside any tree has no depth.
        self.known = np.isfinite(train) if target.number else np.ones(len(train), bool)
        if not self.known.any():
            raise ProbeDataError(f"no word to train on for {target.title}")
        self.scale: Floats = (
            np.nan_to_num((gold - train[self.known].mean()) ** 2) if target.number else np.ones(len(gold))
        )

    def by_vectors(self, train: linear.Vectors, test: linear.Vectors) -> Floats:
        """The points [N] of a linear model trained on vectors."""
        x, labels = train[self.known], self.train[self.known]
        if self.number:
            return self._points(linear.regress(x, labels, test))
        train_LND, test_LND = (torch.from_numpy(states)[None] for states in (x, test))
        return self._points(linear.classify(train_LND, labels.tolist(), test_LND, PENALTY / len(x))[0])

    def by_words(self, train: Sequence[str], test: Sequence[str]) -> Floats:
        """The points [N] of the baseline that knows word forms only."""
        baseline = linear.mean_number if self.number else linear.most_frequent_label
        words = [word for word, known in zip(train, self.known, strict=True) if known]
        return self._points(baseline(words, self.train[self.known], test))

    def _points(self, answers: linear.Answers) -> Floats:
        if self.number:
            return np.asarray(np.nan_to_num(self.scale - (answers - self.gold) ** 2))
        return np.asarray(answers == self.gold, np.float64)
