"""Grammatical error detection without fine-tuning: whether P(replaced) finds learners' errors.

Each scorer's threshold is the one with the best F0.5 on the dev sentences (CoNLL-2014's measure, Ng et al.
2014, in which precision counts twice as much as recall). docs/analysis.md says what is compared.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from electra.finetuning.labelled.examples import Example
from electra.foundation.arrays import Bools, Floats, Ints
from electra.foundation.config import read_toml
from electra.laboratory.analysis import contract, texts
from electra.laboratory.analysis.contract import Data, Findings, Input, Network, Progress, StudiedModel
from electra.laboratory.analysis.measures import bootstrap
from electra.laboratory.analysis.measures.ranking import Ranking
from electra.laboratory.analysis.scoring.scorers import word_ids, word_suspicion
from electra.laboratory.analysis.texts import CORRECT, learner_inputs, read_learners, sample

UNTYPED = "i"  # the label of an error without a type; any other label but "c" is a type
MIN_ERRORS = 20  # no recall is reported for kinds with fewer errors
TOKENS = "number of tokens in the word"
CHANCE = "chance"
MEASURES = ("average precision", "AUC", "F0.5", "precision", "recall")


@dataclass(frozen=True)
class Config(texts.ResampledOptions):
    """Options of the probe."""

    language: texts.Language = "en"
    """Language of the learners' sentences: en (FCE) or de (Falko-MERLIN)."""
    sentences: int = texts.at_least_0(0)
    """Sentences sampled from each file (0: all)."""
    surprisal: bool = True
    """Also use the generator's surprisal, one pass for each token: the slow part."""
    resamples: int = texts.at_least_0(500)


@dataclass(frozen=True)
class Words:
    """All words [N] of some sentences."""

    sentence: Ints  # the index of each word's sentence
    wrong: Bools
    kinds: npt.NDArray[np.str_]  # the type of an error if the file has types, else the kind of word

    def select(self, mask: Bools) -> "Words":
        """Returns the words that the mask [N] selects, with their sentences renumbered from 0."""
        sentence = np.unique(self.sentence[mask], return_inverse=True)[1]
        return Words(sentence, self.wrong[mask], self.kinds[mask])

    def frequent_errors(self) -> list[str]:
        """Returns the kinds with at least `MIN_ERRORS` errors, the most frequent first."""
        counts = Counter(sorted(self.kinds[self.wrong].tolist()))
        return [kind for kind, count in counts.most_common() if count >= MIN_ERRORS]


