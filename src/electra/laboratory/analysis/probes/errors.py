"""Grammatical error detection without fine-tuning: whether P(replaced) finds learners' errors.

Each scorer's threshold is the one with the best F0.5 on the dev sentences (CoNLL-2014's measure, Ng et al.
2014; precision counts twice), and everything else is measured on the test sentences; without a test file, on
the other half of the dev sentences. Compared with: the generator's surprisal, that of any masked language
model passed along, the number of tokens in the word (which finds misspellings), chance, and a fine-tuned
detector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from typing_extensions import override

from electra.artifacts.model import WEIGHTS
from electra.finetuning.labelled.tagged_sentences import Sentence
from electra.foundation.arrays import Bools, Floats, Ints
from electra.foundation.progress import part_progress
from electra.laboratory.analysis import contract
from electra.laboratory.analysis.contract import (
    Data,
    Figure,
    Findings,
    Input,
    Model,
    Network,
    ProbeDataError,
    Progress,
    Table,
)
from electra.laboratory.analysis.measures import bootstrap
from electra.laboratory.analysis.measures.ranking import Ranking
from electra.laboratory.analysis.scoring.tagger import detector_values, model_folder
from electra.laboratory.analysis.scoring.words import Combine, owners, suspicion, word_values
from electra.laboratory.analysis.texts import learners
from electra.laboratory.analysis.texts.sampling import sample
from electra.laboratory.analysis.texts.word_kinds import kind_of

UNTYPED = "i"  # the label of an error without a type; any other label but "c" is a type
CURVE_POINTS = 60  # on the precision-recall curve
FEWEST = 20  # errors of a type whose recall is shown
TOKENS = "number of tokens in the word"
MEASURES = ("average precision", "AUC", "F0.5", "precision", "recall")


@dataclass(frozen=True)
class Config:
    """Options of the probe."""

    language: learners.Language = "en"
    """Language of the learners' sentences: en (FCE) or de (Falko-MERLIN)."""
    combine: Combine = "max"
    """How the scores of a word's tokens are combined: the most suspicious (max), their mean, or the first."""
    sentences: int = 0
    """Sentences sampled from each file (0: all)."""
    surprisal: bool = True
    """Also use the generator's surprisal, one pass for each token: the slow part."""
    detector: str = ""
    """Folder of a fine-tuned detector to compare with (electra finetune with a task of token labels)."""
    resamples: int = 500
    """Bootstrap samples for the intervals."""
    seed: int = 0
    """Seed of samples, halves and bootstrap."""


@dataclass(frozen=True)
class Words:
    """All words of some sentences.

    `kinds`: an error's type where the file has types, else the kind of word.
    """

    sentence: Ints
    wrong: Bools
    kinds: list[str]


