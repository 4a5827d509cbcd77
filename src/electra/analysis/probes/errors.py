"""Grammatical error detection without fine-tuning: does P(replaced) find what learners get wrong?

The threshold of each scorer is the one of the best F0.5 on the dev sentences (CoNLL-2014's measure, Ng et al.
2014; precision counts twice), and everything else is measured on the test sentences; without a test file, on
the other half of the dev sentences. Beside it: the generator's surprisal, that of any masked language model
it is compared with, how many tokens the word is cut into (which finds misspellings), chance, and a fine-tuned
detector when one is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from electra.analysis import contract
from electra.analysis.contract import (
    Cell,
    Data,
    Estimate,
    Figure,
    Input,
    Model,
    Network,
    ProbeDataError,
    Progress,
    Report,
    Series,
    Table,
)
from electra.analysis.measures import bootstrap
from electra.analysis.measures.ranking import Ranking
from electra.analysis.scoring.tagger import detector_values, folder_of
from electra.analysis.scoring.token_rows import Bools, Floats, Ints
from electra.analysis.scoring.words import Combine, owners, suspicion, word_values
from electra.analysis.texts import learners
from electra.analysis.texts.reading import Sentence, sample
from electra.analysis.texts.word_kinds import kind_of
from electra.interop.huggingface import WEIGHTS

UNTYPED = "i"  # the label of an error whose type is not told; any other but "c" is a type
CURVE_POINTS = 60
FEWEST = 20  # errors of a type, to say anything about it


@dataclass(frozen=True)
class Config:
    language: learners.Language = "en"
    """Whose learners: en (FCE) or de (Falko-MERLIN)."""
    combine: Combine = "max"
    """How the tokens of a word make the word's score: the most suspicious one, their mean, or the first one.
    """
    sentences: int = 0
    """Sentences of each file (0: all)."""
    surprisal: bool = True
    """Ask the generator too, one pass for each token: the slow part."""
    detector: str = ""
    """A folder with a fine-tuned detector (electra finetune --task of token labels) to stand beside."""
    resamples: int = 500
    """Bootstrap samples of an interval."""
    seed: int = 0
    """Seed of samples, halves and bootstrap."""


@dataclass(frozen=True)
class Words:
    """The words of some sentences in one row. `kinds`: an error's type where the file names it, else the kind
    of word it stands on.
    """

    sentence: Ints
    wrong: Bools
    kinds: list[str]


class Probe(contract.Probe):
    title = "Errors of learners, without fine-tuning"
    question = "Does P(replaced) find what people get wrong? Which errors are found, which never?"
    source = (
        "Task: Rei and Yannakoudakis 2016, Yuan et al. 2021 (fine-tuned ELECTRA-large: F0.5 72.9 on FCE's"
        " test set)."
    )
    version = 1
    needs = ("discriminator",)
    scales: ClassVar[Mapping[str, tuple[float, float]]] = {"AUC": (0.5, 1.0)}
    config: Config

    @property
    def beside(self) -> tuple[Network, ...]:
        return ("discriminator", "generator") if self.config.surprisal else ()

    def inputs(self) -> tuple[Input, ...]:
        return learners.learner_inputs(self.config.language)

    def find(self, roots: Sequence[Path]) -> dict[str, list[Path]]:
        """The detector's weights count as data: the record names them by their digest."""
        weights = folder_of(self.config.detector) / WEIGHTS
        return super().find(roots) | (
            {"detector": [weights]} if self.config.detector and weights.is_file() else {}
        )

    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Report:
        config = self.config
        dev = sample(learners.read_learners(data["learners"][0]), config.sentences, config.seed)
        test = (
            sample(learners.read_learners(data["learners_test"][0]), config.sentences, config.seed)
            if "learners_test" in data
            else []
        )
        everything = [*dev, *test]
        words = describe(everything, models[0], config.language)
        if not words.wrong.any() or words.wrong.all():
            raise ProbeDataError(
                "no errors among its words, or nothing else",
                where=data["learners"][0],
                fix="Labels are c and i",
            )
        chosen = words.sentence < len(dev) if test else bootstrap.halves(words.sentence, config.seed)
        if not words.wrong[chosen].any() or not words.wrong[~chosen].any():
            what = (
                "no errors among the words that choose the threshold, or among those judged: are the labels"
                " withheld?"
            )
            raise ProbeDataError(
                what,
                where=", ".join(str(data[key][0]) for key in ("learners", "learners_test") if key in data),
            )
        scores = self.scores(models, everything, progress)
        answers = {name: judge(score, words, chosen, config) for name, score in scores.items()}
        first = f"discriminator of {models[0].name}"
        share = words.wrong[~chosen].mean()
        judged_on = (
            f"{'test' if test else 'the other half of dev'}: {int((~chosen).sum()):,} words,"
            f" {100 * share:.1f} % wrong"
        )
        notes = [
            (
                f"Thresholds chosen on {'dev' if test else 'one half of dev'} ({int(chosen.sum()):,} words),"
                f" judged on {judged_on}."
            ),
            (
                "The file does not say which type an error is of, so errors are told apart by the word they"
                " stand on."
                if not has_types(everything)
                else "Error types as the file names them."
            ),
        ]
        found = answers[first].measures
        headline = {
            "average precision": found["ap"],
            "AUC": found["auc"],
            "F0.5": found["f"],
            "precision": found["precision"],
        }
        headline |= {"recall": found["recall"], "chance: average precision": answers["chance"].measures["ap"]}
        ahead = compare(scores, words, ~chosen, first, config)
        return Report(headline, [*tables(answers, words, chosen), ahead], figures(answers, first), notes)

    def scores(
        self, models: Sequence[Model], sentences: Sequence[Sentence], progress: Progress
    ) -> dict[str, Floats]:
        """Scorer -> suspicion of each word."""
        config = self.config
        given = [sentence.words for sentence in sentences]
        found: dict[str, Floats] = {}
        steps = 2 * len(models) + 1
        for number, model in enumerate(models):
            discriminator = model.optional("discriminator")
            if discriminator is not None:
                values = word_values(discriminator, given, "odds", suspicion, how=config.combine)
                found[f"discriminator of {model.name}"] = flat(values)
            progress("judging words", (2 * number + 1) / steps)
            generator = model.optional("generator") if config.surprisal else None
            if generator is not None:

                def tell(done: int, total: int, number: int = number) -> None:
                    progress("the generator's surprisal", (2 * number + 1 + done / max(1, total)) / steps)

                values = word_values(generator, given, "masked", suspicion, how=config.combine, progress=tell)
                found[f"surprisal, generator of {model.name}"] = flat(values)
        if config.detector:
            found["fine-tuned detector"] = flat(detector_values(config.detector, given))
        tokenizer = models[0].discriminator.tokenizer
        found["number of tokens in the word"] = flat(
            [
                np.bincount(owners(tokenizer, words), minlength=len(words)).astype(np.float64)
                for words in given
            ]
        )
        found["chance"] = np.zeros(len(found["number of tokens in the word"]))
        return found


