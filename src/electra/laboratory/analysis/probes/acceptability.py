"""Do sentence scores know an acceptable sentence from an unacceptable one? CoLA without fine-tuning, and what
length has to do with it.

The only thing fitted is one threshold for the Matthews correlation, chosen on training sentences and judged
on others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

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
    sentences: int = 0
    """Sentences to judge (0: all)."""
    train_sentences: int = 500
    """Training sentences to choose the threshold on (0: all)."""
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
    """Which sentence scores to try; of each model those it has the network for."""
    resamples: int = 500
    """Bootstrap samples of the sentences."""


class Probe(contract.Probe):
    title = "Acceptability"
    question = (
        "Do sentence scores follow people's judgement of acceptability, or only the length of the sentence?"
    )
    source = "Data: CoLA, Warstadt et al. 2019. Scores against judgements: Lau et al. 2017."
    version = 2  # 2: read in other batches, which moves last digits
    needs = ()  # a discriminator, a generator, or both
    config: Config

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

    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Findings:
        limits = {"judged": self.config.sentences, "train": self.config.train_sentences}
        judged, train = (
            sample([row for path in data[key] for row in read_cola(path)], limits[key]) for key in limits
        )
        texts = [text for text, _ in judged + train]
        labels = np.array([label for _, label in judged + train])
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
            found = self._measure(values, length, labels, len(judged))
            findings.add_all(found, score=name)
            if name.startswith(f"{models[0].name}: "):
                findings.headline[f"AUC, {name}"] = found["AUC"]
        findings.tables.append(Table("Scores against judgements", ("score",)))
        note = "Intervals are 95 %, over sentences."
        keep = {"measure": "AUC"}
        auc = Figure(
            "auc", "Acceptable above unacceptable", "score", "measure", keep, note, "AUC", "categories"
        )
        note = "Correlation of score and judgement, as it is and with length partialled out of both."
        two = {"measure": ("point-biserial", "partial"), "score": [name for name in scores if name != LENGTH]}
        without = Figure(
            "partial",
            "What is left without length",
            "score",
            "measure",
            two,
            note,
            "correlation",
            "categories",
        )
        findings.figures += [
            replace(auc, references={"chance": 0.5}),
            replace(without, references={"none": 0.0}),
        ]
        findings.notes += [
            f"{len(judged)} sentences, {int(labels[: len(judged)].sum())} of them acceptable. Thresholds"
            f" are from {len(train)} training sentences.",
            "AUC: how often an acceptable sentence scores above an unacceptable one; chance is 0.5."
            " Partial: the point-biserial correlation with length in tokens partialled out. With length:"
            " Spearman correlation of the score and the length.",
        ]
        return findings

    def _measure(self, values: Floats, length: Floats, labels: Ints, judged: int) -> dict[str, Estimate]:
        threshold = best_threshold(values[judged:], labels[judged:])
        score, size, gold = values[:judged], length[:judged], labels[:judged]
        ranking, called = Ranking(score, gold), score >= threshold

        def measure(weights: Floats) -> dict[str, float]:
            counts = [
                float(weights[(called == said) & (gold == true)].sum())
                for said, true in ((1, 1), (1, 0), (0, 1), (0, 0))
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

        return estimates(measure, np.arange(judged), resamples=self.config.resamples)


def best_threshold(scores: Floats, labels: Ints) -> float:
    """The score from which to call sentences acceptable: the highest Matthews correlation on these."""
    ranking = Ranking(scores, labels)
    true, false = ranking.counts(np.ones(len(scores)))
    positive = labels.sum()
    found = correlation.matthews(true, false, positive - true, len(labels) - positive - false)
    return float(ranking.thresholds[int(found.argmax())])