class Probe(contract.Probe):
    """Detects errors in learners' sentences by the scores of their words."""

    title = "Errors of learners, without fine-tuning"
    question = "Does P(replaced) find the errors that people make? Which errors are found, and which never?"
    source = (
        "Task: Rei and Yannakoudakis 2016, Yuan et al. 2021 (fine-tuned ELECTRA-large: F0.5 72.9 on FCE's"
        " test set)."
    )
    version = 2
    needs = ("discriminator",)
    scales: ClassVar[Mapping[str, tuple[float, float]]] = {"AUC": (0.5, 1.0)}
    config: Config

    @override
    @property
    def beside(self) -> tuple[Network, ...]:
        return ("discriminator", "generator") if self.config.surprisal else ()

    @override
    def inputs(self) -> tuple[Input, ...]:
        return learners.learner_inputs(self.config.language)

    @override
    def find(self, roots: Sequence[Path]) -> dict[str, list[Path]]:
        """The detector's weights count as data, so that the record holds their digest."""
        weights = model_folder(self.config.detector) / WEIGHTS
        return super().find(roots) | (
            {"detector": [weights]} if self.config.detector and weights.is_file() else {}
        )

    @override
    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Findings:
        config = self.config
        dev, test = (
            sample(learners.read_learners(data[key][0]), config.sentences, config.seed) if key in data else []
            for key in ("learners", "learners_test")
        )
        everything = [*dev, *test]
        words = describe(everything, models[0], config.language)
        if not words.wrong.any() or words.wrong.all():
            problem = "the labels must have both correct and wrong words"
            raise ProbeDataError(
                problem, where=data["learners"][0], fix="Label correct words c and wrong words i"
            )
        chosen = words.sentence < len(dev) if test else bootstrap.halves(words.sentence, config.seed)
        if not words.wrong[chosen].any() or not words.wrong[~chosen].any():
            problem = (
                "no errors among the words for the threshold, or among the test words: are the labels"
                " withheld?"
            )
            where = ", ".join(str(data[key][0]) for key in ("learners", "learners_test") if key in data)
            raise ProbeDataError(problem, where=where)
        scores, findings = self.scores(models, everything, progress), Findings()
        for name, score in scores.items():
            measure_scorer(findings, name, score, words, chosen=chosen, config=config)
        first = f"discriminator of {models[0].name}"
        compare(findings, scores, words, test=~chosen, first=first, config=config)
        show(findings, list(scores), words, chosen)
        of_first, chance = (findings.of(scorer=name) for name in (first, "chance"))
        findings.headline.update({name: of_first[name] for name in MEASURES})
        findings.headline["chance: average precision"] = chance["average precision"]
        share, num_test = 100 * words.wrong[~chosen].mean(), int((~chosen).sum())
        tested_on = f"{'test' if test else 'the other half of dev'}: {num_test:,} words, {share:.1f} % wrong"
        chosen_on = f"{'dev' if test else 'one half of dev'} ({int(chosen.sum()):,} words)"
        findings.notes += [
            f"Thresholds chosen on {chosen_on}, tested on {tested_on}.",
            "Error types as in the file."
            if has_types(everything)
            else "The file has no error types, so errors are grouped by the kind of word.",
        ]
        return findings

    def scores(
        self, models: Sequence[Model], sentences: Sequence[Sentence], progress: Progress
    ) -> dict[str, Floats]:
        """Scorer -> suspicion of each word; higher is more suspicious."""
        config = self.config
        texts = [sentence.words for sentence in sentences]
        scores_by_name: dict[str, Floats] = {}
        steps = 2 * len(models) + 1
        for number, model in enumerate(models):
            discriminator = model.optional("discriminator")
            if discriminator is not None:
                values = word_values(discriminator, texts, "odds", suspicion, how=config.combine)
                scores_by_name[f"discriminator of {model.name}"] = flatten(values)
            progress("scoring words", (2 * number + 1) / steps)
            generator = model.optional("generator") if config.surprisal else None
            if generator is not None:
                share_done = part_progress(progress, "the generator's surprisal", 2 * number + 1, steps)
                values = word_values(
                    generator, texts, "masked", suspicion, how=config.combine, progress=share_done
                )
                scores_by_name[f"surprisal, generator of {model.name}"] = flatten(values)
        if config.detector:
            scores_by_name["fine-tuned detector"] = flatten(detector_values(config.detector, texts))
        tokenizer = models[0].discriminator.tokenizer
        scores_by_name[TOKENS] = flatten(
            [
                np.bincount(owners(tokenizer, words), minlength=len(words)).astype(np.float64)
                for words in texts
            ]
        )
        scores_by_name["chance"] = np.zeros(len(scores_by_name[TOKENS]))
        return scores_by_name


def describe(sentences: Sequence[Sentence], model: Model, language: str) -> Words:
    """The words of the sentences, which are wrong, and their kinds."""
    typed, kinds, tokenizer = has_types(sentences), [], model.discriminator.tokenizer
    for sentence in sentences:
        counts = np.bincount(owners(tokenizer, sentence.words), minlength=len(sentence.words))
        for word, label, count in zip(sentence.words, sentence.columns[0], counts, strict=True):
            kinds.append(label if typed else kind_of(word, int(count), language))
    wrong = np.array(
        [label != learners.CORRECT for sentence in sentences for label in sentence.columns[0]], bool
    )
    return Words(
        np.repeat(np.arange(len(sentences)), [len(sentence) for sentence in sentences]), wrong, kinds
    )


def has_types(sentences: Sequence[Sentence]) -> bool:
    """Whether the labels distinguish types of error."""
    return any(
        label not in (learners.CORRECT, UNTYPED) for sentence in sentences for label in sentence.columns[0]
    )


def flatten(values: Sequence[Floats]) -> Floats:
    """All words in one array. A word without tokens gets a score below all others."""
    values_of_words = np.concatenate(values).astype(np.float64)
    return np.where(
        np.isfinite(values_of_words),
        values_of_words,
        values_of_words[np.isfinite(values_of_words)].min(initial=0.0) - 1.0,
    )


