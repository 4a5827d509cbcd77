"""Options that several commands have, each declared once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, ClassVar, Literal

from electra.data.settings import AllowUnknown
from electra.foundation.machine import OnDevice
from electra.foundation.options import OnCommandLine, Source

Backend = Literal["torch", "onnx"]
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
