"""What a probe is: a question about models, the data it needs, and how it finds them; and how it is run.

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
from typing import Any, ClassVar, NamedTuple

from electra.artifacts.evaluation_files import AnalysisFolder
from electra.data.corpus import unknown
from electra.data.corpus.folders import walk_folders
from electra.data.tables.lines import COMPRESSIONS
from electra.foundation import durable
from electra.foundation.config import differences
from electra.foundation.errors import ConfigError, DataError, ModelError
from electra.foundation.extensions import PROBES
from electra.foundation.progress import Progress
from electra.laboratory.analysis.contract.findings import Findings, as_json
from electra.laboratory.analysis.contract.studied_models import Network, StudiedModel

FORMAT = 2  # version of the JSON files
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


class ProbeOutcome(NamedTuple):
    """Where the record of a probe is, and why it was written or reused."""

    path: Path
    reused: bool  # an earlier command wrote the record, so that the probe was not run again
    notes: Sequence[str]  # a line on each model that could not take part, or knows few of the tokens
    changed: Sequence[str] = ()  # the keys that differ from the record that it replaces, if any


def run_probe(
    name: str,
    probe: Probe,
    models: Sequence[StudiedModel],
    data: Data,
    out: Path,
    *,
    progress: Progress,
    allow_unknown: bool = False,
) -> ProbeOutcome:
    """Runs a probe and writes OUT/NAME.probe.json, unless that file already answers the same request.

    `name` is the probe's name or its file; `models` begin with the one under study; `data` has the files of
    each input. Raises TokenizerError for too many unknown tokens, unless `allow_unknown`; ModelError
    if the first model lacks a network or a source is not a model; DataError for data that cannot be used.
    """
    path = AnalysisFolder(out).probe(PROBES.canonical_name(name))
    models, notes = usable_models(probe, models)
    request = {
        "probe": PROBES.canonical_name(name),
        **PROBES.identity(name),
        "version": probe.version,
        "options": as_json(vars(probe.config)),
        "data": {
            key: [{"file": p.name, "folder": p.parent.name, "sha256": durable.sha256(p)} for p in paths]
            for key, paths in data.items()
        },
    }
    previous = _previous_record(path)
    changed = [key for key, *_ in differences({key: previous.get(key) for key in request}, as_json(request))]
    recorded = previous.get("models", [])
    same_models = len(recorded) == len(models) and all(map(StudiedModel.matches_record, models, recorded))
    if same_models and not changed:
        return ProbeOutcome(path, reused=True, notes=notes)
    for loaded in (each for model in models for each in model.used.values()):
        loaded.tokenizer.counted = unknown.Count()
    findings = probe.run(models, data, progress)
    for model in models:
        counted = (unknown.note(loaded.tokenizer, allow_unknown) for loaded in model.used.values())
        notes += [f"{model.name}: {line}" for line in [*filter(None, counted)][:1]]
    for key, paths in data.items():
        if len(folders := sorted({path.parent.name for path in paths})) > 1:  # which may be unintended
            note = f"{key}: files of several folders are read together ({', '.join(folders)})."
            findings.notes.append(note)
    findings.notes += notes
    record = {
        "format": FORMAT,
        **request,
        "title": probe.title,
        "question": probe.question,
        "source": probe.source,
        "models": [model.describe() for model in models],
        **findings.to_json(),
    }
    durable.commit_json(path, record)
    changed = (changed or ["models"]) if previous else []
    return ProbeOutcome(path, reused=False, notes=notes, changed=changed)


def usable_models(probe: Probe, models: Sequence[StudiedModel]) -> tuple[list[StudiedModel], list[str]]:
    """Returns the models that the probe can use (ModelError if not the first), and a line on each other."""
    usable, left_out = [], []
    for model in models:
        try:
            if model is models[0] or not any(map(model.optional, probe.optional_networks)):
                for network in probe.needs:
                    model.network(network)
            usable.append(model)
        except ModelError as error:
            if model is models[0]:
                raise
            model.network("encoder")  # raises if the source is not a model at all
            left_out.append(f"{model.name} was left out: {error.what}.")
    return usable, left_out


def _previous_record(path: Path) -> dict[str, Any]:
    try:
        record = durable.read_json(path, ConfigError)
    except ConfigError:
        return {}
    return record if isinstance(record, dict) else {}
