"""Re-ranking: whether sentence scores improve the choice among a speech recogniser's hypotheses.

measures/nbest.py says how a hypothesis is chosen. The recogniser's score is its own mix of the list's scores
(decoder and CTC) without that of its language model, which our score replaces.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from typing_extensions import override

from electra.data.tables.table import read_rows
from electra.foundation.arrays import Floats
from electra.foundation.errors import DataError
from electra.laboratory.analysis import contract
from electra.laboratory.analysis.contract import Cell, Data, Estimate, Findings, Input, Progress, StudiedModel
from electra.laboratory.analysis.measures import nbest
from electra.laboratory.analysis.measures.bootstrap import estimates
from electra.laboratory.analysis.scoring.scorers import scores_of
from electra.laboratory.analysis.texts import at_least_0, sample

WER, GAIN = "word error rate, %", "gain over the recogniser"
WEIGHTS = ("weight, first half", "weight, second half")
FIRST, BONUS, LM, ORACLE = (
    "first hypothesis of the list",
    "recogniser without language model, with a bonus for words",
    "the same, with the list's own language model",
    "oracle: the best of each list",
)


@dataclass(frozen=True)
class Config:
    """Options of the probe."""

    sentences: int = at_least_0(300)
    """Utterances to sample (0: all)."""
    hypotheses: int = at_least_0(8)
    """Hypotheses of each list to use, from its start (0: all)."""
    scorers: tuple[str, ...] = ("original", "original-mean", "odds", "pll", "pll-mean", "unmasked")
    """Sentence scores to use. A model is used with those that it has a network for."""
    resamples: int = at_least_0(1000)
    """Bootstrap samples of the utterances for the intervals."""
    lowercase: bool = True
    """Lower-case the hypotheses for the models: such lists are often in capitals, which models rarely see."""
    language_model: str = "lm"
    """Column with the score of the recogniser's language model."""
    total: str = "score"
    """Column with the recogniser's total score."""


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
        patterns = "*librispeech*other*.jsonl* *nbest*/*.jsonl* *nbest*.jsonl* *librispeech*.jsonl*"
        return (Input("lists", "n-best lists", tuple(patterns.split())),)

    @override
    def run(self, models: Sequence[StudiedModel], data: Data, progress: Progress) -> Findings:
        config, findings = self.config, Findings()
        read = [each for path in data["lists"] for each in read_utterances(path, config.hypotheses)]
        utterances = sample(read, config.sentences)
        lists = nbest.make_lists([(utterance.reference, utterance.hypotheses) for utterance in utterances])
        score_names = utterances[0].scores.keys()
        if any(utterance.scores.keys() != score_names for utterance in utterances):
            problem = "the hypotheses of the files have different scores"
            raise contract.ProbeDataError(problem, key="data", fix="Pass files with the same scores")
        columns = {name: nbest.pad([each.scores[name] for each in utterances]) for name in score_names}
        acoustic, mix = self._acoustic(columns, lists)
        errors, weights = {FIRST: lists.errors[:, 0].astype(np.float64)}, dict[str, list[float]]()
        errors[BONUS], _ = nbest.cross_validated_errors(lists, acoustic, None)
        texts = [text for utterance in utterances for text in utterance.hypotheses]
        texts = [text.lower() for text in texts] if config.lowercase else texts
        ends = np.cumsum([len(utterance.hypotheses) for utterance in utterances])[:-1]
        scores = {LM: columns[config.language_model]} if config.language_model in columns else {}
        for (model, scorer), values in scores_of(models, config.scorers, texts, progress).items():
            scores[f"{model}: {scorer}"] = nbest.pad(np.split(values, ends))
        for name, score in scores.items():
            errors[name], tuned = nbest.cross_validated_errors(lists, acoustic, score)
            weights[name] = [each.score for each in tuned]
        errors[ORACLE] = lists.oracle_errors()
        rates = self._measure(errors, lists)
        for name in errors:
            cells: dict[str, Cell] = {measure: rates[name, measure] for measure in (WER, GAIN)}
            cells |= dict(zip(WEIGHTS, weights.get(name, (None, None)), strict=True))
            findings.add_all(cells, **{"chosen by": name})
            if name.startswith(f"{models[0].name}: "):
                findings.headline[f"WER gained, {name}"] = rates[name, GAIN]
        by = "chosen by"
        note = (
            "Gains are paired differences in percentage points; above 0 is better. A weight of 0: the score"
            " did not help on that half."
        )
        findings.table("Word error rate", by, note=note, measure=(WER, GAIN, *WEIGHTS))
        note = (
            "Word errors saved per 100 words, against the recogniser with a bonus for words. Paired;"
            " intervals are 95 %, over utterances."
        )
        keep = {"measure": GAIN, by: [name for name in errors if name not in (BONUS, ORACLE)]}
        shown = {"note": note, "unit": "percentage points", "references": {"none": 0.0}}
        findings.figure("gain", "Gain by re-ranking", by, "measure", keep, kind="categories", **shown)
        weights_text = ", ".join(f"{weight:.2f} {name}" for name, weight in mix.items())
        findings.notes += [
            f"{len(utterances)} utterances, {int(lists.present.sum())} hypotheses,"
            f" {int(lists.reference_words.sum())} reference words.",
            f"The recogniser's own weights: {weights_text}.",
            f"The models read {'lower-cased' if config.lowercase else 'unchanged'} text; errors are counted"
            " on the original text.",
        ]
        return findings

    def _acoustic(self, columns: Mapping[str, Floats], lists: nbest.NBestLists) -> tuple[Floats, dict[str, float]]:
        """Returns the recogniser's score [U, N] without its language model, and its weight for each score."""
        parts = [name for name in columns if name not in (self.config.language_model, self.config.total)]
        if not parts:
            problem = "the hypotheses have no scores of a recogniser"
            raise contract.ProbeDataError(problem, key="data", fix="Add some, such as decoder and ctc")
        weight_of = dict.fromkeys(parts, 1.0)
        if self.config.total in columns:
            scores = {name: values[lists.present] for name, values in columns.items()}
            weight_of = nbest.recogniser_weights(scores, self.config.total)
        combined = np.zeros(lists.present.shape)
        for name in parts:
            combined += weight_of[name] * columns[name]
        return combined, weight_of

    def _measure(self, errors: Mapping[str, Floats], lists: nbest.NBestLists) -> dict[tuple[str, str], Estimate]:
        """Returns word error rates and gains in percent, by system and measure, all on the same resamples."""
        rows = {(name, WER): each for name, each in errors.items()}
        rows |= {(name, GAIN): errors[BONUS] - each for name, each in errors.items()}
        stacked, words = np.stack(list(rows.values())), lists.reference_words.astype(np.float64)

        def measure(weights: Floats) -> dict[tuple[str, str], float]:
            return dict(zip(rows, (100 * (stacked @ weights) / (words @ weights)).tolist(), strict=True))

        return estimates(measure, np.arange(len(words)), resamples=self.config.resamples)


