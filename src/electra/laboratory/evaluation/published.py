"""Published numbers, shown as further columns of a table with their sources and how they were measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from electra.foundation.config import build, read_toml

FILE = Path(__file__).with_name("published.toml")


@dataclass(frozen=True)
class Column:
    """The published scores of one model."""

    title: str
    source: str
    how: str
    """How the scores were measured: split, number of seeds, model size."""
    scores: dict[str, float]
    """Task or average, or "task.metric" -> points, as printed."""
    other_examples: bool = False
    """Whether it was measured on examples other than those of the complete files; shown in parentheses."""

    def score(self, name: str, metric: str, primary: bool) -> float | None:
        """Returns the score as a share; None if it is not published.

        `name` is a task. `primary`: whether `metric` is the one that a bare task name stands for.
        """
        points = self.scores.get(f"{name}.{metric}", self.scores.get(name) if primary else None)
        return None if points is None else round(points / 100, 6)


@dataclass(frozen=True)
class Published:
    """The contents of published.toml."""

    column: tuple[Column, ...]


@cache
def columns() -> tuple[Column, ...]:
    """Returns all published columns."""
    return build(Published, read_toml(FILE), where=FILE.name).column


def columns_for(names: Sequence[str]) -> list[Column]:
    """Returns the columns with a number for any of these tasks or averages."""
    return [column for column in columns() if any(key.split(".")[0] in names for key in column.scores)]
