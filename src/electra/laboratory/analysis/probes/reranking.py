"""Re-ranking: whether sentence scores improve the choice among a speech recogniser's hypotheses.

A hypothesis is chosen by

    recogniser's score + weight * sentence score + bonus * words

The recogniser's score is its own mix of the list's scores except its language model's (decoder and CTC), so
that our score replaces that language model. Weight and bonus are tuned on one half of the utterances and
tested on the other, in both directions. Word errors are those of jiwer (tested).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from electra.finetuning.labelled.hypotheses import read_utterances
from electra.foundation.arrays import Floats
from electra.laboratory.analysis import contract
from electra.laboratory.analysis.contract import (
    Data,
    Estimate,
    Figure,
    Findings,
    Input,
    Model,
    ProbeDataError,
    Progress,
    Table,
)
from electra.laboratory.analysis.measures import nbest
from electra.laboratory.analysis.measures.bootstrap import estimates
from electra.laboratory.analysis.scoring.across_models import scores_of
from electra.laboratory.analysis.texts.sampling import sample

WER, GAIN, ALONE = "word error rate, %", "gain over the recogniser", "the score alone"
TUNED = tuple(f"{name}, {half} half" for half in ("first", "second") for name in ("weight", "bonus"))
FIRST, TOTAL, ACOUSTIC, BONUS, LM, CHANCE, ORACLE = (
    "first hypothesis of the list",
    "the list's own total score",
    "recogniser without language model",
    "the same, with a bonus for words",
    "with the list's own language model",
    "a hypothesis at random",
    "oracle: the best of each list",
)


@dataclass(frozen=True)
class Config:
    """Options of the probe."""

    sentences: int = 300
    """Utterances to sample (0: all)."""
    hypotheses: int = 8
    """Hypotheses of each list to use, from its start (0: all)."""
    scorers: tuple[str, ...] = ("original", "original-mean", "odds", "pll", "pll-mean", "unmasked")
    """Sentence scores to use, of each model those that it has the network for."""
    resamples: int = 1000
    """Bootstrap samples of the utterances for the intervals."""
    lowercase: bool = True
    """Lower-case the hypotheses for the models: such lists are often in capitals, which models rarely see."""
    language_model: str = "lm"
    """Column with the score of the recogniser's language model."""
    total: str = "score"
    """Column with the recogniser's total score."""


@dataclass(frozen=True)
class System:
    """A way of choosing hypotheses, and the errors [U] of its choices."""

    errors: Floats
    weights: tuple[nbest.Weights, ...] = ()
    alone: Floats | None = None
    """The errors where the sentence score chooses without the recogniser."""


