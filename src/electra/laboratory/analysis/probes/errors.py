"""Grammatical error detection without fine-tuning: does P(replaced) find what learners get wrong?

The threshold of each scorer is the one of the best F0.5 on the dev sentences (CoNLL-2014's measure, Ng et al.
2014; precision counts twice), and everything else is measured on the test sentences; without a test file, on
the other half of the dev sentences. Beside it: the generator's surprisal, that of any masked language model
it is compared with, how many tokens the word is cut into (which finds misspellings), chance, and a fine-tuned
detector when one is given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

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
from electra.laboratory.analysis.scoring.tagger import detector_values, folder_of
from electra.laboratory.analysis.scoring.words import Combine, owners, suspicion, word_values
from electra.laboratory.analysis.texts import learners
from electra.laboratory.analysis.texts.sampling import sample
from electra.laboratory.analysis.texts.word_kinds import kind_of

UNTYPED = "i"  # the label of an error whose type is not told; any other but "c" is a type
CURVE_POINTS = 60
FEWEST = 20  # errors of a type, to say anything about it
TOKENS = "number of tokens in the word"
MEASURES = ("average precision", "AUC", "F0.5", "precision", "recall")


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
    version = 2  # 2: read in other batches, which moves last digits
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

    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Findings:
        config = self.config
        dev, test = (
            sample(learners.read_learners(data[key][0]), config.sentences, config.seed) if key in data else []
            for key in ("learners", "learners_test")
        )
        everything = [*dev, *test]
        words = describe(everything, models[0], config.language)
        if not words.wrong.any() or words.wrong.all():
            what = "needs both right and wrong words"
            raise ProbeDataError(what, where=data["learners"][0], fix="Label right words c and wrong words i")
        chosen = words.sentence < len(dev) if test else bootstrap.halves(words.sentence, config.seed)
        if not words.wrong[chosen].any() or not words.wrong[~chosen].any():
            what = (
                "no errors among the words that choose the threshold, or among those judged: are the labels"
                " withheld?"
            )
            where = ", ".join(str(data[key][0]) for key in ("learners", "learners_test") if key in data)
            raise ProbeDataError(what, where=where)
        scores, findings = self.scores(models, everything, progress), Findings()
        for name, score in scores.items():
            judge(findings, name, score, words, chosen=chosen, config=config)
        first = f"discriminator of {models[0].name}"
        compare(findings, scores, words, judged=~chosen, first=first, config=config)
        show(findings, list(scores), words, chosen)
        found, chance = (findings.of(scorer=name) for name in (first, "chance"))
        findings.headline.update({name: found[name] for name in MEASURES})
        findings.headline["chance: average precision"] = chance["average precision"]
        share, judged = 100 * words.wrong[~chosen].mean(), int((~chosen).sum())
        judged_on = f"{'test' if test else 'the other half of dev'}: {judged:,} words, {share:.1f} % wrong"
        chosen_on = f"{'dev' if test else 'one half of dev'} ({int(chosen.sum()):,} words)"
        findings.notes += [
            f"Thresholds chosen on {chosen_on}, judged on {judged_on}.",
            "Error types as the file names them."
            if has_types(everything)
            else "The file names no error types, so errors are grouped by the word they stand on.",
        ]
        return findings

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
                tell = part_progress(progress, "the generator's surprisal", 2 * number + 1, steps)
                values = word_values(generator, given, "masked", suspicion, how=config.combine, progress=tell)
                found[f"surprisal, generator of {model.name}"] = flat(values)
        if config.detector:
            found["fine-tuned detector"] = flat(detector_values(config.detector, given))
        tokenizer = models[0].discriminator.tokenizer
        found[TOKENS] = flat(
            [
                np.bincount(owners(tokenizer, words), minlength=len(words)).astype(np.float64)
                for words in given
            ]
        )
        found["chance"] = np.zeros(len(found[TOKENS]))
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


def judge(
    findings: Findings, name: str, scores: Floats, words: Words, *, chosen: Bools, config: Config
) -> None:
    """Choose the threshold on the `chosen` words; measure on the others."""
    threshold = Ranking(scores[chosen], words.wrong[chosen]).best_threshold(beta=0.5)
    ranking = Ranking(scores[~chosen], words.wrong[~chosen])
    groups = np.unique(words.sentence[~chosen], return_inverse=True)[1]
    kinds = np.array(words.kinds)[~chosen]
    called = ranking.scores >= threshold
    members = {kind: ranking.positive & (kinds == kind) for kind in sorted(set(kinds))}
    members = {kind: errors for kind, errors in members.items() if errors.sum() >= FEWEST}

    def measure(w: Floats) -> dict[str, float]:
        found = {"average precision": ranking.average_precision(w), "AUC": ranking.auc(w)}
        return found | ranking.at(threshold, w)

    def recall(w: Floats) -> dict[str, float]:
        return {kind: _share(w * errors, called) for kind, errors in members.items()}

    resampled = {"resamples": config.resamples, "seed": config.seed}
    findings.add_all(bootstrap.estimates(measure, groups, **resampled), scorer=name)
    for kind, found in bootstrap.estimates(recall, groups, **resampled).items():
        findings.add(found, errors=kind, measure=name)
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
    judged: Bools,
    first: str,
    config: Config,
) -> None:
    """How far the first scorer is ahead of each other one, on the same resamples of the same sentences."""
    rankings = {name: Ranking(score[judged], words.wrong[judged]) for name, score in scores.items()}
    groups = np.unique(words.sentence[judged], return_inverse=True)[1]

    def measure(w: Floats) -> dict[str, float]:
        both = {name: (ranking.average_precision(w), ranking.auc(w)) for name, ranking in rankings.items()}
        own = both.pop(first)
        return {f"{name}\t{i}": own[i] - other[i] for name, other in both.items() for i in (0, 1)}

    found = bootstrap.estimates(measure, groups, resamples=config.resamples, seed=config.seed)
    for key, ahead in found.items():
        name, _, place = key.partition("\t")
        findings.add(ahead, of=name, measure=("average precision", "AUC")[int(place)])


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


def show(findings: Findings, scorers: Sequence[str], words: Words, chosen: Bools) -> None:
    first, kinds = scorers[0], np.array(words.kinds)[~chosen][words.wrong[~chosen]]
    frequent = [kind for kind, count in Counter(sorted(kinds)).most_common() if count >= FEWEST]
    shown = [name for name in scorers if name != "chance"]
    found = {"errors": frequent, "measure": ["how many", *shown]}
    best = "At the threshold of the best F0.5 on the words it was chosen on. Chance calls everything wrong."
    recall = f"Recall at each scorer's own threshold. Kinds with fewer than {FEWEST} errors are left out."
    paired = "Paired: an interval without 0 is a difference that other sentences would show too."
    measures = ("precision", "recall", "F0.5", "average precision", "AUC")
    findings.tables += [
        Table("Who finds the errors", ("scorer",), keep={"measure": measures}, note=best),
        Table("Which errors are found", ("errors",), keep=found, note=recall),
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
        "Precision and recall at every threshold. A good detector's curve runs along the top.",
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
