"""Make a finished run longer (schedule wsd). It ends as if it had had this budget from the start.

The run resumes where its learning rate began to fall. Its networks and page so far move to
RUN/milestones/step-N.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from electra.cli.arguments import Positional


@dataclass(frozen=True)
class Arguments:
    run: Positional[Path]
    """A run that electra pretrain made with --training.schedule wsd."""
    budget: str
    """The budget of the whole run, including what it has spent: 2e16flops, 50Mtokens, 5000steps or 2h."""
    store: str | None = None
    """The store it was trained on (default: RUN/store, or the recorded path)."""
    processes: int = 1
    """Processes on this machine that share each batch: one for each GPU, or on a CPU one for each core.
    Across machines, use torchrun.
    """


def run(arguments: Arguments) -> int:
    from electra.workflow.display import Terminal
    from electra.workflow.extend import carry_on

    with Terminal(lines=True) as display:
        carry_on(str(arguments.run), arguments.budget, arguments.store, arguments.processes, display)
    return 0
