"""What several commands share: options, each declared once, and the base of those that pre-train."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from typing_extensions import override

from electra.commands.framework.command import Command, Sections
from electra.data.text_settings import AllowUnknown
from electra.foundation.display import ProgressOption, display_for
from electra.foundation.errors import ConfigError
from electra.foundation.machine import Backend, OnDevice
from electra.foundation.options import OnCommandLine, Source, Sources, as_names, checked_path
from electra.foundation.progress import doing
from electra.foundation.signals import interrupt_on_signal
from electra.training.request import Request, TrainingText, recipe_sections

if TYPE_CHECKING:
    from electra.commands.results.result_folders import Run

Texts = Annotated[Source | Iterable[str], OnCommandLine(str)]
"""A text, a file or folder of texts, or "-"; in Python also several texts."""


@dataclass(frozen=True, kw_only=True)
class OnBackend(OnDevice):
    """The options that say what runs a model."""

    HEADING: ClassVar[str] = "Device"

    backend: Backend = "torch"
    """What runs the model: onnx for a folder made by electra export --format onnx, on the CPU."""


@dataclass(frozen=True)
class OnTexts(AllowUnknown, OnBackend):
    """The options of a command that applies a model to texts."""

    ADVICE: ClassVar[Mapping[str, str]] = {
        "": "Pass one text; several are lines of a file, or of standard input with -."
    }

    model: Source
    """A run folder, a model folder, a name on the hub, or one that comes with the package (tiny-en,
    small-en).
    """
    texts: Texts
    """A text, or a file of texts: one per line, or in a column of a csv, tsv, jsonl or parquet file; - reads
    lines from standard input. hOCR, ALTO, PAGE and DjVu XML are read by paragraph, CoNLL by sentence, a
    folder file by file. In Python, also several texts.
    """
    _: KW_ONLY
    text_column: str = "text"
    """The table column that contains the texts."""
    keep_hyphens: bool = False
    """Join no words that are divided at the ends of lines of a scan or a .txt file (default: join those that
    the text or the model knows; a note counts them).
    """


@dataclass(frozen=True, kw_only=True)
class Workers:
    """The option that sets how many processes encode."""

    workers: int | None = None
    """Number of processes that encode the corpus (default: all cores)."""


def target_of(out: Source | None, formats: Sequence[str], texts: Texts) -> Path | None:
    """Returns the file to write, or the folder if it has no `formats`.

    Raises ConfigError if it has another format, or is one of the texts or in their folder.
    """
    if out is None:
        return None
    path = checked_path(out, "out")
    if formats and path.suffix.lower() not in formats:
        problem, fix = f"unrecognised file extension {path.suffix!r}", f"Use one of {', '.join(formats)}"
        raise ConfigError(problem, where=path, fix=fix)
    several = texts if isinstance(texts, list | tuple) else [texts]
    named = [each for each in several if isinstance(each, os.PathLike) or each is texts]
    files = [each for each in named if isinstance(each, str | os.PathLike) and os.path.exists(each)]
    if any(Path(os.path.realpath(path)).is_relative_to(os.path.realpath(each)) for each in files):
        problem = "is the file of the texts, or in their folder"
        raise ConfigError(problem, key="out", fix="Choose another name")
    return path


Overrides = Annotated[
    Mapping[str, Any] | None,
    Sections(recipe_sections, {"objective": "objective.name", "tokenizer": "tokenizer.source"}),
]


def train(requested: Callable[[], Request], progress: ProgressOption) -> Run:
    """Trains what a command requests, and returns the run; a time budget counts from now."""
    from electra.commands.results.result_folders import Run

    began = time.monotonic()
    with display_for(progress) as display:
        doing("loading torch")
        from electra.training.assemble import train_run

        request = requested()
        train_run(replace(request, began=began), display.say)
    return Run(request.out)


@dataclass(frozen=True, kw_only=True)
class PretrainingCommand(AllowUnknown, Workers, Command["Run"]):
    """A command that trains with a recipe on text or on a store."""

    out: Source
    """The run folder. Rerun the command to resume a stopped run."""
    budget: str | None = None
    """How much to spend: 30m, 2e16flops, 50Mtokens or 5000steps (default: the recipe's)."""

    def request(self) -> Request:
        """Returns what is trained. Raises ConfigError for an invalid setting."""
        raise NotImplementedError

    @override
    def run(self) -> Run:
        return train(self.request, self.progress)

    @override
    def preview(self) -> None:
        """Print what would be trained, how long it would take and what it needs, without training."""
        with display_for(self.progress) as display, interrupt_on_signal("the plan"):
            doing("loading torch")
            from electra.training.assemble import preview

            preview(self.request(), display.say)

    def text(self, data: Sources, store: str | None) -> TrainingText:
        """Returns what to train on. Raises ConfigError for both text and a store, or neither."""
        from electra.artifacts.store_files import DOCUMENTS_SUFFIX, StoreFolder

        sources = as_names(data, "data")
        if store is not None and sources:
            raise ConfigError("both `store` and other data were passed", fix="Pass only one of them")
        if store is None and len(sources) == 1:
            name = sources[0]
            if StoreFolder.is_at(Path(name)) or name.endswith(DOCUMENTS_SUFFIX):
                store, sources = name, []
        if store is None and not sources:
            raise ConfigError("neither text nor a store was passed", fix=f"For example: {self.EXAMPLES[0]}")
        return TrainingText(tuple(sources), store, self.workers, self.allow_unknown)
