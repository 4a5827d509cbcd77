"""Publish a run, model or fine-tuning on the Hugging Face Hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from electra.commands.cli.arguments import Positional


@dataclass(frozen=True)
class Arguments:
    source: Positional[Path]
    """A finished run, an imported pair, a model folder or a fine-tuning."""
    repo: Positional[str]
    """The repository, owner/name. It is made where there is none."""
    private: bool = False
    """Make a new repository private."""
    revision: str = "main"
    """The branch to write to."""
    dry_run: bool = False
    """List what would be sent, and send nothing. Needs no token."""


def run(arguments: Arguments) -> int:
    from electra.commands.workflow.display import Terminal
    from electra.commands.workflow.push import push

    push(**vars(arguments), progress=Terminal())
    return 0
