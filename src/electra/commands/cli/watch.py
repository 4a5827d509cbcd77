"""Watch runs on a live page while they train: curves, throughput, alarms, examples."""

from __future__ import annotations

from dataclasses import dataclass

from electra.commands.cli.arguments import Positional


@dataclass(frozen=True)
class Arguments:
    runs: Positional[tuple[str, ...]]
    """Run folders, in progress or ended. Several are drawn over one another."""
    port: int = 8001
    """The port to listen on (0: any free one)."""


def run(arguments: Arguments) -> int:
    from electra.commands.workflow.display import Terminal
    from electra.commands.workflow.watch import watch
    from electra.foundation.errors import ConfigError

    if not arguments.runs:
        raise ConfigError("no run given", where="electra watch", fix="For example: electra watch runs/mine")
    return watch(list(dict.fromkeys(arguments.runs)), port=arguments.port, progress=Terminal())
