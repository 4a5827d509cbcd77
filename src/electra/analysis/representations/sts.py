"""Pairs of sentences that people have judged for likeness, GLUE's STS-B, and what the probes have in common
that read them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from electra.analysis import contract
from electra.analysis.contract import Data, Findings, Input, Model, ProbeDataError, Progress
from electra.analysis.representations.encoders import Named, encoders_of
from electra.analysis.texts.reading import cells, sample

Pair = tuple[str, str, float]
"""Two sentences and their score."""
PAIRS = Input("pairs", "STS-B dev file", ("sts-b/dev.tsv*", "STS-B/dev.tsv*", "*sts*dev*.tsv*", "dev.tsv*"))
COLUMNS = ("sentence1", "sentence2", "score")


@dataclass(frozen=True)
class PairsConfig:
    sentences: int = 0
    """Pairs of sentences to judge (0: all)."""
    resamples: int = 500
    """Bootstrap samples of the pairs."""
    untrained: bool = True
    """Look at an untrained encoder too."""


class PairsProbe(contract.Probe):
    """Subclasses answer in `look`. Their `Config` is a `PairsConfig`."""

    needs = ("encoder",)

    def inputs(self) -> tuple[Input, ...]:
        return (PAIRS,)

    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Findings:
        encoders = encoders_of(models, self.config.untrained)
        return self.look(
            encoders,
            sample([pair for path in data["pairs"] for pair in read_pairs(path)], self.config.sentences),
            progress,
        )

    @abstractmethod
    def look(self, encoders: Sequence[Named], pairs: Sequence[Pair], progress: Progress) -> Findings:
        """Ask. `encoders[0]` is MODEL's; the untrained one, where it is asked for, is the last."""


def read_pairs(path: Path) -> list[Pair]:
    """The pairs of GLUE's file, whose first line names the columns."""
    rows = cells(path, 3)
    where, names = next(rows, (str(path), []))
    if not set(COLUMNS) <= set(names):
        raise ProbeDataError(
            f"its first line does not name the columns {', '.join(COLUMNS)}",
            where=where,
            fix="Give GLUE's STS-B dev.tsv",
        )
    places = [names.index(column) for column in COLUMNS]
    found = []
    for where, row in rows:
        try:
            first, second, score = (row[place] for place in places)
            found.append((first, second, float(score)))
        except (IndexError, ValueError):
            raise ProbeDataError("not two sentences and a number", where=where) from None
    if len(found) < 2:
        raise ProbeDataError("fewer than two pairs of sentences", where=path)
    return found
