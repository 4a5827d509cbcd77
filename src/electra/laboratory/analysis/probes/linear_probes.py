"""What can be read off the frozen vectors with a straight line? Part of speech, chunk and depth in the tree,
depth by depth.

A linear model is trained on the words of one file and judged on another's. Beside it, what needs no encoder:
the commonest label, and each word's usual one; and what needs no training: the same reading of an encoder
with random weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from electra.finetuning.labelled.tagged_sentences import Sentence, read_columns, universal_dependencies
from electra.foundation.arrays import Floats
from electra.laboratory.analysis import contract
from electra.laboratory.analysis.contract import Data, Findings, Input, Model, ProbeDataError, Progress, Table
from electra.laboratory.analysis.measures import linear
from electra.laboratory.analysis.representations import by_depth
from electra.laboratory.analysis.representations.encoders import Named, Words, common_words, encoders_of
from electra.laboratory.analysis.texts.sampling import sample

PENALTY = 5.0  # on squared weights, beside the sum of the cross-entropies
USUAL = "each word's usual answer"
COMMONEST = "the commonest answer"


@dataclass(frozen=True)
class Config:
    sentences: int = 600
    """Sentences to train on, and as many to judge on (0: all)."""
    resamples: int = 500
    """Bootstrap samples of the judged sentences."""
    untrained: bool = True
    """Read an untrained encoder too."""


@dataclass(frozen=True)
class Property:
    """What is read off each word of a sentence."""

    key: str
    title: str
    answers: Callable[[Sentence], Sequence[Any]]
    number: bool = False
    """The answers are numbers; scored by the share of their variance that is explained, instead of accuracy.
    """

    @property
    def unit(self) -> str:
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
    train: list[Sentence]
    judged: list[Sentence]
    properties: tuple[Property, ...]


class Probe(contract.Probe):
    title = "Linear readings of frozen representations"
    question = "What do the representations hold that a straight line can read, and at which depth?"
    source = "Method: Alain and Bengio 2017. Data: Universal Dependencies; CoNLL-2000 chunks."
    version = 2
    needs = ("encoder",)
    config: Config

    def inputs(self) -> tuple[Input, ...]:
        return (
            Input("train", "Universal Dependencies training file", ("*train.conllu*",)),
            Input("judged", "Universal Dependencies dev or test file", ("*dev.conllu*", "*test.conllu*")),
            Input("chunks_train", "CoNLL-2000 training file", ("*conll2000*/train.txt*",), required=False),
            Input("chunks_judged", "CoNLL-2000 test file", ("*conll2000*/test.txt*",), required=False),
        )

    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Findings:
        encoders, findings = encoders_of(models, self.config.untrained), Findings()
        findings.notes += [
            "A word's vector is the mean of its tokens'. Differences are paired: all answer for the same"
            " words.",
            "The best depth is chosen on the words it is judged on, which flatters it a little.",
        ]
        corpora = self._corpora(data)
        count = sum(len(corpus.properties) for corpus in corpora)
        for corpus in corpora:
            train, judged = (common_words(encoders, part, progress) for part in (corpus.train, corpus.judged))
            for wanted in corpus.properties:
                progress(wanted.title, len(findings.figures) / count)
                self._read_off(findings, wanted, encoders, corpus, (train, judged))
                findings.notes.append(
                    f"{wanted.title}: {len(train.kept)} words to train on, {len(judged.kept)} words judged."
                )
        return findings

    def _corpora(self, data: Data) -> list[Corpus]:
        limit = self.config.sentences
        train, judged = (
            sample([s for path in data[key] for s in universal_dependencies(path)], limit)
            for key in ("train", "judged")
        )
        found = [Corpus(train, judged, (PART_OF_SPEECH, TREE_DEPTH))]
        if "chunks_train" in data and "chunks_judged" in data:
            train, judged = (
                sample([s for path in data[key] for s in read_columns(path, columns=(2,))], limit)
                for key in ("chunks_train", "chunks_judged")
            )
            found.append(Corpus(train, judged, (CHUNK,)))
        return found

    def _read_off(
        self,
        findings: Findings,
        wanted: Property,
        encoders: Sequence[Named],
        corpus: Corpus,
        words: tuple[Words, Words],
    ) -> None:
        """Each encoder's score at each depth, the baselines', and how far the first one is ahead."""
        train, judged = words
        both = ((train, corpus.train), (judged, corpus.judged))
        scored = Scored(wanted, *(found.of(wanted.answers(s) for s in part) for found, part in both))
        forms = [[str(form).lower() for form in found.of(s.words for s in part)] for found, part in both]
        points = {
            encoder.name: [
                scored.by_vectors(x, z)
                for x, z in zip(train.vectors[number], judged.vectors[number], strict=True)
            ]
            for number, encoder in enumerate(encoders)
        }
        nowhere = [""] * len(forms[0]), [""] * len(forms[1])
        fixed = {USUAL: [scored.by_words(*forms)], COMMONEST: [scored.by_words(*nowhere)]}
        draws = scored.scale, judged.sentence, self.config.resamples
        found = by_depth.ratios({**points, **fixed}, *draws)
        baselines = {name: found.pop(name)[0] for name in fixed}
        first, usual = encoders[0].name, {USUAL: baselines[USUAL].value or 0.0}
        note, about = f"{wanted.unit}. Depth 0 is the input of the first layer.", "Read by a linear model."
        shown = {"figure": wanted.key, "about": about, "unit": wanted.unit}
        by_depth.show(findings, wanted.title, found, note=note, references=usual, **shown)
        title = f"{wanted.title}: without an encoder"
        for name, estimate in baselines.items():
            findings.add(estimate, measure=wanted.unit, property=title, answer=name)
        findings.tables.append(Table(title, ("answer",), keep={"property": title}))
        if len(points) > 1:
            ahead, note = by_depth.ratios(by_depth.ahead(points), *draws), "Paired over the same words."
            by_depth.show(findings, f"{wanted.title}: how far {first} is ahead", ahead, note=note)
        findings.headline[f"{wanted.title}, best depth"] = max(found[first], key=lambda one: one.value or 0.0)


class Scored:
    """The answers of one property. A score is a ratio of sums over words, points / scale: right answers over
    all (accuracy), or squared error saved over squared error of always saying the training mean (R2).
    """

    def __init__(self, wanted: Property, train: linear.Answers, gold: linear.Answers) -> None:
        self.number, self.train, self.gold = wanted.number, train, gold
        # A word outside any tree has no depth.
        self.known = np.isfinite(train) if wanted.number else np.ones(len(train), bool)
        if not self.known.any():
            raise ProbeDataError(f"no word to train on for {wanted.title}")
        self.scale: Floats = (
            np.nan_to_num((gold - train[self.known].mean()) ** 2) if wanted.number else np.ones(len(gold))
        )

    def by_vectors(self, train: linear.Vectors, judged: linear.Vectors) -> Floats:
        x, labels = train[self.known], self.train[self.known]
        if self.number:
            return self._points(linear.regress(x, labels, judged))
        learn, judge = (torch.from_numpy(states)[None] for states in (x, judged))
        return self._points(linear.classify(learn, labels.tolist(), judge, PENALTY / len(x))[0])

    def by_words(self, train: Sequence[str], judged: Sequence[str]) -> Floats:
        usual = linear.usual_number if self.number else linear.usual_label
        words = [word for word, known in zip(train, self.known, strict=True) if known]
        return self._points(usual(words, self.train[self.known], judged))

    def _points(self, answers: linear.Answers) -> Floats:
        if self.number:
            return np.asarray(np.nan_to_num(self.scale - (answers - self.gold) ** 2))
        return np.asarray(answers == self.gold, np.float64)
