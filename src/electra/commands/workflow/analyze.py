"""Models + probes -> Analysis: what pre-training has taught, with intervals."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.artifacts.evaluation import AnalysisFolder
from electra.commands.workflow.artifact import Artifact, Source, given_path, several
from electra.commands.workflow.display import Display, Told, display_for
from electra.commands.workflow.prepare import sources
from electra.commands.workflow.rows import Rows
from electra.foundation.errors import ConfigError, ElectraError
from electra.foundation.extensions import trust
from electra.foundation.machine import Device

if TYPE_CHECKING:
    from electra.artifacts.session import Session
    from electra.laboratory.analysis.contract.inputs import Data
    from electra.laboratory.analysis.contract.models import Model
    from electra.laboratory.analysis.contract.probe import Probe


class Analysis(Artifact[AnalysisFolder]):
    """A folder made by `analyze`."""

    FOLDER = AnalysisFolder

    @property
    def records(self) -> dict[str, Any]:
        """What each probe found, by its name, as its JSON file has it."""
        return self.folder.record

    @property
    def headline(self) -> Rows:
        """One row a number: probe, measure, value, and the ends of its 95 % interval (low, high)."""
        return Rows(
            {"probe": name, "measure": measure, **(found if isinstance(found, dict) else {"value": found})}
            for name, record in self.records.items()
            for measure, found in record.get("headline", {}).items()
        )


def analyze(
    models: Source | Sequence[Source],
    *,
    out: Source,
    probes: str | Sequence[str] = ("all",),
    data: Source | Sequence[Source] = (),
    options: str | Sequence[str] = (),
    over_training: bool = False,
    device: Device = "auto",
    progress: Told = None,
) -> Analysis:
    """Ask models what they know, in the folder `out`. The answer of a probe that was asked the same before is
    kept; asked otherwise, it is replaced.

    models: one, or several to compare the first with: Runs, Models, folders or hub names.
    probes: names of probes or .py files; "all": every one whose data and networks are there.
    data: files and folders that hold the probes' data, found by name.
    options: "key=value", or "PROBE.key=value".
    over_training: follow the probes over the checkpoints of a run.

    Raises ConfigError, ProbeDataError where a named probe's data are missing, ModelError, RunFolderError
    where `out` is in use or holds something else, and Interrupted when asked to stop: after the probe at
    hand; the same call resumes.
    """
    from electra.exchange.source import locate
    from electra.laboratory.analysis.contract import named_models
    from electra.model.precision import pick_device

    folder, given = given_path(out, "out"), sources(models)
    roots = [Path(root) for root in sources(data)]
    probes = several(probes, "probes")
    trust(*probes)
    every = not probes or "all" in probes
    chosen = _chosen(probes, several(options, "options"), every)
    missing = next((root for root in roots if not root.exists()), None)
    if missing is not None:
        raise ConfigError("no such file or folder", where=missing, fix="Check `data`")
    if over_training and given[1:]:
        raise ConfigError("follows one run, not several", key="over_training", fix="Call it once for each")
    for source in given:
        locate(source)  # a wrong name is one error, not one for each probe
    named = named_models(given, pick_device(device))
    ready, left_out = _askable(chosen, [] if over_training else named, roots, every)
    with display_for(progress) as display:
        if not ready:
            for line in left_out:
                display.say(line)
            raise _none_left(folder)
        with AnalysisFolder(folder).session(say=display.say) as session:
            for line in left_out:
                session.say(line)
            _ask(ready, named, session, display, over_training=over_training, every=every)
    return Analysis(folder)


def _chosen(probes: Sequence[str], options: Sequence[str], every: bool) -> dict[str, Probe]:
    """The probes by name, each with its options."""
    from electra.laboratory import analysis

    names = analysis.names() if every else list(dict.fromkeys(probes))
    return {name: analysis.create(name, of) for name, of in analysis.options_for(names, options).items()}


def _ask(
    ready: Mapping[str, tuple[Probe, Data]],
    models: Sequence[Model],
    session: Session,
    display: Display,
    *,
    over_training: bool,
    every: bool,
) -> None:
    """One probe after the other, then the page. Where `every` one is asked, one that fails is left out."""
    from electra.laboratory.analysis.contract.record import run_probe
    from electra.pages.probes import headline, read_record, write_page

    folder, done = session.folder.path, 0
    for name, (probe, found) in ready.items():
        if session.stopping():
            if session.folder.exists():
                write_page(folder)  # of what is done so far
            session.interrupt()
        began = time.monotonic()
        told = lambda what, share, name=name: display.progress(f"{name}: {what}", share)  # noqa: E731
        try:
            answered = run_probe(
                name, probe, models, found, folder, progress=told, over_training=over_training
            )
        except ElectraError as problem:
            if not every:
                raise
            session.say(f"{name}: left out, {problem}")
            continue
        done += 1
        for line in answered.left_out:
            session.say(f"{name}: {line}")
        if answered.changed:
            session.say(f"{name}: replaces another answer ({', '.join(answered.changed)} differed)")
        seconds = f"{time.monotonic() - began:.0f} s"
        took = "reused: asked before, with the same options, data and weights" if answered.kept else seconds
        session.say(f"{name}: {answered.path} ({took})")
        if numbers := headline(read_record(answered.path)):
            session.say(f"{name}: {numbers}")
    if not done:
        raise _none_left(folder)
    session.say(f"page: {write_page(folder)}")


def _none_left(out: Path) -> ConfigError:
    fix = "Name one with `probe` to see what it needs"
    return ConfigError("no probe could be run", where=out, fix=fix)


def _askable(
    probes: Mapping[str, Probe], models: Sequence[Model], roots: Sequence[Path], every: bool
) -> tuple[dict[str, tuple[Probe, Data]], list[str]]:
    """The probes that have their data and networks, with these data, and a line on each other one; where not
    `every` one was asked for, its error. So a folder is taken only for what can be asked.
    """
    from electra.laboratory.analysis.contract.record import able

    ready: dict[str, tuple[Probe, Data]] = {}
    left_out = []
    for name, probe in probes.items():
        try:
            found = probe.find(roots)
            if models:
                able(probe, models)
        except ElectraError as problem:
            if not every:
                raise
            left_out.append(f"{name}: left out, {problem}")
        else:
            ready[name] = probe, found
    return ready, left_out
