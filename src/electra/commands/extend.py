"""The command `electra extend`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from typing_extensions import override

from electra.commands.framework.command import Command, Source, function
from electra.commands.framework.display import display_for
from electra.commands.parts.milestones import lengthen_run
from electra.commands.parts.shared import Processes
from electra.commands.results.artifact import checked_path
from electra.commands.results.run import Run
from electra.foundation.options import name_of


@dataclass(frozen=True)
class Extend(
    Processes,
    Command[Run],
    group="Train",
    examples=(
        "electra extend runs/mine --budget 2h",
        "electra extend runs/mine --budget 100Mtokens --store store",
    ),
):
    """Train a finished run further, to a larger budget.

    Needs a run with the schedule wsd. Training resumes where the learning rate began to fall, and the result
    is bit-identical to a run that had this budget from the start. The networks and the report of the shorter
    run move to RUN/milestones/step-N.
    """

    run_folder: Source
    """A run that electra pretrain made with --training.schedule wsd."""
    _: KW_ONLY
    budget: str
    """The new budget of the whole run, including what was spent: 2e16flops, 50Mtokens, 5000steps or 2h."""
    store: Source | None = None
    """The store that the run was trained on (default: RUN/store, or the recorded path)."""

    @override
    def run(self) -> Run:
        folder = str(checked_path(self.run_folder, "run"))
        with display_for(self.progress) as display:
            return lengthen_run(folder, self.budget, name_of(self.store, "store"), self.processes, display)


extend = function(Extend)
