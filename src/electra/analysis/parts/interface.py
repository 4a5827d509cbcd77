"""The contract between a probe and whatever runs it.

A probe asks models one question about data and answers in a `Report`: tables, figures and headline numbers,
all plain data. The report is written as JSON, and the page is drawn from the JSON alone
(`electra.report.probes`, which runs without torch), so every number on the page can be found in the file.

    class Probe(interface.Probe):
        title, question, source, version = "Calibration", "Is P(replaced) a probability?", "Guo et al. 2017",
        1 needs = ("discriminator", "generator")

        def inputs(self) -> tuple[Input, ...]: ...
        def run(self, models, data, progress) -> Report: ...
"""

from __future__ import annotations

import fnmatch
import glob
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from electra.data.folders import folders_below
from electra.data.sources import COMPRESSIONS
from electra.errors import ElectraError

if TYPE_CHECKING:
    from electra.analysis.parts.models import Model

Network = Literal["discriminator", "generator", "encoder"]
Progress = Callable[[str, float], None]
"""Told what is being done and which share of it is done, from 0 to 1."""
Data = Mapping[str, Sequence[Path]]
"""The files found for each input's key. The key of an optional input that was not found is absent."""


class ProbeDataError(ElectraError):
    """Data that a probe needs and does not find, or cannot use."""


@dataclass(frozen=True)
class Estimate:
    """A measured number with its 95 % interval (None where there is none)."""

    value: float | None
    low: float | None = None
    high: float | None = None


Cell = str | int | float | Estimate | None


@dataclass(frozen=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    """How to read it, in a sentence."""


@dataclass(frozen=True)
class Series:
    """One line, one set of points, or one row of a matrix. `low` and `high` are the ends of the intervals."""

    label: str
    x: Sequence[float] | Sequence[str]
    y: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    style: Literal["line", "points", "reference"] = "line"
    """reference: what knowing nothing, or knowing all, would give."""

    @classmethod
    def of(
        cls,
        label: str,
        x: Sequence[float] | Sequence[str],
        found: Sequence[Estimate],
        style: Literal["line", "points"] = "line",
    ) -> Series:
        """Estimates with their intervals."""
        return cls(label, x, [e.value for e in found], [e.low for e in found], [e.high for e in found], style)


@dataclass(frozen=True)
class Figure:
    """What to draw; `report.charts` knows how.

    lines: numbers against numbers. categories: a horizontal row for each name in `x`, a mark for each series.
    matrix: a series is a row, its `x` are the columns.
    """

    name: str  # of its file: letters, digits and hyphens
    title: str
    note: str
    x: str
    y: str
    series: Sequence[Series]
    kind: Literal["lines", "categories", "matrix"] = "lines"
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Report:
    """A probe's answer. `headline`: the few numbers that say most, of the first model; `--over-training`
    follows them.
    """

    headline: Mapping[str, Estimate]
    tables: Sequence[Table]
    figures: Sequence[Figure] = ()
    notes: Sequence[str] = ()
    """What a reader must know to read the numbers right: how much data, what was left out, what the intervals
    allow.
    """

    def to_json(self) -> dict[str, Any]:
        plain = {
            "headline": self.headline,
            "tables": self.tables,
            "figures": self.figures,
            "notes": self.notes,
        }
        encoded: dict[str, Any] = as_json(plain)
        return encoded


def as_json(value: Any) -> Any:
    """Dataclasses as objects, arrays and tuples as lists, numbers of numpy as Python's, what is not finite as
    null.
    """
    if hasattr(value, "__dataclass_fields__"):
        return {name: as_json(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return {str(key): as_json(inner) for key, inner in value.items()}
    if isinstance(value, str | bool) or value is None:
        return value
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(value, "tolist"):  # numpy's arrays and scalars
        return as_json(value.tolist())
    if isinstance(value, Sequence):
        return [as_json(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    assert isinstance(value, int | float), f"{type(value).__name__} in a report"
    return value


@dataclass(frozen=True)
class Input:
    """Data that a probe looks for under --data. A file that is itself named there comes before folders; then
    of the `patterns` the first that matches any file counts, and all its matches: each once, however many
    ways lead to it and whether or not it is compressed.
    """

    key: str
    what: str  # in words, for who has to provide it
    patterns: tuple[str, ...]  # globs: "ged/fce*/dev.tsv*" anywhere below a folder, "./dev.tsv*" right in it
    required: bool = True

    def find(self, roots: Sequence[Path]) -> list[Path]:
        named = [root for root in roots if root.is_file()]
        for among in (named, [root for root in roots if root not in named]):
            for pattern in self.patterns:
                if found := _once([path for root in among for path in _matches(root, pattern)]):
                    return found
        return []


def _matches(root: Path, pattern: str) -> list[Path]:
    if root.is_file():  # the user names the file: its own name decides
        return [root] if PurePath(root.name).match(PurePath(pattern).name) else []
    folders = [root] if pattern.startswith("./") else folders_below(root)
    found = (folder / name for folder in folders for name in sorted(glob.glob(pattern, root_dir=folder)))
    return sorted(path for path in found if path.is_file() and _ends_as(path.name, PurePath(pattern).name))


def _ends_as(name: str, pattern: str) -> bool:
    """Whether what a pattern's last * stands for is a compression ("dev.conllu*": dev.conllu.gz, and not
    dev.conllu~).
    """
    plain = name.removesuffix(PurePath(name).suffix) if PurePath(name).suffix in COMPRESSIONS else name
    return not pattern.endswith("*") or fnmatch.fnmatch(plain, pattern[:-1])


def _once(paths: Sequence[Path]) -> list[Path]:
    """Without a file's further names: other roots, links, a compressed copy beside it."""
    by_name: dict[Path, Path] = {}
    for path in sorted(paths, key=lambda path: path.suffix in COMPRESSIONS):
        real = path.resolve()
        by_name.setdefault(real.with_suffix("") if real.suffix in COMPRESSIONS else real, path)
    return sorted(by_name.values())


@dataclass(frozen=True)
class Probe(ABC):
    """Subclass as `Probe` in one file, beside a frozen dataclass `Config` with a default for every option."""

    config: Any = field()

    title: ClassVar[str]
    question: ClassVar[str]
    """In plain words: what the numbers answer."""
    source: ClassVar[str]
    """Who asked, and where the method comes from."""
    version: ClassVar[int]
    """Goes up whenever a change alters a number."""
    needs: ClassVar[tuple[Network, ...]]
    """The networks that every model must have. What is only wanted, `model.optional(network)` gives."""
    scales: ClassVar[Mapping[str, tuple[float, float]]] = {}
    """Headline numbers that have a scale: what a scorer gets that says the same of everything, and what a
    perfect one gets.
    """

    @property
    def beside(self) -> tuple[Network, ...]:
        """A model that is compared with the first may take part with any one of these instead."""
        return ()

    @abstractmethod
    def inputs(self) -> tuple[Input, ...]:
        """The data it looks for."""

    @abstractmethod
    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Report:
        """Ask. `models[0]` is the model that is asked about, the others are what it is compared with."""

    def find(self, roots: Sequence[Path]) -> dict[str, list[Path]]:
        """The files of each input; raises when a required one is absent."""
        found = {wanted.key: wanted.find(roots) for wanted in self.inputs()}
        for wanted in self.inputs():
            if wanted.required and not found[wanted.key]:
                told = " or ".join(wanted.patterns)
                raise ProbeDataError(
                    f"no {wanted.what} here ({told})",
                    where=", ".join(map(str, roots)) or "--data",
                    fix="Give its folder",
                )
        return {key: paths for key, paths in found.items() if paths}
