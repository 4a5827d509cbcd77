"""Ask a model what it knows: probes with tables, figures and intervals, collected in one HTML page."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from electra.cli.arguments import Positional, Repeated
from electra.cli.terminal import say
from electra.errors import ConfigError, ElectraError

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID


@dataclass(frozen=True, kw_only=True)
class Arguments:
    models: Positional[tuple[str, ...]] = ()
    """Run folders, exported or published folders, or names on the hub: one, or several to compare the first
    with.
    """
    probe: Repeated[tuple[str, ...]] = ()
    """A probe by name, or your own: mine.py. Repeatable (default: all whose data and networks are there)."""
    data: Repeated[tuple[str, ...]] = ()
    """Files and folders that hold the probes' data, found by name (may be repeated)."""
    out: Path | None = None
    """The folder for the JSON files, the figures and the page. Probes run earlier stay on the page."""
    probe_option: Repeated[tuple[str, ...]] = ()
    """key=value, or PROBE.key=value (may be repeated). help: the chosen probes' options, and nothing else is
    done.
    """
    over_training: bool = False
    """Follow the probe over the checkpoints of a run instead of asking the finished model."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute (auto: a GPU when there is one)."""


def run(arguments: Arguments) -> int:
    from electra import analysis
    from electra.analysis.contract import named_models
    from electra.analysis.contract.record import run_probe
    from electra.interop.source import locate
    from electra.model.precision import pick_device
    from electra.report import probes as pages

    every = not arguments.probe or "all" in arguments.probe
    chosen = analysis.names() if every else list(dict.fromkeys(arguments.probe))
    if "help" in arguments.probe_option:
        for name in chosen:
            say(f"{name}: {analysis.module_of(name).Probe.question}")
            for option, default, told in analysis.describe_options(name):
                say(f"  {option}={_plain(default)}  {told}")
        return 0
    if not arguments.models or arguments.out is None:
        what, example = (
            "no model" if not arguments.models else "no --out",
            "electra analyze MODEL --data DATA/ --out analysis/",
        )
        raise ConfigError(f"{what} given", where="electra analyze", fix=f"Such as: {example}")
    options = analysis.options_for(chosen, arguments.probe_option)
    roots = [Path(name) for name in arguments.data]
    missing = next((root for root in roots if not root.exists()), None)
    if missing is not None:
        raise ConfigError("no such file or folder", where=missing, fix="Check --data")
    if arguments.over_training and arguments.models[1:]:
        raise ConfigError(
            "--over-training follows one run", where=arguments.models[1], fix="Run the command once for each"
        )
    for source in arguments.models:
        locate(source)  # a wrong name is one line, not one for each probe
    models = named_models(arguments.models, pick_device(arguments.device))
    done = 0
    for name in chosen:
        probe = analysis.create(name, options[name])
        try:
            data = probe.find(roots)
            with _bar() as bar:
                task = bar.add_task(name, total=1.0)

                def progress(
                    what: str, share: float, bar: Bar = bar, task: TaskID = task, name: str = name
                ) -> None:
                    bar.update(task, completed=share, description=f"{name}: {what}")

                started = time.monotonic()
                answered = run_probe(
                    name,
                    probe,
                    models,
                    data,
                    arguments.out,
                    progress=progress,
                    over_training=arguments.over_training,
                )
        except ElectraError as problem:
            if not every:
                raise
            say(f"{name}: left out, {problem}")
            continue
        done += 1
        for line in answered.left_out:
            say(f"{name}: {line}")
        took = (
            "kept: the same question was answered before"
            if answered.kept
            else f"{time.monotonic() - started:.0f} s"
        )
        say(f"{name}: {answered.path} ({took})")
    if not done:
        raise ConfigError(
            "no probe could be run", where="electra analyze", fix="The lines above say what each one needs"
        )
    say(f"page: {pages.write_page(arguments.out)}")
    return 0


def _plain(value: object) -> str:
    """An option's value as it is typed."""
    return (
        ",".join(map(str, value))
        if isinstance(value, tuple)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )


def _bar() -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
