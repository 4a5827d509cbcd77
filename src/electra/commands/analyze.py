from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from electra.artifacts.evaluation import AnalysisFolder
from electra.commands.framework.command import (
    Command,
    RepeatedNames,
    RepeatedSources,
    Source,
    Sources,
    function,
)
from electra.commands.framework.display import Display, display_for
from electra.commands.results.analysis import Analysis
from electra.commands.results.artifact import given_path
from electra.foundation.errors import ConfigError, ElectraError
from electra.foundation.extensions import trust
from electra.foundation.machine import OnDevice
from electra.foundation.options import given_names, several

if TYPE_CHECKING:
    from electra.artifacts.session import Session
    from electra.laboratory.analysis.contract.inputs import Data
    from electra.laboratory.analysis.contract.models import Model
    from electra.laboratory.analysis.contract.probe import Probe


@dataclass(frozen=True)
class Analyze(
    OnDevice,
    Command[Analysis],
    group="Measure",
    examples=(
        "electra analyze runs/mine runs/other --data DATA/ --out runs/analysis",
        "electra analyze runs/mine --probe calibration --probe-option help",
    ),
):
    """Measure what a model has learned: probes with tables, figures and intervals on one HTML page.

    The answer of a probe that was asked the same before is kept; asked otherwise, it is replaced.
    """

    models: Sources = ()
    """Run folders, exported or published folders, or names on the hub. The first is compared with the others.
    """
    _: KW_ONLY
    probe: RepeatedNames = ()
    """A probe's name, or the path of your own, mine.py (may be repeated; default: all that can run)."""
    data: RepeatedSources = ()
    """A file or folder with the probes' data, which are found by name (may be repeated)."""
    out: Source | None = None
    """Directory for the JSON files, figures and page. Probes that were run earlier stay on the page."""
    probe_option: RepeatedNames = ()
    """key=value or PROBE.key=value (may be repeated). "help" lists the options of the chosen probes and
    exits.
    """
    over_training: bool = False
    """Run the probes at each checkpoint of a run instead of on the finished model."""

    def run(self) -> Analysis:
        from electra.exchange.source import locate
        from electra.laboratory.analysis.contract import named_models
        from electra.model.precision import pick_device

        given, probes = given_names(self.models, "models"), several(self.probe, "probe")
        if not given or self.out is None:
            what = f"no {'--out' if given else 'model'} given"
            raise ConfigError(what, where="electra analyze", fix=f"For example: {self.EXAMPLES[0]}")
        folder, roots = given_path(self.out, "out"), [Path(root) for root in given_names(self.data, "data")]
        trust(*probes)
        every = not probes or "all" in probes
        chosen = _chosen(probes, several(self.probe_option, "probe_option"), every)
        missing = next((root for root in roots if not root.exists()), None)
        if missing is not None:
            raise ConfigError("no such file or folder", where=missing, fix="Check `data`")
        if self.over_training and given[1:]:
            what = "follows one run, not several"
            raise ConfigError(what, key="over_training", fix="Call it once for each")
        for source in given:
            locate(source)  # a wrong name is one error, not one for each probe
        named = named_models(given, pick_device(self.device))
        ready, left_out = _askable(chosen, [] if self.over_training else named, roots, every)
        with display_for(self.progress) as display:
            if not ready:
                for line in left_out:
                    display.say(line)
                raise _none_left(folder)
            with AnalysisFolder(folder).session(say=display.say) as session:
                for line in left_out:
                    session.say(line)
                _ask(ready, named, session, display, over_training=self.over_training, every=every)
        return Analysis(folder)

    def main(self) -> int:
        if "help" not in self.probe_option:
            self.run()
            return 0
        with display_for(self.progress) as display:
            for line in _options(several(self.probe, "probe")):
                display.say(line)
        return 0


analyze = function(Analyze)


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


def _options(probes: Sequence[str]) -> Iterator[str]:
    """What the probes ask and which options they have."""
    from electra.laboratory import analysis

    every = not probes or "all" in probes
    for name in analysis.names() if every else dict.fromkeys(probes):
        yield f"{name}: {analysis.module_of(name).Probe.question}"
        for option, default, told in analysis.describe_options(name):
            yield f"  {option}={_plain(default)}  {told}"


def _plain(value: object) -> str:
    """An option's value as it is typed."""
    return (
        ",".join(map(str, value))
        if isinstance(value, tuple)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )
