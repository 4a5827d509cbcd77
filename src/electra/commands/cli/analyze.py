"""Measure what a model has learned: probes with tables, figures and intervals on one HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from electra.commands.cli.arguments import Positional, Repeated
from electra.foundation.errors import ConfigError
from electra.foundation.machine import Device


@dataclass(frozen=True, kw_only=True)
class Arguments:
    models: Positional[tuple[str, ...]] = ()
    """Run folders, exported or published folders, or names on the hub. The first is compared with the others.
    """
    probe: Repeated[tuple[str, ...]] = ()
    """A probe's name, or the path of your own, mine.py (may be repeated; default: all that can run)."""
    data: Repeated[tuple[str, ...]] = ()
    """A file or folder with the probes' data, which are found by name (may be repeated)."""
    out: Path | None = None
    """Directory for the JSON files, figures and page. Probes that were run earlier stay on the page."""
    probe_option: Repeated[tuple[str, ...]] = ()
    """key=value or PROBE.key=value (may be repeated). "help" lists the options of the chosen probes and
    exits.
    """
    over_training: bool = False
    """Run the probes at each checkpoint of a run instead of on the finished model."""
    device: Device = "auto"
    """Where to compute (auto: a CUDA GPU when there is one; mps: an Apple GPU)."""


def run(arguments: Arguments) -> int:
    from electra.commands.workflow.analyze import analyze
    from electra.commands.workflow.display import Terminal

    display = Terminal()
    if "help" in arguments.probe_option:
        for line in _options(arguments.probe):
            display.say(line)
        return 0
    if not arguments.models or arguments.out is None:
        what, example = (
            "no model" if not arguments.models else "no --out",
            "electra analyze MODEL --data DATA/ --out analysis/",
        )
        raise ConfigError(f"{what} given", where="electra analyze", fix=f"For example: {example}")
    analyze(
        arguments.models,
        out=arguments.out,
        probes=arguments.probe,
        data=arguments.data,
        options=arguments.probe_option,
        over_training=arguments.over_training,
        device=arguments.device,
        progress=display,
    )
    return 0


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
