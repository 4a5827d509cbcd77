"""Does the model prefer the grammatical sentence? BLiMP and the BabyLM supplement, by every scorer the model
has a network for.

A minimal pair is two sentences that differ in one thing, which makes one of them ungrammatical (or, in the
supplement, odd). A scorer is right when it gives the good one the higher score. Nothing is trained. The
scorers are those of `scoring/scorers.py`; ties and equal sentences are treated as in `texts/paradigms.py`. As
the good sentence may be the longer or the shorter one, and sums fall with length, accuracies are given by
which of the two has more tokens, beside a scorer that only counts tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from electra.analysis import contract
from electra.analysis.contract import (
    Cell,
    Data,
    Estimate,
    Figure,
    Input,
    Model,
    Progress,
    Report,
    Series,
    Table,
)
from electra.analysis.scoring.across_models import scores_of
from electra.analysis.scoring.scorers import SCORERS, find_scorer
from electra.analysis.texts.paradigms import Accuracy, Paradigm, average, judge, read_paradigm
from electra.errors import ConfigError

SHORTER = "shorter"  # the yardstick that only counts tokens
LENGTHS = ("shorter", "equal", "longer")  # the good sentence against the bad one, in tokens
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Config:
    scorers: tuple[str, ...] = ()
    """Which scorers (none: all that the models have networks for)."""
    limit: int | None = None
    """Only the first so many pairs of each file: quicker, with wider intervals."""

    def __post_init__(self) -> None:
        for name in self.scorers:
            find_scorer(name)
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"must be at least 1, not {self.limit}", where="minimal_pairs.limit")


@dataclass(frozen=True)
class Column:
    """One scorer of one model: what it gave the good and the bad sentence of each pair, paradigms one after
    the other.
    """

    model: str
    scorer: str
    title: str
    good: Floats
    bad: Floats
    length: npt.NDArray[np.int64]  # -1, 0, 1: the good sentence has fewer, as many, more tokens

    def accuracy(self, pairs: slice | npt.NDArray[np.bool_]) -> Accuracy:
        return judge(self.good[pairs], self.bad[pairs])


class Probe(contract.Probe):
    title = "Minimal pairs"
    question = "Does the model prefer the grammatical sentence of two, without being trained for it?"
    source = (
        "BLiMP, Warstadt et al. 2020; BabyLM supplement, Warstadt et al. 2023; scorers by Salazar et al."
        " 2020, Kauf and Ivanova 2023."
    )
    version = 1
    needs = ()  # a discriminator, a generator, or both

    def inputs(self) -> tuple[Input, ...]:
        return (
            Input(
                "blimp",
                "BLiMP paradigms",
                ("blimp/*.jsonl*", "blimp*/*.jsonl*", "blimp*/*/*.jsonl*"),
                required=False,
            ),
            Input(
                "supplement", "paradigms of the BabyLM supplement", ("*supplement*/*.jsonl*",), required=False
            ),
            Input("own", "minimal pairs of your own", ("*minimal-pairs*/*.jsonl*",), required=False),
        )

    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Report:
        if not data:
            wanted = " or ".join(pattern for found in self.inputs() for pattern in found.patterns)
            raise contract.ProbeDataError(
                f"no minimal pairs here ({wanted})", where="--data", fix="Give the folder that holds blimp/"
            )
        paradigms = [read_paradigm(path, self.config.limit) for paths in data.values() for path in paths]
        columns = columns_of(models, paradigms, self.config.scorers, progress)
        return report(paradigms, columns)


def columns_of(
    models: Sequence[Model], paradigms: Sequence[Paradigm], scorers: Sequence[str], progress: Progress
) -> list[Column]:
    """All scorers of all models, each model's own yardstick last."""
    good = [sentence for paradigm in paradigms for sentence in paradigm.good]
    bad = [sentence for paradigm in paradigms for sentence in paradigm.bad]
    scores = scores_of(models, scorers, [*good, *bad], progress)
    columns = []
    for model in models:
        lengths = [
            np.array([len(ids) for ids in model.tokenizer.encode_corpus(side)], np.int64)
            for side in (good, bad)
        ]
        sign = np.sign(lengths[0] - lengths[1])
        for (of, name), values in scores.items():
            if of == model.name:
                columns.append(
                    Column(
                        model.name, name, SCORERS[name].title, values[: len(good)], values[len(good) :], sign
                    )
                )
        counted = (-lengths[0].astype(np.float64), -lengths[1].astype(np.float64))
        columns.append(
            Column(model.name, SHORTER, "the sentence of fewer tokens (no network)", *counted, sign)
        )
    return columns


def report(paradigms: Sequence[Paradigm], columns: Sequence[Column]) -> Report:
    bounds = np.cumsum([0, *(len(paradigm.good) for paradigm in paradigms)])
    slices = [slice(int(start), int(stop)) for start, stop in pairwise(bounds)]
    accuracies = [[column.accuracy(pairs) for pairs in slices] for column in columns]
    benchmarks = list(dict.fromkeys(paradigm.benchmark for paradigm in paradigms))
    overall = [
        [
            average(
                [part for part, paradigm in zip(parts, paradigms, strict=True) if paradigm.benchmark == name]
            )
            for name in benchmarks
        ]
        for parts in accuracies
    ]
    first = columns[0].model
    headline = {
        f"{benchmark}: {column.scorer}": estimate
        for column, estimates in zip(columns, overall, strict=True)
        if column.model == first and _is_sum(column)
        for benchmark, estimate in zip(benchmarks, estimates, strict=True)
    }
    phenomena = list(
        dict.fromkeys(
            paradigm.phenomenon for paradigm in sorted(paradigms, key=lambda p: benchmarks.index(p.benchmark))
        )
    )
    by_phenomenon = [
        [
            average(
                [part for part, paradigm in zip(parts, paradigms, strict=True) if paradigm.phenomenon == name]
            )
            for name in phenomena
        ]
        for parts in accuracies
    ]
    tables = [
        _overall_table(columns, benchmarks, overall, accuracies),
        _phenomena_table(columns, phenomena, by_phenomenon),
        _paradigms_table(columns, paradigms, accuracies),
    ]
    figures = [
        _figure(model, columns, phenomena, by_phenomenon)
        for model in dict.fromkeys(column.model for column in columns)
    ]
    return Report(headline, tables, figures, _notes(paradigms, benchmarks))


