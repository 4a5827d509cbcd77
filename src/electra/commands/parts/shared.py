"""Options that several commands have, each declared once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from electra.commands.framework.command import Command, OnCommandLine, Source
from electra.commands.framework.display import display_for
from electra.commands.results.artifact import checked_path
from electra.foundation.machine import OnDevice
from electra.foundation.options import given_name

if TYPE_CHECKING:
    from electra.commands.results.model import Model

Backend = Literal["torch", "onnx"]
Texts = Annotated[Source | Iterable[str], OnCommandLine(str)]
"""A text, a file of texts, or "-"; in Python also several texts."""


@dataclass(frozen=True, kw_only=True)
class OnBackend(OnDevice):
    """What a model runs on."""

    HEADING: ClassVar[str] = "Where it runs"

    backend: Backend = "torch"
    """What runs the model: onnx for a folder made by electra export --format onnx, on the CPU."""


@dataclass(frozen=True)
class OnTexts(OnBackend):
    """A model and the texts it is applied to."""

    model: Source
    """A run folder, a model folder, or a name on the hub."""
    texts: Texts
    """A text, or a file of texts: one per line, or in a column of a csv, tsv, jsonl or parquet file; - reads
    lines from standard input. In Python also several texts.
    """
    _: KW_ONLY
    text_column: str = "text"
    """The column of a table that has the texts."""


@dataclass(frozen=True, kw_only=True)
class Processes:
    """How many processes train."""

    processes: int = 1
    """Processes on this machine that share each batch, one per GPU. On a CPU, threads do as well. Across
    machines, use torchrun.
    """


@dataclass(frozen=True, kw_only=True)
class Workers:
    """How many processes encode."""

    workers: int | None = None
    """Processes that encode the corpus (default: all cores)."""


@dataclass(frozen=True)
class Reshape(Command["Model"], group="Train", examples=()):
    """A model from which another of a different shape is made."""

    model: Source
    """A run, a pair of networks (both are written), a model folder or a hub name; not a fine-tuned model."""
    _: KW_ONLY
    out: Source
    """The folder to write. It must be new, or contain only exported models."""

    def reshape(self, write: Callable[[str, Path, int], Iterable[str]], size: int) -> Model:
        """Calls `write(model, out, size)`, shows the lines it yields, and returns the model in `out`."""
        from electra.commands.results.model import load

        with display_for(self.progress) as display:
            for line in write(given_name(self.model, "model"), checked_path(self.out, "out"), size):
                display.say(line)
        return load(self.out)
