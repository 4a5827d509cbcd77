"""What a reader of labelled data returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Example:
    id: str  # the file's own, else the row's number from 0
    where: str  # file:line
    texts: tuple[str, ...]  # one text, two texts, the words of a sentence, ...
    gold: Any = None  # the answer as the file has it; None when there is none
    row: Mapping[str, Any] = field(default_factory=dict, compare=False)  # all the file says of it, by column
    spans: tuple[tuple[int, int], ...] = ()  # of words that were split from a text: where they stand in it


Examples = tuple[Example, ...]


@dataclass(frozen=True)
class Split:
    """The examples of one file."""

    examples: Examples
    dropped: int = 0  # malformed rows left out, where the task allows it
    notes: tuple[str, ...] = ()  # what else was done to the file, to be reported