def describe(sentences: Sequence[Sentence], model: Model, language: str) -> Words:
    typed, kinds, tokenizer = has_types(sentences), [], model.discriminator.tokenizer
    for one in sentences:
        counts = np.bincount(owners(tokenizer, one.words), minlength=len(one.words))
        for word, label, count in zip(one.words, one.columns[0], counts, strict=True):
            kinds.append(label if typed else kind_of(word, int(count), language))
    wrong = np.array([label != learners.CORRECT for one in sentences for label in one.columns[0]], bool)
    return Words(np.repeat(np.arange(len(sentences)), [len(one) for one in sentences]), wrong, kinds)


def has_types(sentences: Sequence[Sentence]) -> bool:
    return any(label not in (learners.CORRECT, UNTYPED) for one in sentences for label in one.columns[0])


def flat(values: Sequence[Floats]) -> Floats:
    """All words in a row; one that has no tokens is never suspected."""
    found = np.concatenate(values).astype(np.float64)
    return np.where(np.isfinite(found), found, found[np.isfinite(found)].min(initial=0.0) - 1.0)


@dataclass(frozen=True)
class Answer:
    measures: Mapping[str, Estimate]
    recall_by_kind: Mapping[str, Estimate]
    curve: tuple[list[float], list[float]]  # recall, precision


def judge(scores: Floats, words: Words, chosen: Bools, config: Config) -> Answer:
    """Choose the threshold on the `chosen` words; measure on the others."""
    threshold = Ranking(scores[chosen], words.wrong[chosen]).best_threshold(beta=0.5)
    ranking = Ranking(scores[~chosen], words.wrong[~chosen])
    groups = np.unique(words.sentence[~chosen], return_inverse=True)[1]
    kinds = np.array(words.kinds)[~chosen]
    called = ranking.scores >= threshold
    counted = [kind for kind in sorted(set(kinds)) if (ranking.positive & (kinds == kind)).sum() >= FEWEST]
    members = {kind: ranking.positive & (kinds == kind) for kind in counted}

    def measure(w: Floats) -> dict[str, float]:
        return {"ap": ranking.average_precision(w), "auc": ranking.auc(w), **ranking.at(threshold, w)}

    def recall(w: Floats) -> dict[str, float]:
        return {kind: _share(w * errors, called) for kind, errors in members.items()}

    return Answer(
        bootstrap.estimates(measure, groups, resamples=config.resamples, seed=config.seed),
        bootstrap.estimates(recall, groups, resamples=config.resamples, seed=config.seed),
        precision_recall(ranking),
    )


