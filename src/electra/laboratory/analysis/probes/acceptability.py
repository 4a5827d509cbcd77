"""Acceptability: sentence scores against the labels of CoLA without fine-tuning, and the role of length.

The only fitted number is a threshold for the Matthews correlation, chosen on training sentences and tested on
others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from typing_extensions import override

from electra.finetuning.labelled.sentence_pairs import read_cola
from electra.foundation.arrays import Floats, Ints
from electra.laboratory.analysis import contract
from electra.laboratory.analysis.contract import (
    Data,
    Estimate,
    Figure,
    Findings,
    Input,
    Model,
    Progress,
    Table,
)
from electra.laboratory.analysis.measures import correlation
from electra.laboratory.analysis.measures.bootstrap import estimates
from electra.laboratory.analysis.measures.ranking import Ranking
from electra.laboratory.analysis.scoring.across_models import scores_of
from electra.laboratory.analysis.texts.sampling import sample

LENGTH = "length alone (shorter is better)"
MEASURES = ("AUC", "Matthews", "point-biserial", "Spearman", "partial", "with length")


@dataclass(frozen=True)
class Config:
    """Options of the probe."""

    sentences: int = 0
    """Test sentences (0: all)."""
    train_sentences: int = 500
    """Training sentences for the choice of the threshold (0: all)."""
    scorers: tuple[str, ...] = (
        "original",
        "original-mean",
        "margin",
        "odds",
        "odds-mean",
        "pll",
        "pll-mean",
        "unmasked-mean",
    )
    """Sentence scores to use, of each model those that it has the network for."""
    resamples: int = 500
    """Bootstrap samples of the sentences for the intervals."""


class Probe(contract.Probe):
    """Ranks CoLA sentences by score and compares the ranking with human judgements."""

    title = "Acceptability"
    question = (
        "Do sentence scores follow human judgements of acceptability, or only the length of the sentence?"
    )
    source = "Data: CoLA, Warstadt et al. 2019. Method: Lau et al. 2017."
    version = 2
    needs = ()  # a discriminator, a generator, or both
    config: Config

    @override
    def inputs(self) -> tuple[Input, ...]:
        return (
            Input(
                "judged", "CoLA dev file", ("cola/dev.tsv*", "CoLA/dev.tsv*", "*cola*dev*.tsv*", "dev.tsv*")
            ),
            Input(
                "train",
                "CoLA training file",
                ("cola/train.tsv*", "CoLA/train.tsv*", "*cola*train*.tsv*", "train.tsv*"),
            ),
        )

    @override
    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Findings:
        limits = {"judged": self.config.sentences, "train": self.config.train_sentences}
        test, train = (
            sample([row for path in data[key] for row in read_cola(path)], limits[key]) for key in limits
        )
        texts = [text for text, _ in test + train]
        labels = np.array([label for _, label in test + train])
        lengths = {
            model.name: np.array([len(ids) for ids in model.tokenizer.encode_corpus(texts)], np.float64)
            for model in models
        }
        scores = {
            f"{model}: {name}": (values, lengths[model])
            for (model, name), values in scores_of(models, self.config.scorers, texts, progress).items()
        }
        scores[LENGTH] = (-lengths[models[0].name], lengths[models[0].name])
        findings = Findings()
        for name, (values, length) in scores.items():
            estimates_of = self._measure(values, length, labels, len(test))
            findings.add_all(estimates_of, score=name)
            if name.startswith(f"{models[0].name}: "):
                findings.headline[f"AUC, {name}"] = estimates_of["AUC"]
        findings.tables.append(Table("Scores against judgements", ("score",)))
        note = "Intervals are 95 %, over sentences."
        keep = {"measure": "AUC"}
        auc = Figure(
            "auc", "Acceptable above unacceptable", "score", "measure", keep, note, "AUC", "categories"
        )
        note = "Correlation of score and judgement, plain and with length partialled out of both."
        measures = {
            "measure": ("point-biserial", "partial"),
            "score": [name for name in scores if name != LENGTH],
        }
        partial = Figure(
            "partial",
            "Correlation without length",
            "score",
            "measure",
            measures,
            note,
            "correlation",
            "categories",
        )
        findings.figures += [
            replace(auc, references={"chance": 0.5}),
            replace(partial, references={"none": 0.0}),
        ]
        findings.notes += [
            f"{len(test)} sentences, {int(labels[: len(test)].sum())} of them acceptable. Thresholds"
            f" were chosen on {len(train)} training sentences.",
            "AUC: P(an acceptable sentence scores above an unacceptable one); chance is 0.5."
            " Partial: the point-biserial correlation with length in tokens partialled out. With length:"
            " Spearman correlation of the score and the length.",
        ]
        return findings

    def _measure(self, values: Floats, length: Floats, labels: Ints, num_test: int) -> dict[str, Estimate]:
        threshold = best_threshold(values[num_test:], labels[num_test:])
        score, size, gold = values[:num_test], length[:num_test], labels[:num_test]
        ranking, called = Ranking(score, gold), score >= threshold

        def measure(weights: Floats) -> dict[str, float]:
            counts = [
                float(weights[(called == call) & (gold == truth)].sum())
                for call, truth in ((1, 1), (1, 0), (0, 1), (0, 0))
            ]
            numbers = (
                ranking.auc(weights),
                float(correlation.matthews(*counts)),
                correlation.pearson(score, gold, weights),
                correlation.spearman(score, gold, weights),
                correlation.partial(score, gold, size, weights),
                correlation.spearman(score, size, weights),
            )
            return dict(zip(MEASURES, numbers, strict=True))

        return estimates(measure, np.arange(num_test), resamples=self.config.resamples)


def best_threshold(scores: Floats, labels: Ints) -> float:
    """The threshold with the highest Matthews correlation on these sentences."""
    ranking = Ranking(scores, labels)
    true_alarms, false_alarms = ranking.counts(np.ones(len(scores)))
    positive = labels.sum()
    matthews = correlation.matthews(
        true_alarms, false_alarms, positive - true_alarms, len(labels) - positive - false_alarms
    )
    return float(ranking.thresholds[int(matthews.argmax())])
