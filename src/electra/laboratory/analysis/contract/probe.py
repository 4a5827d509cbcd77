"""What a probe is: a question about models, the data it needs, and how it finds them.

class Probe(contract.Probe):
    title, question, version = "Calibration", "Is P(replaced) a probability?", 1
    source = "Guo et al. 2017"
    needs = ("discriminator", "generator")

    def inputs(self) -> tuple[Input, ...]: ...
    def run(self, models, data, progress) -> Findings: ...
"""

import fnmatch
import glob
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, ClassVar

from electra.data.corpus.folders import walk_folders
from electra.data.tables.lines import COMPRESSIONS
from electra.foundation.errors import DataError
from electra.foundation.progress import Progress
from electra.laboratory.analysis.contract.findings import Findings
from electra.laboratory.analysis.contract.studied_models import Network, StudiedModel

Data = Mapping[str, Sequence[Path]]
"""The files found for each input's key. The key of an optional input that was not found is absent."""


class ProbeDataError(DataError):
    """Data that a probe needs are missing or cannot be used."""


@dataclass(frozen=True)
class Input:
    """Data that a probe looks for under --data.

    Files named there take precedence over folders. The first of the `patterns` that matches any file is used,
    with all its matches; links to a file and compressed copies of it are left out.
    """

    key: str
    what: str
    """Name of the data, for the message if they are missing."""
    patterns: tuple[str, ...]
    """Globs: "ged/fce*/dev.tsv*" anywhere below a folder, "./dev.tsv*" directly in it."""
    required: bool = True

    def find(self, roots: Sequence[Path]) -> list[Path]:
        """Returns the matching files below these roots; [] if there are none."""
        named_files = [root for root in roots if root.is_file()]
        for places in (named_files, [root for root in roots if root not in named_files]):
            for pattern in self.patterns:
                if matches := _distinct([path for root in places for path in _matches(root, pattern)]):
                    return matches
        return []


def _matches(root: Path, pattern: str) -> list[Path]:
    name = PurePath(pattern).name
    if root.is_file():  # named by the user, so its own name decides
        return [root] if PurePath(root.name).match(name) else []
    folders = [root] if pattern.startswith("./") else walk_folders(root)
    paths = (folder / found for folder in folders for found in glob.glob(pattern, root_dir=folder))
    if name.endswith("*"):  # stands for .gz and the like, not for .bak
        paths = (path for path in paths if fnmatch.fnmatch(_unpacked(path).name, name[:-1]))
    return [path for path in paths if path.is_file()]


def _unpacked(path: Path) -> Path:
    return path.with_suffix("") if path.suffix in COMPRESSIONS else path


def _distinct(paths: Sequence[Path]) -> list[Path]:
    by_target: dict[Path, Path] = {}
    for path in sorted(paths, key=lambda path: (path.suffix in COMPRESSIONS, path)):
        by_target.setdefault(_unpacked(path.resolve()), path)
    return sorted(by_target.values())


@dataclass(frozen=True)
class Probe(ABC):
    """Base class of all probes.

    The file of a probe defines a subclass named `Probe`, and a frozen dataclass `Config` with defaults for
    all options.
    """

    config: Any = field()

    title: ClassVar[str]
    question: ClassVar[str]
    """The question that the numbers answer, in plain words."""
    source: ClassVar[str]
    """Where the method, the data or the question comes from."""
    version: ClassVar[int]
    """Increase it whenever a change alters a number."""
    needs: ClassVar[tuple[Network, ...]]
    """The networks that every model must have. `model.optional(network)` gives others where they exist."""
    scales: ClassVar[Mapping[str, tuple[float, float]]] = {}
    """Headline number -> its value for a constant scorer, and for a perfect one."""

    @property
    def optional_networks(self) -> tuple[Network, ...]:
        """Networks of which any one suffices, instead of `needs`, for each model after the first."""
        return ()

    @abstractmethod
    def inputs(self) -> tuple[Input, ...]:
        """Returns the data that the probe looks for."""

    @abstractmethod
    def run(self, models: Sequence[StudiedModel], data: Data, progress: Progress) -> Findings:
        """Runs the probe on the model under study and those it is compared with.

        `data` has the files of each input, by its key; `progress` receives the current activity and the
        fraction done.
        """

    def find(self, roots: Sequence[Path]) -> dict[str, list[Path]]:
        """Returns the files of each input that has any, by key; ProbeDataError if a required one has none."""
        files = {item.key: item.find(roots) for item in self.inputs()}
        for item in self.inputs():
            if item.required and not files[item.key]:
                problem = f"no {item.what} found ({' or '.join(item.patterns)})"
                where = ", ".join(map(str, roots)) or "data"
                raise ProbeDataError(problem, where=where, fix="Pass the folder that holds it")
        return {key: paths for key, paths in files.items() if paths}
