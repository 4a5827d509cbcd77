"""Make a finished run of the schedule wsd longer: it ends as one that had this budget from the start.

The run goes on from the point where its learning rate began to fall. The networks and the page it had move to
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
    """Of the whole run, what it has included: 2e16flops, 50Mtokens or 5000steps, or a time, such as 2h."""
    store: str | None = None
    """The store it was trained on (default: where it lay, or RUN/store)."""
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
