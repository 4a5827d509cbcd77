"""The command `electra extend`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from typing_extensions import override

from electra.artifacts.run_files import RunFolder
from electra.commands.framework.command import Command, function
from electra.commands.framework.shared import train
from electra.commands.results.result_folders import Run
from electra.data.text_settings import AllowUnknown
from electra.foundation.display import display_for
from electra.foundation.options import Source, checked_path
from electra.foundation.progress import doing
from electra.foundation.signals import interrupt_on_signal
from electra.training.request import Request, TrainingText


@dataclass(frozen=True)
class Extend(
    AllowUnknown,
    Command[Run],
    examples=(
        "electra extend runs/mine --budget 2h",
        "electra extend runs/mine --budget 100Mtokens --store store",
    ),
):
    """Train a finished run further, to a larger budget.

    The run must use the schedule wsd (warm-up, plateau, cooldown), as default runs do. Training resumes where
    the learning rate began to fall, and the result is bit-identical to a run that had this budget from the
    start, unless it is a time. The networks and the report of the shorter run move to RUN/milestones/step-N.
    """

    run_folder: Source
    """A run that electra pretrain made."""
    _: KW_ONLY
    budget: str
    """The new budget of the whole run, including what was spent: 2e16flops, 50Mtokens, 5000steps or 2h."""
    store: Source | None = None
    """The store that the run was trained on (default: RUN/store, or the recorded path)."""

    @override
    def run(self) -> Run:
        return train(self.request, self.progress)

    def request(self) -> Request:
        """Returns what is trained: the recorded recipe, to the new budget."""
        from electra.training.extend import extended_recipe
        from electra.training.stores import run_store_path

        folder = RunFolder.open(checked_path(self.run_folder, "run_folder"))
        record, store = folder.record, run_store_path(folder, self.store)
        return Request(
            extended_recipe(folder, record, self.budget),
            TrainingText(store=store, allow_unknown=self.allow_unknown),
            folder.path,
            record["identity"].get("initial_discriminator"),
            record["identity"].get("initial_generator"),
            source=str(record["environment"].get("recipe", "")),
            extend=True,
        )

    @override
    def preview(self) -> None:
        """Print what the longer run would be, as a whole, and the update at which training would resume."""
        with display_for(self.progress) as display, interrupt_on_signal("the plan"):
            doing("loading torch")
            from electra.training.assemble import preview
            from electra.training.extend import cooldown_start

            request = self.request()
            preview(request, display.say)
            done = cooldown_start(RunFolder(request.out).record)
            display.say(f"{'resumes at':<15}{done:,} of these updates")


extend = function(Extend)
