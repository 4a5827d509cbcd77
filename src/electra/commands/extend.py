from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from electra.commands.framework.command import Command, Source, function
from electra.commands.framework.display import display_for
from electra.commands.parts.milestones import lengthen_run
from electra.commands.parts.shared import Processes
from electra.commands.results.artifact import given_path
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
    """Make a finished run longer: train it to a larger budget.

    For a run of the schedule wsd: it resumes where its learning rate began to fall and ends with the bits of
    one that had this budget from the start. Its networks and page so far move to RUN/milestones/step-N.
    """

    run_folder: Source
    """A run that electra pretrain made with --training.schedule wsd."""
    _: KW_ONLY
    budget: str
    """The budget of the whole run, including what it has spent: 2e16flops, 50Mtokens, 5000steps or 2h."""
    store: Source | None = None
    """The store it was trained on (default: RUN/store, or the recorded path)."""

    def run(self) -> Run:
        folder = str(given_path(self.run_folder, "run"))
        with display_for(self.progress) as display:
            return lengthen_run(folder, self.budget, name_of(self.store, "store"), self.processes, display)


extend = function(Extend)