@dataclass(frozen=True)
class Utterance:
    """A reference transcript and its n-best list."""

    reference: str
    hypotheses: tuple[str, ...]
    scores: dict[str, tuple[float, ...]]  # by name, one score per hypothesis


def read_utterances(path: Path, hypotheses: int = 0) -> list[Utterance]:
    """Returns the utterances of a file, each with its first `hypotheses` (0: all).

    A line is {"ref": a transcript, "hyps": [{"text": a hypothesis, NAME: a score, ...}, ...]}, the
    recogniser's best hypothesis first; all have scores with the same names. Raises DataError for another
    line, or if no reference has words.
    """
    utterances: list[Utterance] = []
    names: list[str] = []
    for where, row in read_rows(path):
        try:
            entries = [dict(entry) for entry in row["hyps"]]
            texts = [entry.pop("text") for entry in entries]
            names = names or list(entries[0])
            scores = {name: tuple(_finite(entry.pop(name)) for entry in entries) for name in names}
            if any(entries) or not all(isinstance(text, str) for text in [row["ref"], *texts]):
                raise ValueError
        except (KeyError, IndexError, TypeError, ValueError):
            fix = 'Write {"ref": TEXT, "hyps": [{"text": TEXT, NAME: SCORE}]}, with equal scores everywhere'
            raise DataError("not an n-best list", where=where, fix=fix) from None
        kept = slice(hypotheses or None)
        scores = {name: values[kept] for name, values in scores.items()}
        utterances.append(Utterance(row["ref"], tuple(texts[kept]), scores))
    if not any(utterance.reference.split() for utterance in utterances):
        raise DataError("every reference is empty", where=path)
    return utterances


def _finite(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError
    return float(value)