def measure_scorer(
    findings: Findings, name: str, scores: Floats, words: Words, *, chosen: Bools, config: Config
) -> None:
    """Choose the threshold on the `chosen` words and measure on the others."""
    threshold = Ranking(scores[chosen], words.wrong[chosen]).best_threshold(beta=0.5)
    ranking = Ranking(scores[~chosen], words.wrong[~chosen])
    groups = np.unique(words.sentence[~chosen], return_inverse=True)[1]
    kinds = np.array(words.kinds)[~chosen]
    called = ranking.scores >= threshold
    members = {kind: ranking.positive & (kinds == kind) for kind in sorted(set(kinds))}
    members = {kind: errors for kind, errors in members.items() if errors.sum() >= FEWEST}

    def measure(w: Floats) -> dict[str, float]:
        numbers = {"average precision": ranking.average_precision(w), "AUC": ranking.auc(w)}
        return numbers | ranking.at(threshold, w)

    def recall(w: Floats) -> dict[str, float]:
        return {kind: _share(w * errors, called) for kind, errors in members.items()}

    resampled = {"resamples": config.resamples, "seed": config.seed}
    findings.add_all(bootstrap.estimates(measure, groups, **resampled), scorer=name)
    for kind, estimate in bootstrap.estimates(recall, groups, **resampled).items():
        findings.add(estimate, errors=kind, measure=name)
        if name == "chance":
            findings.add(int(members[kind].sum()), errors=kind, measure="how many")
    places, precision = precision_recall(ranking)
    if name != "chance":
        for place, share in zip(places, precision, strict=True):
            findings.add(share, measure="precision", scorer=name, recall=place)


def compare(
    findings: Findings,
    scores: Mapping[str, Floats],
    words: Words,
    *,
    test: Bools,
    first: str,
    config: Config,
) -> None:
    """Add the first scorer's lead over each other one, on the same resamples of the same sentences."""
    rankings = {name: Ranking(score[test], words.wrong[test]) for name, score in scores.items()}
    groups = np.unique(words.sentence[test], return_inverse=True)[1]

    def measure(w: Floats) -> dict[str, float]:
        both = {name: (ranking.average_precision(w), ranking.auc(w)) for name, ranking in rankings.items()}
        own = both.pop(first)
        return {f"{name}\t{i}": own[i] - other[i] for name, other in both.items() for i in (0, 1)}

    differences = bootstrap.estimates(measure, groups, resamples=config.resamples, seed=config.seed)
    for key, difference in differences.items():
        name, _, place = key.partition("\t")
        findings.add(difference, of=name, measure=("average precision", "AUC")[int(place)])


def _share(weight: Floats, called: Bools) -> float:
    total = weight.sum()
    return float((weight * called).sum() / total) if total else float("nan")


def precision_recall(ranking: Ranking) -> tuple[list[float], list[float]]:
    """Recall and precision of the curve at evenly spaced recalls."""
    true, false = ranking.counts(np.ones(len(ranking.positive)))
    recall, precision = true / true[-1], true / (true + false)
    places = np.unique(
        np.searchsorted(recall, np.linspace(0.02, 1.0, CURVE_POINTS), side="left").clip(max=len(recall) - 1)
    )
    return recall[places].tolist(), precision[places].tolist()


def show(findings: Findings, scorers: Sequence[str], words: Words, chosen: Bools) -> None:
    """Add tables and figures."""
    first, kinds = scorers[0], np.array(words.kinds)[~chosen][words.wrong[~chosen]]
    frequent = [kind for kind, count in Counter(sorted(kinds)).most_common() if count >= FEWEST]
    shown = [name for name in scorers if name != "chance"]
    columns = {"errors": frequent, "measure": ["how many", *shown]}
    best = "At the threshold with the best F0.5 on the words for its choice. Chance calls everything wrong."
    recall = f"Recall at each scorer's own threshold. Kinds with fewer than {FEWEST} errors are left out."
    paired = "Paired differences: an interval without 0 would hold for other sentences too."
    measures = ("precision", "recall", "F0.5", "average precision", "AUC")
    findings.tables += [
        Table("Who finds the errors", ("scorer",), keep={"measure": measures}, note=best),
        Table("Which errors are found", ("errors",), keep=columns, note=recall),
        Table(f"How far the {first} is ahead", ("of",), note=paired),
    ]
    chance = findings.of(scorer="chance")["average precision"].value
    few = [name for name in shown if len(findings.of("recall", scorer=name, measure="precision")) < 12]
    curve = Figure(
        "precision-recall",
        "Precision and recall",
        "recall",
        "scorer",
        {"measure": "precision"},
        "Precision and recall at every threshold. The curve of a good detector stays near the top.",
        "precision",
        references={"chance": chance},
        dots=few,
        x_range=(0.0, 1.0),
    )
    keep = {"errors": sorted(frequent), "measure": [name for name in shown if name != TOKENS]}
    note = "Recall at the chosen threshold, 95 % intervals."
    kinds_found = Figure(
        "by-kind", "Which errors are found", "errors", "measure", keep, note, "recall", "categories"
    )
    findings.figures += [curve, kinds_found]
