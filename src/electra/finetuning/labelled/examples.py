"""The examples that readers of labelled data return."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from electra.data.tables.lines import Place


@dataclass(frozen=True)
class Example:
    """One row of a file: its texts and its gold answer."""

    id: str  # from the file, else the row's index
    where: Place | str  # for messages
    texts: tuple[str, ...]  # a text, a pair of texts, or the words of a sentence
    gold: Any = None  # the answer as in the file; None if there is none
    row: Mapping[str, Any] = field(default_factory=dict, compare=False)  # all columns of the row
    spans: tuple[tuple[int, int], ...] = ()  # (start, end) of each word in the text; () if given as words


Examples = tuple[Example, ...]


@dataclass(frozen=True)
class Split:
    """The examples of one file."""

    examples: Examples
    num_dropped: int = 0  # number of malformed rows left out, if the task allows it
    notes: tuple[str, ...] = ()  # how the file was read, reported to the user
    text_columns: tuple[str, ...] = ()  # names of the columns of a table that the texts were read from
    label_column: str = ""  # the column of the answers
    unread: tuple[str, ...] = ()  # the other columns of a table, those of texts first
    unread_texts: int = 0  # how many of these have texts
    remembered: Mapping[str, Any] = field(default_factory=dict)  # fields of the task that reads other files