class Probe(contract.Probe):
    """Detects errors in learners' sentences by the scores of their words."""

    title = "Errors of learners, without fine-tuning"
    question = "Does P(replaced) find the errors that people make? Which errors are found, and which never?"
    source = (
        "Task: Rei and Yannakoudakis 2016, Yuan et al. 2021 (fine-tuned ELECTRA-large: F0.5 72.9 on FCE's test set)."
    )
    version = 2
    needs = ("discriminator",)
    scales: ClassVar[Mapping[str, tuple[float, float]]] = {"AUC": (0.5, 1.0)}
    config: Config

    @override
    @property
    def optional_networks(self) -> tuple[Network, ...]:
        return ("discriminator", "generator") if self.config.surprisal else ()

    @override
    def inputs(self) -> tuple[Input, ...]:
        return learner_inputs(self.config.language)

    @override
    def run(self, models: Sequence[StudiedModel], data: Data, progress: Progress) -> Findings:
        config, findings = self.config, Findings()
        files = {key: data[key][0] for key in ("learners", "learners_test") if key in data}
        read = {key: read_learners(file) for key, file in files.items()}
        parts = (read.get(key, []) for key in ("learners", "learners_test"))
        dev, test = (sample(part, config.sentences, config.seed) for part in parts)
        sentences = [*dev, *test]
        words = words_of(sentences, models[0], config.language)
        tuning = words.sentence < len(dev) if test else bootstrap.halves(words.sentence, config.seed)
        where = ", ".join(map(str, files.values()))
        if words.wrong.all() or not (words.wrong[tuning].any() and words.wrong[~tuning].any()):
            problem = "correct and wrong words are needed both for the threshold and for the test"
            fix = "Label correct words c and wrong words i: are the labels withheld?"
            raise contract.ProbeDataError(problem, where=where, fix=fix)
        scores = self.scores(models, sentences, progress)
        add_measures(findings, scores, words, tuning=tuning, config=config)
        add_tables_and_figures(findings, list(scores), words.select(~tuning).frequent_errors())
        first_measures = findings.select(scorer=next(iter(scores)))
        findings.headline.update({name: first_measures[name] for name in MEASURES})
        findings.headline["chance: average precision"] = findings.select(scorer=CHANCE)["average precision"]
        percent, num_words = 100 * words.wrong[~tuning].mean(), int((~tuning).sum())
        chosen_on, tested_on = ("dev", "test") if test else ("one half of dev", "the other half of dev")
        kinds = "The file has no error types, so errors are grouped by the kind of word."
        findings.notes += [
            f"Thresholds chosen on {chosen_on} ({int(tuning.sum()):,} words), tested on {tested_on}:"
            f" {num_words:,} words, {percent:.1f} % wrong.",
            "Error types as in the file." if has_types(sentences) else kinds,
        ]
        return findings

    def scores(
        self, models: Sequence[StudiedModel], sentences: Sequence[Example], progress: Progress
    ) -> dict[str, Floats]:
        """Returns the suspicion [N] of each word by scorer, the first model's discriminator first."""
        steps, words = 2 * len(models) + 1, [sentence.texts for sentence in sentences]
        by_scorer: dict[str, Sequence[Floats]] = {}
        for i, model in enumerate(models):
            if (network := model.optional("discriminator")) is not None:
                by_scorer[f"discriminator of {model.name}"] = word_suspicion(network, words, "odds")
            progress("scoring words", (2 * i + 1) / steps)
            if self.config.surprisal and (network := model.optional("generator")) is not None:
                progress("the generator's surprisal", (2 * i + 2) / steps)
                by_scorer[f"surprisal, generator of {model.name}"] = word_suspicion(network, words, "masked")
        by_scorer[TOKENS] = [counts.astype(np.float64) for counts in token_counts(models[0], sentences)]
        scores = {name: flatten(values) for name, values in by_scorer.items()}
        return scores | {CHANCE: np.zeros(len(scores[TOKENS]))}


def token_counts(model: StudiedModel, sentences: Sequence[Example]) -> list[Ints]:
    """Returns the number of tokens of each word of each sentence."""
    tokenizer = model.discriminator.tokenizer
    return [np.bincount(word_ids(tokenizer, each.texts), minlength=len(each.texts)) for each in sentences]


def words_of(sentences: Sequence[Example], model: StudiedModel, language: str) -> Words:
    """Returns the words of the sentences, with their errors and kinds."""
    labels = [label for sentence in sentences for label in sentence.gold]
    kinds = labels
    if not has_types(sentences):
        kinds = [
            kind_of(word, int(count), language)
            for sentence, counts in zip(sentences, token_counts(model, sentences), strict=True)
            for word, count in zip(sentence.texts, counts, strict=True)
        ]
    sentence = np.repeat(np.arange(len(sentences)), [len(sentence.texts) for sentence in sentences])
    return Words(sentence, np.array(labels) != CORRECT, np.array(kinds))


@cache
def _closed_classes() -> dict[str, dict[str, str]]:
    lists = read_toml(Path(__file__).parents[1] / "word_kinds.toml")
    return {
        language: {word: kind for kind, words in by_kind.items() for word in words.split()}
        for language, by_kind in lists.items()
    }


