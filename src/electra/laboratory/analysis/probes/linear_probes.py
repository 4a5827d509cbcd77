"""Linear probes: parts of speech and chunks predicted from frozen vectors, at each depth.

A linear model is trained on the words of one file and tested on those of another. The baselines without an
encoder are the most frequent label, and each word's most frequent label. The baseline without training is the
same probe on an encoder with random weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from typing_extensions import override

from electra.finetuning.labelled.tagged_sentences import Sentence, read_columns, read_universal_dependencies
from electra.laboratory.analysis import contract
from electra.laboratory.analysis.contract import Data, Findings, Input, Model, Progress
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
PER_WORD = "each word's most frequent label"
MAJORITY = "the most frequent label"
UNIT = "accuracy"


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
class Task:
    """A property of words to predict: the first column of the sentences. `key` names its figure."""

    key: str
    title: str
    train: list[Sentence]
    test: list[Sentence]


class Probe(contract.Probe):
    """Trains a linear model on each encoder's vectors at each depth, for each property of words."""

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
            Input("test", "Universal Dependencies dev or test file", ("*dev.conllu*", "*test.conllu*")),
            Input("chunks_train", "CoNLL-2000 training file", ("*conll2000*/train.txt*",), required=False),
            Input("chunks_test", "CoNLL-2000 test file", ("*conll2000*/test.txt*",), required=False),
        )

    @override
    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Findings:
        encoders, findings = encoders_of(models, self.config.untrained), Findings()
        findings.notes += [
            "A word's vector is the mean of its tokens' vectors. Differences are paired: all encoders are"
            " scored on the same words.",
            "The best depth is chosen on the test words, which biases its score slightly upwards.",
        ]
        tasks = self._tasks(data)
        for i, task in enumerate(tasks):
            train, test = (
                common_words(encoders, sentences, progress) for sentences in (task.train, task.test)
            )
            progress(task.title, i / len(tasks))
            self._probe(findings, task, encoders, train, test)
            findings.notes.append(
                f"{task.title}: {len(train.index)} training words, {len(test.index)} test words."
            )
        return findings

    def _tasks(self, data: Data) -> list[Task]:
        def task(key: str, title: str, read: Callable[[Path], list[Sentence]], *inputs: str) -> Task:
            train, test = (
                sample([sentence for path in data[name] for sentence in read(path)], self.config.sentences)
                for name in inputs
            )
            return Task(key, title, train, test)

        tasks = [task("part-of-speech", "Part of speech", read_universal_dependencies, "train", "test")]
        if {"chunks_train", "chunks_test"} <= data.keys():
            read_chunks = partial(read_columns, columns=(2,))
            tasks.append(task("chunk", "Chunk tag", read_chunks, "chunks_train", "chunks_test"))
        return tasks

    def _probe(
        self, findings: Findings, task: Task, encoders: Sequence[NamedEncoder], train: Words, test: Words
    ) -> None:
        """Adds the accuracy of each encoder at each depth and of the baselines, and paired differences."""
        words_and_sentences = ((train, task.train), (test, task.test))
        labels, test_labels = (
            words.select(s.columns[0] for s in sentences) for words, sentences in words_and_sentences
        )
        train_forms, test_forms = (
            [str(form).lower() for form in words.select(s.words for s in sentences)]
            for words, sentences in words_and_sentences
        )
        correct = {
            encoder.name: [
                1.0 * (predict(x, labels, z) == test_labels)
                for x, z in zip(train.vectors[i], test.vectors[i], strict=True)
            ]
            for i, encoder in enumerate(encoders)
        }
        per_word = linear.most_frequent_label(train_forms, labels, test_forms) == test_labels
        majority = (
            linear.most_frequent_label([""] * len(labels), labels, [""] * len(test_labels)) == test_labels
        )
        resampling = 1.0, test.sentence, self.config.resamples
        estimates = by_depth.ratios({**correct, PER_WORD: [per_word], MAJORITY: [majority]}, *resampling)
        baselines = {name: estimates.pop(name)[0] for name in (PER_WORD, MAJORITY)}
        first_name, references = encoders[0].name, {PER_WORD: baselines[PER_WORD].value}
        note = "Accuracy. Depth 0 is the input of the first layer."
        labelled = {"figure": task.key, "about": "Predicted by a linear model.", "unit": UNIT}
        by_depth.add_measure(findings, task.title, estimates, note=note, references=references, **labelled)
        title = f"{task.title}: without an encoder"
        for name, estimate in baselines.items():
            findings.add(estimate, measure=UNIT, property=title, baseline=name)
        findings.table(title, "baseline", property=title)
        if len(correct) > 1:
            differences = by_depth.ratios(by_depth.differences_to_first(correct), *resampling)
            title, note = f"{task.title}: how far ahead {first_name} is", "Paired over the same words."
            by_depth.add_measure(findings, title, differences, note=note)
        findings.headline[f"{task.title}, best depth"] = by_depth.best(estimates[first_name])


def predict(train: linear.Vectors, labels: linear.Labels, test: linear.Vectors) -> linear.Labels:
    """Returns the labels [M] that a linear model, trained on `train` [N, D], predicts for `test` [M, D]."""
    train_LND, test_LND = (torch.from_numpy(vectors)[None] for vectors in (train, test))
    return linear.classify(train_LND, labels.tolist(), test_LND, PENALTY / len(train))[0]
