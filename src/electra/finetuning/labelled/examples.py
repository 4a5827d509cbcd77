"""The examples that readers of labelled data return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Example:
    """One row of a file: its texts and its gold answer."""

    id: str  # from the file, else the row's number from 0
    where: str  # file:line
    texts: tuple[str, ...]  # a text, a pair of texts, or the words of a sentence
    gold: Any = None  # the answer as in the file; None if there is none
    row: Mapping[str, Any] = field(default_factory=dict, compare=False)  # all columns of the row
    spans: tuple[tuple[int, int], ...] = ()  # offsets of words in the text they were split from; else ()


Examples = tuple[Example, ...]


@dataclass(frozen=True)
class Split:
    """The examples of one file."""

    examples: Examples
    dropped: int = 0  # malformed rows left out, if the task allows it
    notes: tuple[str, ...] = ()  # how the file was read, reported to the user
