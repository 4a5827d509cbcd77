"""The command `electra analyze`; the probes are in `electra.laboratory.analysis`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from electra.artifacts.evaluation_files import AnalysisFolder
from electra.artifacts.run_files import RunFolder
from electra.commands.framework.command import Command, function
from electra.commands.results.result_folders import Analysis
from electra.data.text_settings import AllowUnknown
from electra.foundation.display import display_for
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
from electra.foundation.progress import doing
from electra.foundation.signals import stops_after

if TYPE_CHECKING:
    from electra.artifacts.session import Session
    from electra.laboratory.analysis.contract.probe import Data, Probe
    from electra.laboratory.analysis.contract.studied_models import StudiedModel


@dataclass(frozen=True)
class Analyze(
    AllowUnknown,
    OnDevice,
    Command[Analysis],
    examples=(
        "electra analyze runs/mine runs/other --data DATA/ --out runs/analysis",
        "electra analyze runs/mine --probe calibration --probe-option resamples=200 --out runs/analysis",
    ),
):
    """Measure what a model has learned: run probes and show their results on one HTML page.

    A probe is not rerun if its models, data and options are unchanged; otherwise its new result replaces the
    old one.
    """

    models: Sources
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
    out: Source
    """The folder for JSON files, figures and the page, which also shows earlier probes of this folder."""
    probe_option: RepeatedNames = ()
    """Set an option of the probes: key=value or PROBE.key=value; may be repeated. The error for an unknown
    option lists those that there are.
    """

    @override
    def run(self) -> Analysis:
        from electra.exchange.source import locate
        from electra.laboratory import analysis
        from electra.laboratory.analysis.contract import named_models
        from electra.laboratory.analysis.contract.probe import usable_models
        from electra.model.precision import pick_device
        from electra.pages.probes import write_page

        sources, chosen = as_names(self.models, "models"), as_strings(self.probe, "probe")
        folder, roots = checked_path(self.out, "out"), [Path(root) for root in as_names(self.data, "data")]
        trust(*chosen)
        is_all = not chosen or "all" in chosen  # probes that cannot run are left out
        names = PROBES.names() if is_all else list(dict.fromkeys(chosen))
        options = analysis.options_for(names, as_strings(self.probe_option, "probe_option"))
        probes = {name: analysis.create(name, values) for name, values in options.items()}
        for root in roots:
            if not root.exists():
                raise ConfigError("no such file or folder", where=root, fix="Check `data`")
        folders = [locate(source) for source in sources]  # a wrong name is one error, not one for each probe
        if not roots and len(folders) == 1 and RunFolder(folders[0]).store.exists():
            roots = [RunFolder(folders[0]).store.path]
        models = named_models(sources, pick_device(self.device))
        ready, left_out = dict[str, Any](), list[str]()
        for name, probe in probes.items():
            try:
                data = probe.find(roots)
                usable_models(probe, models)
                ready[name] = probe, data
            except ElectraError as problem:
                if not is_all:
                    raise
                left_out.append(f"{name}: left out, {problem}")
        fix = "Pass one as `probe` to see what it needs"
        none_ran = ConfigError("no probe could run", where=folder, fix=fix)
        with display_for(self.progress) as display:
            if not ready:
                for line in left_out:
                    display.say(line)
                raise none_ran
            safe_point = stops_after("these texts; finished probes are kept")
            with AnalysisFolder(folder).session(say=display.say) as session, safe_point:
                for line in left_out:
                    session.say(line)
                completed = _run(ready, models, session, is_all, self.allow_unknown)
                page = write_page(folder) if session.folder.exists() else None  # also if it was stopped
                if session.stopping():
                    session.interrupt()
                if not completed:
                    raise none_ran
                session.say(f"page: {page}")
        return Analysis(folder)


analyze = function(Analyze)


def _run(
    ready: Mapping[str, tuple[Probe, Data]],
    models: Sequence[StudiedModel],
    session: Session,
    is_all: bool,
    allow_unknown: bool,
) -> int:
    from electra.laboratory.analysis.contract.probe import run_probe
    from electra.model.passes import before_each_batch
    from electra.pages.probes import headline, read_record

    def stop_here() -> None:
        if session.stopping():
            raise Interrupted(session.folder.path)

    completed = 0
    for name, (probe, data) in ready.items():

        def progress(stage: str, share: float | None, name: str = name) -> None:
            stop_here()
            doing(f"{name}: {stage}", share)

        began = time.monotonic()
        try:
            stop_here()
            with before_each_batch(stop_here):
                out = session.folder.path
                how: Any = {"progress": progress, "allow_unknown": allow_unknown}
                result = run_probe(name, probe, models, data, out, **how)
        except Interrupted:
            break
        except ElectraError as problem:
            if not is_all:
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
    return completed
