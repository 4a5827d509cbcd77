"""The command `electra analyze`; the probes are in `electra.laboratory.analysis`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from electra.artifacts.evaluation import AnalysisFolder
from electra.artifacts.run import RunFolder
from electra.commands.framework.command import Command, function
from electra.commands.framework.display import Display, display_for
from electra.commands.results.folders import Analysis
from electra.data.settings import AllowUnknown
from electra.foundation.errors import ConfigError, ElectraError, Interrupted
from electra.foundation.extensions import PROBES, trust
from electra.foundation.machine import OnDevice
from electra.foundation.options import (
    RepeatedNames,
    RepeatedSources,
    Source,
    Sources,
    as_names,
    as_strings,
    checked_path,
)
from electra.foundation.signals import stops_after

if TYPE_CHECKING:
    from electra.artifacts.session import Session
    from electra.laboratory.analysis.contract.models import Model
    from electra.laboratory.analysis.contract.probe import Data, Probe


@dataclass(frozen=True)
class Analyze(
    AllowUnknown,
    OnDevice,
    Command[Analysis],
    examples=(
        "electra analyze runs/mine runs/other --data DATA/ --out runs/analysis",
        "electra analyze runs/mine --probe calibration --probe-option help",
    ),
):
    """Measure what a model has learned: run probes and show their results on one HTML page.

    A probe is not rerun if its models, data and options are unchanged; otherwise its new result replaces the
    old one.
    """

    models: Sources = ()
    """Run folders, model folders, names on the hub, or models that come with the package (tiny-en, small-en).
    The first is compared with the others.
    """
    _: KW_ONLY
    probe: RepeatedNames = ()
    """The name of a probe, or the path of your own; may be repeated (default: all that can run)."""
    data: RepeatedSources = ()
    """A data file or folder, in which each probe looks for its files by name; may be repeated (default: the
    store of a single run).
    """
    out: Source | None = None
    """The folder for JSON files, figures and the page, which also shows earlier probes of this folder."""
    probe_option: RepeatedNames = ()
    """Set an option of the probes: key=value or PROBE.key=value; may be repeated. help: list the options of
    the chosen probes and exit.
    """

    @override
    def run(self) -> Analysis:
        from electra.exchange.source import locate
        from electra.laboratory import analysis
        from electra.laboratory.analysis.contract import named_models
        from electra.model.precision import pick_device

        sources, probes = as_names(self.models, "models"), as_strings(self.probe, "probe")
        if not sources or self.out is None:
            problem = f"no {'`out`' if sources else 'model'} was passed"
            raise ConfigError(problem, where="electra analyze", fix=f"For example: {self.EXAMPLES[0]}")
        folder, roots = checked_path(self.out, "out"), [Path(root) for root in as_names(self.data, "data")]
        trust(*probes)
        all_probes = not probes or "all" in probes
        options = analysis.options_for(_names(probes), as_strings(self.probe_option, "probe_option"))
        configured = {name: analysis.create(name, values) for name, values in options.items()}
        missing_root = next((root for root in roots if not root.exists()), None)
        if missing_root is not None:
            raise ConfigError("no such file or folder", where=missing_root, fix="Check `data`")
        folders = [locate(source) for source in sources]  # a wrong name is one error, not one for each probe
        if not roots and len(folders) == 1 and RunFolder(folders[0]).store.exists():
            roots = [RunFolder(folders[0]).store.path]
        models = named_models(sources, pick_device(self.device))
        ready, left_out = _runnable(configured, models, roots, all_probes)
        with display_for(self.progress) as display:
            if not ready:
                for line in left_out:
                    display.say(line)
                raise _no_probe(folder)
            safe_point = stops_after("these texts; finished probes are kept")
            with AnalysisFolder(folder).session(say=display.say) as session, safe_point:
                for line in left_out:
                    session.say(line)
                _run(
                    ready,
                    models,
                    session,
                    display,
                    allow_unknown=self.allow_unknown,
                    skip_failures=all_probes,
                )
        return Analysis(folder)

    @override
    def main(self) -> int:
        if "help" not in self.probe_option:
            self.run()
            return 0
        with display_for(self.progress) as display:
            for line in _options(as_strings(self.probe, "probe")):
                display.say(line)
        return 0


analyze = function(Analyze)


def _names(probes: Sequence[str]) -> list[str]:
    """Returns the names of the chosen probes: all, if none is named."""
    return PROBES.names() if not probes or "all" in probes else list(dict.fromkeys(probes))


def _run(
    ready: Mapping[str, tuple[Probe, Data]],
    models: Sequence[Model],
    session: Session,
    display: Display,
    *,
    allow_unknown: bool,
    skip_failures: bool,
) -> None:
    """Runs the probes one after the other, then writes the page: with what is done so far, if stopped."""
    from electra.laboratory.analysis.contract.record import run_probe
    from electra.model.passes import before_each_batch
    from electra.pages.probes import headline, read_record, write_page

    folder, completed = session.folder.path, 0

    def stop_here() -> None:
        if session.stopping():
            raise Interrupted(folder)

    def report(name: str, stage: str, share: float | None) -> None:
        stop_here()
        display.progress(f"{name}: {stage}", share)

    for name, (probe, data) in ready.items():
        if session.stopping():
            break
        began = time.monotonic()
        try:
            with before_each_batch(stop_here):
                result = run_probe(
                    name,
                    probe,
                    models,
                    data,
                    folder,
                    progress=partial(report, name),
                    allow_unknown=allow_unknown,
                )
        except Interrupted:
            break
        except ElectraError as problem:
            if not skip_failures:
                raise
            session.say(f"{name}: left out, {problem}")
            continue
        completed += 1
        for line in result.notes:
            session.say(f"{name}: {line}")
        if result.changed:
            session.say(f"{name}: replaced an earlier result ({', '.join(result.changed)} changed)")
        seconds = f"{time.monotonic() - began:.0f} s"
        took = "reused: same options, data and weights" if result.reused else seconds
        session.say(f"{name}: {result.path} ({took})")
        if numbers := headline(read_record(result.path)):
            session.say(f"{name}: {numbers}")
    if session.stopping():
        if session.folder.exists():
            write_page(folder)
        session.interrupt()
    if not completed:
        raise _no_probe(folder)
    session.say(f"page: {write_page(folder)}")


def _no_probe(out: Path) -> ConfigError:
    return ConfigError("no probe could run", where=out, fix="Pass one as `probe` to see what it needs")


def _runnable(
    probes: Mapping[str, Probe], models: Sequence[Model], roots: Sequence[Path], all_probes: bool
) -> tuple[dict[str, tuple[Probe, Data]], list[str]]:
    """Returns the probes that have the data and networks they need, and a line on each that is left out."""
    from electra.laboratory.analysis.contract.record import usable_models

    ready, left_out = dict[str, tuple[Any, Any]](), []
    for name, probe in probes.items():
        try:
            data = probe.find(roots)
            usable_models(probe, models)
            ready[name] = probe, data
        except ElectraError as problem:
            if not all_probes:
                raise
            left_out.append(f"{name}: left out, {problem}")
    return ready, left_out


def _options(probes: Sequence[str]) -> Iterator[str]:
    """Yields, for each probe, a line with the question that it answers, then a line for each option."""
    from electra.laboratory import analysis

    for name in _names(probes):
        yield f"{name}: {analysis.module_of(name).Probe.question}"
        for option, value, text in analysis.describe_options(name):
            typed = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            yield f"  {option}={typed.lower() if isinstance(value, bool) else typed}  {text}"
