"""Minimal pairs (BLiMP and the BabyLM supplement): whether the model prefers the grammatical sentence.

A minimal pair is two sentences that differ in one thing, which makes one of them ungrammatical (or, in the
supplement, odd). A scorer is right if it gives the good one the higher score. Nothing is trained. The scorers
are those of `scoring/scorers.py`; a tie (scores closer than their precision) counts as half a win, so that an
uninformative scorer gets 0.5. Sums of log-probabilities fall with length, so accuracies are also given for a
baseline that only counts tokens.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from electra.artifacts.folder import distinct_names
from electra.data.tables.table import read_rows
from electra.foundation.arrays import Floats
from electra.foundation.errors import ConfigError, DataError
from electra.laboratory.analysis import contract
from electra.laboratory.analysis.contract import Cell, Data, Estimate, Findings, Input, Progress, StudiedModel
from electra.laboratory.analysis.scoring.scorers import SCORERS, find_scorer, scores_of

SHORTER, SHORTER_TITLE = "shorter", "the sentence with fewer tokens (no network)"
TIE = 1e-5  # differences up to this are ties
Z95 = 1.959963984540054  # normal quantile of a two-sided 95 % interval


@dataclass(frozen=True)
class Config:
    """Options of the probe."""

    scorers: tuple[str, ...] = ()
    """Scorers to use (default: all that the models have networks for)."""
    limit: int | None = None
    """Use the first pairs of each file only (default: all pairs): quicker, with wider intervals."""

    def __post_init__(self) -> None:
        for name in self.scorers:
            find_scorer(name)
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"must be at least 1, not {self.limit}", where="minimal_pairs.limit")


@dataclass(frozen=True)
class MinimalPairs:
    """A file of minimal pairs: an acceptable sentence and an unacceptable one that differ in one respect."""

    name: str
    phenomenon: str  # as named in the rows (BLiMP), else the folder's name
    benchmark: str  # the folder's name
    good: tuple[str, ...]
    bad: tuple[str, ...]
    num_equal: int  # pairs left out because their sentences are equal (BLiMP has a few by mistake)


class Probe(contract.Probe):
    """Scores minimal pairs with every scorer that the models have a network for."""

    title = "Minimal pairs"
    question = "Does the model prefer the grammatical sentence of a pair, without being trained for it?"
    source = (
        "BLiMP, Warstadt et al. 2020; BabyLM supplement, Warstadt et al. 2023; scorers by Salazar et al."
        " 2020, Kauf and Ivanova 2023."
    )
    version = 1
    needs = ()  # a discriminator, a generator, or both

    @override
    def inputs(self) -> tuple[Input, ...]:
        blimp = ("blimp/*.jsonl*", "blimp*/*.jsonl*", "blimp*/*/*.jsonl*")
        supplement, own_pairs = ("*supplement*/*.jsonl*",), ("*minimal-pairs*/*.jsonl*",)
        return (
            Input("blimp", "BLiMP paradigms", blimp, required=False),
            Input("supplement", "paradigms of the BabyLM supplement", supplement, required=False),
            Input("own", "minimal pairs of your own", own_pairs, required=False),
        )

    @override
    def run(self, models: Sequence[StudiedModel], data: Data, progress: Progress) -> Findings:
        if not data:
            patterns = " or ".join(pattern for item in self.inputs() for pattern in item.patterns)
            problem = f"no minimal pairs found ({patterns})"
            raise contract.ProbeDataError(problem, key="data", fix="Pass the folder that holds blimp/")
        files = list(dict.fromkeys(path for paths in data.values() for path in paths))
        read = [read_minimal_pairs(path, self.config.limit) for path in files]
        names = distinct_names([(*f.parent.parts, each.name) for f, each in zip(files, read, strict=True)])
        paradigms = [replace(each, name=name) for each, name in zip(read, names, strict=True)]
        return report(paradigms, differences_of(models, paradigms, self.config.scorers, progress))


@dataclass(frozen=True)
class Accuracy:
    """How often a scorer preferred the good sentence, over at least one pair."""

    wins: int
    ties: int
    pairs: int

    @property
    def value(self) -> float:
        """The share of pairs won, ties counting half."""
        return (self.wins + self.ties / 2) / self.pairs

    def interval(self) -> tuple[float, float]:
        """Returns the 95 % interval of the share (Wilson 1927)."""
        n, p = self.pairs, self.value
        centre = (p + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
        half_width = Z95 / (1 + Z95**2 / n) * math.sqrt(p * (1 - p) / n + Z95**2 / (4 * n * n))
        return max(0.0, centre - half_width), min(1.0, centre + half_width)


def accuracy_of(difference: Floats) -> Accuracy:
    """Compares the scores of the good sentences with those of the bad ones, by their differences [N]."""
    return Accuracy(int((difference > TIE).sum()), int((np.abs(difference) <= TIE).sum()), len(difference))


def mean_over_paradigms(parts: Sequence[Accuracy]) -> Estimate:
    """Returns the mean over paradigms (`parts`, at least one), with an interval for new pairs of the same.

    Its variance is recovered from each paradigm's interval (Zou and Donner 2008).
    """
    mean = sum(part.value for part in parts) / len(parts)
    squares = [[(part.value - end) ** 2 for end in part.interval()] for part in parts]
    below, above = (math.sqrt(sum(each)) / len(parts) for each in zip(*squares, strict=True))
    return Estimate(mean, mean - below, mean + above)


def differences_of(
    models: Sequence[StudiedModel],
    paradigms: Sequence[MinimalPairs],
    scorers: Sequence[str],
    progress: Progress,
) -> dict[tuple[str, str], Floats]:
    """Returns, by model and scorer, the scores of the good sentences minus those of the bad ones [pairs].

    Each model's last scorer is its length baseline.
    """
    good = [sentence for paradigm in paradigms for sentence in paradigm.good]
    bad = [sentence for paradigm in paradigms for sentence in paradigm.bad]
    scores = scores_of(models, scorers, [*good, *bad], progress)
    differences = {}
    for model in models:
        lengths = np.array([len(ids) for ids in model.tokenizer.encode_corpus([*good, *bad])], np.float64)
        of_model = {name: values for (scored, name), values in scores.items() if scored == model.name}
        for name, values in {**of_model, SHORTER: -lengths}.items():
            differences[model.name, name] = values[: len(good)] - values[len(good) :]
    return differences


def report(paradigms: Sequence[MinimalPairs], differences: Mapping[tuple[str, str], Floats]) -> Findings:
    """Returns the findings: accuracies by benchmark, phenomenon and paradigm."""
    ends = np.cumsum([len(paradigm.good) for paradigm in paradigms])[:-1]
    benchmarks = list(dict.fromkeys(paradigm.benchmark for paradigm in paradigms))
    by_benchmark = sorted(paradigms, key=lambda paradigm: benchmarks.index(paradigm.benchmark))
    phenomena = list(dict.fromkeys(paradigm.phenomenon for paradigm in by_benchmark))
    models = list(dict.fromkeys(model for model, _ in differences))
    labels = {(m, scorer): f"{m}: {scorer}" if len(models) > 1 else scorer for m, scorer in differences}
    # the sums over tokens, which are what the literature calls a sentence's score
    sums = [each for each in differences if each[1] in SCORERS and SCORERS[each[1]].reduction == "sum"]
    findings = Findings()
    for (model, scorer), of_pairs in differences.items():
        parts = dict(zip(paradigms, map(accuracy_of, np.split(of_pairs, ends)), strict=True))
        title, label = SCORERS[scorer].title if scorer in SCORERS else SHORTER_TITLE, labels[model, scorer]
        at = {"model": model, "scorer": scorer, "description": title}
        for name in benchmarks:
            mean = mean_over_paradigms([part for each, part in parts.items() if each.benchmark == name])
            findings.add(mean, measure=name, **at)
            if model == models[0] and (model, scorer) in sums:
                findings.headline[f"{name}: {scorer}"] = mean
        findings.add(sum(part.ties for part in parts.values()), measure="ties", **at)
        for name in phenomena:
            mean = mean_over_paradigms([part for each, part in parts.items() if each.phenomenon == name])
            findings.add(mean, phenomenon=name, measure=label)
        for each, part in parts.items():
            findings.add(part.value, paradigm=each.name, phenomenon=each.phenomenon, measure=label)
    for each in paradigms:
        counts: dict[str, Cell] = {"pairs": len(each.good), "equal, left out": each.num_equal}
        findings.add_all(counts, paradigm=each.name, phenomenon=each.phenomenon)
    note = "Means over paradigms (published ones: over all 67); chance is 0.5. Ties count half."
    findings.table("Accuracy", "model", "scorer", "description", note=note)
    findings.table("By phenomenon", "phenomenon", note="Means over each phenomenon's paradigms.")
    findings.table("By paradigm", "paradigm", "phenomenon")
    note = "Sums over tokens; marks are means over paradigms with 95 % intervals."
    how: dict[str, Any] = {"note": note, "unit": "accuracy", "kind": "categories"}
    how |= {"references": {"chance": 0.5}, "x_range": (0, 1)}
    for model in models:
        letters = "".join(letter if letter.isalnum() else f"-{ord(letter):x}-" for letter in model)
        keep = {"measure": [labels[each] for each in sums if each[0] == model]}
        name, title = f"phenomena-{letters}", f"{model}: accuracy by phenomenon"
        findings.figure(name, title, "phenomenon", "measure", keep, **how)
    for name in benchmarks:
        members = [paradigm for paradigm in paradigms if paradigm.benchmark == name]
        equal = sum(paradigm.num_equal for paradigm in members)
        left_out = f"; {equal} pairs of equal sentences left out" if equal else ""
        num_pairs = sum(len(paradigm.good) for paradigm in members)
        findings.notes.append(f"{name}: {len(members)} paradigms, {num_pairs} pairs{left_out}.")
    return findings


def read_minimal_pairs(path: Path, limit: int | None = None) -> MinimalPairs:
    """Returns the (first `limit`) pairs of different sentences of a file; DataError if there are none."""
    pairs: list[tuple[str, str]] = []
    num_equal, phenomenon = 0, ""
    for where, row in read_rows(path):
        good, bad = row.get("sentence_good"), row.get("sentence_bad")
        if not (isinstance(good, str) and isinstance(bad, str) and good.strip() and bad.strip()):
            fix = "Write an object with the texts sentence_good and sentence_bad"
            raise DataError("not a minimal pair", where=where, fix=fix)
        phenomenon = phenomenon or str(row.get("linguistics_term", ""))
        num_equal += good == bad
        if good != bad:
            pairs.append((good, bad))
        if len(pairs) == limit:
            break
    if not pairs:
        raise DataError("no minimal pairs in this file", where=path)
    folder = path.parent.name
    goods, bads = zip(*pairs, strict=True)
    return MinimalPairs(path.name.split(".")[0], phenomenon or folder, folder, goods, bads, num_equal)
