"""Published numbers, as a table's further columns. Each says where it was printed and how it was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from electra.foundation.config import build, read_toml

FILE = Path(__file__).with_name("published.toml")


@dataclass(frozen=True)
class Column:
    title: str
    source: str
    how: str
    scores: dict[str, float]
    """In points, as printed."""
    other_examples: bool = False
    """Measured on other examples than the whole files have: beside those it stands in parentheses."""

    def score(self, name: str, metric: str, first: bool) -> float | None:
        """As a share. `first`: the metric is the one that a bare task name stands for."""
        points = self.scores.get(f"{name}.{metric}", self.scores.get(name) if first else None)
        return None if points is None else round(points / 100, 6)


@dataclass(frozen=True)
class Published:
    column: tuple[Column, ...]


@cache
def columns() -> tuple[Column, ...]:
    return build(Published, read_toml(FILE), where=FILE.name).column


def columns_for(names: Sequence[str]) -> list[Column]:
    """Those that have a number for any of these tasks."""
    return [column for column in columns() if any(key.split(".")[0] in names for key in column.scores)]