def compare(scores: Mapping[str, Floats], words: Words, judged: Bools, first: str, config: Config) -> Table:
    """How far the first scorer is ahead of each other one, on the same resamples of the same sentences."""
    rankings = {name: Ranking(score[judged], words.wrong[judged]) for name, score in scores.items()}
    groups = np.unique(words.sentence[judged], return_inverse=True)[1]

    def measure(w: Floats) -> dict[str, float]:
        own = rankings[first].average_precision(w), rankings[first].auc(w)
        others = {
            name: (ranking.average_precision(w), ranking.auc(w))
            for name, ranking in rankings.items()
            if name != first
        }
        return {f"{name}\t{i}": own[i] - other[i] for name, other in others.items() for i in (0, 1)}

    found = bootstrap.estimates(measure, groups, resamples=config.resamples, seed=config.seed)
    rows = [(name, found[f"{name}\t0"], found[f"{name}\t1"]) for name in scores if name != first]
    note = "Paired: an interval without 0 is a difference that other sentences would show too."
    return Table(f"How far the {first} is ahead", ("of", "average precision", "AUC"), rows, note)


def _share(weight: Floats, called: Bools) -> float:
    total = weight.sum()
    return float((weight * called).sum() / total) if total else float("nan")


def precision_recall(ranking: Ranking) -> tuple[list[float], list[float]]:
    """The curve at evenly spaced recalls."""
    true, false = ranking.counts(np.ones(len(ranking.positive)))
    recall, precision = true / true[-1], true / (true + false)
    places = np.unique(
        np.searchsorted(recall, np.linspace(0.02, 1.0, CURVE_POINTS), side="left").clip(max=len(recall) - 1)
    )
    return recall[places].tolist(), precision[places].tolist()


def tables(answers: Mapping[str, Answer], words: Words, chosen: Bools) -> list[Table]:
    keys = ("precision", "recall", "f", "ap", "auc")
    rows: list[list[Cell]] = [
        [name, *(answer.measures[key] for key in keys)] for name, answer in answers.items()
    ]
    kinds, wrong = np.array(words.kinds)[~chosen], words.wrong[~chosen]
    named = sorted(
        next(iter(answers.values())).recall_by_kind, key=lambda kind: -int((wrong & (kinds == kind)).sum())
    )
    shown = [name for name in answers if name != "chance"]
    by_kind: list[list[Cell]] = [
        [kind, int((wrong & (kinds == kind)).sum()), *(answers[name].recall_by_kind[kind] for name in shown)]
        for kind in named
    ]
    return [
        Table(
            "Who finds the errors",
            ("scorer", "precision", "recall", "F0.5", "average precision", "AUC"),
            rows,
            "At the threshold of the best F0.5 on the words it was chosen on. Chance calls everything wrong.",
        ),
        Table(
            "Which errors are found",
            ("errors", "how many", *shown),
            by_kind,
            f"Recall at each scorer's own threshold. Kinds with fewer than {FEWEST} errors are left out.",
        ),
    ]


def figures(answers: Mapping[str, Answer], first: str) -> list[Figure]:
    curves = [
        Series(name, *answer.curve, style="points" if len(answer.curve[0]) < 12 else "line")
        for name, answer in answers.items()
    ]
    chance = answers["chance"].measures["ap"].value
    curves[-1] = Series("chance", [0.0, 1.0], [chance, chance], style="reference")
    note = "Precision and recall at every threshold. A good detector's curve runs along the top."
    kinds = list(answers[first].recall_by_kind)
    found = [
        Series.of(name, kinds, [answers[name].recall_by_kind[kind] for kind in kinds], "points")
        for name in answers
        if name not in ("chance", "number of tokens in the word")
    ]
    return [
        Figure(
            "precision-recall",
            "Precision and recall",
            note,
            "recall",
            "precision",
            curves,
            x_range=(0.0, 1.0),
        ),
        Figure(
            "by-kind",
            "Which errors are found",
            "Recall at the chosen threshold, 95 % intervals.",
            "recall",
            "",
            found,
            kind="categories",
        ),
    ]