class Probe(contract.Probe):
    """Measures the word error rate of n-best lists re-ranked by each sentence score."""

    title = "Re-ranking speech hypotheses"
    question = "Is the discriminator's average score of a sentence a good re-ranker for speech recognition?"
    source = "Method: Shin et al. 2019, Salazar et al. 2020; also used by Electric (Clark et al. 2020b)."
    version = 2
    needs = ()  # a discriminator, a generator, or both
    config: Config

    @override
    def inputs(self) -> tuple[Input, ...]:
        return (
            Input(
                "lists",
                "n-best lists",
                ("*librispeech*other*.jsonl*", "*nbest*/*.jsonl*", "*nbest*.jsonl*", "*librispeech*.jsonl*"),
            ),
        )

    @override
    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Findings:
        config = self.config
        available = [
            utterance for path in data["lists"] for utterance in read_utterances(path, config.hypotheses)
        ]
        utterances = sample(available, config.sentences)
        lists = nbest.make_lists([(utterance.reference, utterance.hypotheses) for utterance in utterances])
        names = set(utterances[0].scores)
        if any(set(utterance.scores) != names for utterance in utterances):
            problem = "the hypotheses of the files have different scores"
            raise contract.ProbeDataError(problem, key="data", fix="Pass files with the same scores")
        columns = {
            name: nbest.pad([utterance.scores[name] for utterance in utterances])
            for name in utterances[0].scores
        }
        acoustic, mix = self._acoustic(columns, lists)
        systems = self._references(columns, acoustic, lists)
        texts = [text for utterance in utterances for text in utterance.hypotheses]
        texts = [text.lower() for text in texts] if config.lowercase else texts
        for (model, scorer), values in scores_of(models, config.scorers, texts, progress).items():
            score = nbest.pad(
                np.split(values, np.cumsum([len(utterance.hypotheses) for utterance in utterances])[:-1])
            )
            errors, weights = nbest.cross_validated_errors(lists, acoustic, score)
            systems[f"{model}: {scorer}"] = System(errors, weights, lists.chosen_errors(score))
        findings = Findings()
        rates = self._measure(systems, lists)
        for name, system in systems.items():
            keys = {WER: "wer", GAIN: "gain", ALONE: "alone"}
            findings.add_all(
                {measure: rates.get(f"{name}/{key}") for measure, key in keys.items()}, **{"chosen by": name}
            )
            tuned = [number for weights in system.weights for number in (weights.score, weights.word)]
            findings.add_all(dict(zip(TUNED, tuned, strict=False)), **{"chosen by": name})
            if name.startswith(f"{models[0].name}: "):
                findings.headline[f"WER gained, {name}"] = rates[f"{name}/gain"]
        note = "Gains are paired differences in percentage points; above 0 is better."
        useless = "A weight of 0: the score did not help on that half."
        findings.tables += [
            Table("Word error rate", ("chosen by",), keep={"measure": (WER, GAIN, ALONE)}, note=note),
            Table("Weights tuned on each half", ("chosen by",), keep={"measure": TUNED}, note=useless),
        ]
        gain = (
            "Word errors saved per 100 words, against the recogniser with a bonus for words. Paired;"
            " intervals are 95 %, over utterances."
        )
        rate = (
            "Intervals are 95 %, over utterances; systems share utterances, so their differences are more"
            " certain than the intervals suggest."
        )
        oracle = rates[f"{ORACLE}/wer"].value
        for name, title, measure, left_out, note, references in (
            ("gain", "What re-ranking gains", GAIN, (ACOUSTIC, BONUS, ORACLE, CHANCE), gain, {"none": 0.0}),
            ("wer", "Word error rate after re-ranking", WER, (ORACLE, CHANCE), rate, {ORACLE: oracle}),
        ):
            keep = {
                "measure": measure,
                "chosen by": [utterance for utterance in systems if utterance not in left_out],
            }
            unit = "percentage points" if measure == GAIN else WER
            shown = Figure(name, title, "chosen by", "measure", keep, note, unit, "categories", references)
            findings.figures.append(shown)
        weights_shown = ", ".join(f"{weight:.2f} {name}" for name, weight in mix.items())
        findings.notes += [
            f"{len(utterances)} utterances, {int(lists.present.sum())} hypotheses,"
            f" {int(lists.reference_words.sum())} reference words.",
            "Every word error rate is measured on the half of the utterances that its weights were not tuned"
            " on. A gain is against the recogniser without language model and with a bonus for words, over"
            " the same utterances.",
            "The recogniser searched with its language model, so the lists hold what that model prefers: no"
            " scorer can gain much.",
            f"The recogniser's own weights: {weights_shown}.",
            f"The models read {'lower-cased' if config.lowercase else 'unchanged'} text; errors are counted"
            " on the original text.",
        ]
        return findings

    def _acoustic(
        self, columns: dict[str, Floats], lists: nbest.NBestLists
    ) -> tuple[Floats, dict[str, float]]:
        """The recogniser's score without its language model, weighted as in its own total (or equally)."""
        parts = [name for name in columns if name not in (self.config.language_model, self.config.total)]
        if not parts:
            raise ProbeDataError(
                "the hypotheses have no scores of a recogniser",
                key="data",
                fix="Add some, such as decoder and ctc",
            )
        mix = dict.fromkeys(parts, 1.0)
        if self.config.total in columns:
            mix = nbest.recogniser_weights(
                {name: values[lists.present] for name, values in columns.items()}, self.config.total
            )
        total = np.zeros(lists.present.shape)
        for name in parts:
            total += mix[name] * columns[name]
        return total, mix

    def _references(
        self, columns: dict[str, Floats], acoustic: Floats, lists: nbest.NBestLists
    ) -> dict[str, System]:
        systems = {FIRST: System(lists.errors[:, 0].astype(np.float64))}
        if self.config.total in columns:
            systems[TOTAL] = System(lists.chosen_errors(columns[self.config.total]))
        systems[ACOUSTIC] = System(lists.chosen_errors(acoustic))
        systems[BONUS] = System(*nbest.cross_validated_errors(lists, acoustic, None))
        if self.config.language_model in columns:
            score = columns[self.config.language_model]
            systems[LM] = System(
                *nbest.cross_validated_errors(lists, acoustic, score), lists.chosen_errors(score)
            )
        return {**systems, ORACLE: System(lists.oracle_errors()), CHANCE: System(lists.average_errors())}

    def _measure(self, systems: dict[str, System], lists: nbest.NBestLists) -> dict[str, Estimate]:
        """Error rates in percent, gains, and rates of the scores alone, on the same bootstrap samples."""
        base = systems[BONUS].errors
        rows = {f"{name}/wer": system.errors for name, system in systems.items()}
        rows |= {f"{name}/gain": base - system.errors for name, system in systems.items()}
        rows |= {
            f"{name}/alone": system.alone for name, system in systems.items() if system.alone is not None
        }
        stacked, words = np.stack(list(rows.values())), lists.reference_words.astype(np.float64)

        def measure(weights: Floats) -> dict[str, float]:
            return dict(zip(rows, (100 * (stacked @ weights) / (words @ weights)).tolist(), strict=True))

        return estimates(measure, np.arange(len(words)), resamples=self.config.resamples)