def _is_sum(column: Column) -> bool:
    """One scorer for each reading: the one that the literature calls a sentence's score."""
    return column.scorer in SCORERS and SCORERS[column.scorer].reduction == "sum"


def _names(columns: Sequence[Column]) -> list[str]:
    several = len({column.model for column in columns}) > 1
    return [f"{column.model}: {column.scorer}" if several else column.scorer for column in columns]


def _overall_table(
    columns: Sequence[Column],
    benchmarks: Sequence[str],
    overall: Sequence[Sequence[Estimate]],
    accuracies: Sequence[Sequence[Accuracy]],
) -> Table:
    rows: list[Sequence[Cell]] = []
    for column, estimates, parts in zip(columns, overall, accuracies, strict=True):
        by_length = [
            column.accuracy(column.length == sign) if (column.length == sign).any() else None
            for sign in (-1, 0, 1)
        ]
        shares: list[Cell] = [part.value if part else None for part in by_length]
        rows.append(
            (column.model, column.scorer, column.title, *estimates, sum(part.ties for part in parts), *shares)
        )
    counts = ", ".join(
        f"{int((columns[0].length == sign).sum())} {word}"
        for sign, word in zip((-1, 0, 1), LENGTHS, strict=True)
    )
    note = (
        "Means over paradigms; chance is 0.5. Ties count half. The last three columns are shares of all"
        f" pairs, split by the good sentence's length in tokens against the bad one's ({counts}; by the first"
        " model's tokenizer)."
    )
    return Table(
        "Accuracy",
        ("model", "scorer", "what it is", *benchmarks, "ties", *(f"good one {word}" for word in LENGTHS)),
        rows,
        note,
    )


def _phenomena_table(
    columns: Sequence[Column], phenomena: Sequence[str], by_phenomenon: Sequence[Sequence[Estimate]]
) -> Table:
    rows: list[Sequence[Cell]] = [
        (name, *(estimates[row] for estimates in by_phenomenon)) for row, name in enumerate(phenomena)
    ]
    return Table(
        "By phenomenon", ("phenomenon", *_names(columns)), rows, "Means over each phenomenon's paradigms."
    )


def _paradigms_table(
    columns: Sequence[Column], paradigms: Sequence[Paradigm], accuracies: Sequence[Sequence[Accuracy]]
) -> Table:
    rows: list[Sequence[Cell]] = []
    for row, paradigm in enumerate(paradigms):
        parts = [column[row] for column in accuracies]
        widest = max((high - low) / 2 for low, high in (part.interval() for part in parts))
        ties = sum(part.ties for part, column in zip(parts, columns, strict=True) if column.scorer != SHORTER)
        rows.append(
            (
                paradigm.name,
                paradigm.phenomenon,
                len(paradigm.good),
                paradigm.equal,
                ties,
                widest,
                *(part.value for part in parts),
            )
        )
    names = (
        "paradigm",
        "phenomenon",
        "pairs",
        "equal, left out",
        "ties of all scorers",
        "half-width",
        *_names(columns),
    )
    return Table("By paradigm", names, rows, "Half-width: of the widest 95 % interval in the row.")


def _figure(
    model: str,
    columns: Sequence[Column],
    phenomena: Sequence[str],
    by_phenomenon: Sequence[Sequence[Estimate]],
) -> Figure:
    """One mark for each reading: its sum."""
    series = [Series("chance", phenomena, [0.5] * len(phenomena), style="reference")]
    for column, estimates in zip(columns, by_phenomenon, strict=True):
        if column.model == model and _is_sum(column):
            series.append(Series.of(column.scorer, phenomena, estimates))
    letters = "".join(letter if letter.isalnum() else f"-{ord(letter):x}-" for letter in model)
    note = "Sums over tokens; marks are means over paradigms with 95 % intervals."
    return Figure(
        f"phenomena-{letters}",
        f"{model}: accuracy by phenomenon",
        note,
        "accuracy",
        "",
        series,
        "categories",
        x_range=(0, 1),
    )


def _notes(paradigms: Sequence[Paradigm], benchmarks: Sequence[str]) -> list[str]:
    notes = []
    for name in benchmarks:
        of_it = [paradigm for paradigm in paradigms if paradigm.benchmark == name]
        pairs, equal = (
            sum(len(paradigm.good) for paradigm in of_it),
            sum(paradigm.equal for paradigm in of_it),
        )
        left = f"; {equal} pairs of equal sentences are left out" if equal else ""
        notes.append(f"{name}: {len(of_it)} paradigms, {pairs} pairs{left}.")
    notes.append(
        "Intervals are for other pairs of these same paradigms. Published BLiMP numbers are means over all 67"
        " paradigms: compare with them only when all are here."
    )
    return notes