def kind_of(word: str, num_tokens: int, language: str) -> str:
    """Returns the kind of a word: its closed class (en and de), or its number of tokens (many: rare)."""
    if not any(letter.isalnum() for letter in word):
        return "punctuation"
    if any(letter.isdigit() for letter in word):
        return "number"
    if closed := _closed_classes().get(language, {}).get(word.lower()):
        return closed
    names = {0: "0 tokens", 1: "1 token", 2: "2 tokens"}
    return f"other word, {names.get(num_tokens, '3 tokens or more')}"


def has_types(sentences: Sequence[Example]) -> bool:
    """Whether the labels distinguish types of error."""
    return bool({label for each in sentences for label in each.gold} - {CORRECT, UNTYPED})


def flatten(values: Sequence[Floats]) -> Floats:
    """Returns the scores of all words [N]. Words without tokens (NaN) get a score below all others."""
    scores = np.concatenate(values).astype(np.float64)
    has_score = np.isfinite(scores)
    return np.where(has_score, scores, scores[has_score].min(initial=0.0) - 1.0)


def add_measures(
    findings: Findings, scores: Mapping[str, Floats], words: Words, *, tuning: Bools, config: Config
) -> None:
    """Chooses each scorer's threshold on the words of `tuning` [N], and adds its measures on the others.

    Also adds the first scorer's measures minus each other scorer's. All are measured on the same resamples.
    """
    test, first = words.select(~tuning), next(iter(scores))
    thresholds = {
        name: Ranking(score[tuning], words.wrong[tuning]).best_threshold(beta=0.5) for name, score in scores.items()
    }
    rankings = {name: Ranking(score[~tuning], test.wrong) for name, score in scores.items()}
    errors_of = {kind: test.wrong & (test.kinds == kind) for kind in sorted(test.frequent_errors())}

    def measure(w: Floats) -> dict[tuple[str, str, str], float]:
        numbers: dict[tuple[str, str, str], float] = {}  # by axis, place and measure
        for name, ranking in rankings.items():
            ranked = {"average precision": ranking.average_precision(w), "AUC": ranking.auc(w)}
            at_threshold = ranking.at(thresholds[name], w)
            numbers |= {("scorer", name, key): v for key, v in (ranked | at_threshold).items()}
            flagged = ranking.scores >= thresholds[name]
            for kind, mask in errors_of.items():
                numbers["errors", kind, name] = bootstrap.share(w * mask, flagged)
            if name != first:
                numbers |= {("of", name, key): numbers["scorer", first, key] - v for key, v in ranked.items()}
        return numbers

    how = {"resamples": config.resamples, "seed": config.seed}
    for (axis, place, name), estimate in bootstrap.estimates(measure, test.sentence, **how).items():
        findings.add(estimate, **{axis: place}, measure=name)
    for kind, mask in errors_of.items():
        findings.add(int(mask.sum()), errors=kind, measure="how many")


def add_tables_and_figures(findings: Findings, scorers: Sequence[str], frequent: Sequence[str]) -> None:
    """Adds tables and figures. `frequent`: the kinds of errors that have a recall."""
    compared = [name for name in scorers if name != CHANCE]
    note = "At the threshold with the best F0.5 on the tuning words. Chance calls every word wrong."
    measures = ("precision", "recall", "F0.5", "average precision", "AUC")
    findings.table("Scorers compared", "scorer", note=note, measure=measures)
    note = f"Recall at each scorer's own threshold. Kinds with fewer than {MIN_ERRORS} errors are left out."
    columns = ["how many", *compared]
    findings.table("Which errors are found", "errors", note=note, errors=frequent, measure=columns)
    note = "Paired differences: if the interval excludes 0, expect the same sign on other sentences."
    findings.table(f"How far ahead the {scorers[0]} is", "of", note=note)
    keep = {"errors": sorted(frequent), "measure": [name for name in compared if name != TOKENS]}
    title, note = "Which errors are found", "Recall at the chosen threshold, 95 % intervals."
    findings.figure("by-kind", title, "errors", "measure", keep, note=note, unit="recall", kind="categories")
