"""The command `electra extend`."""

from __future__ import annotations

import time
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from electra.artifacts.run import RunFolder
from electra.commands.framework.command import Command, function
from electra.commands.framework.display import display_for
from electra.commands.results.folders import Run
from electra.data.settings import AllowUnknown
from electra.foundation.options import Source, checked_path
from electra.foundation.signals import interrupt_on_signal

if TYPE_CHECKING:
    from electra.commands.parts.train import Text
    from electra.training.recipe import Recipe


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
        from electra.commands.parts.train import Origin, train_run

        began = time.monotonic()
        folder = RunFolder.open(checked_path(self.run_folder, "run_folder"))
        record, recipe, text = self._plan(folder)
        origin = Origin(
            record["identity"].get("initial_discriminator"),
            record["identity"].get("initial_generator"),
            recipe=str(record["environment"].get("recipe", "")),
            began=began,
            extend=True,
        )
        with display_for(self.progress) as display:
            return train_run(recipe, text, folder.path, origin, display)

    @override
    def preview(self) -> None:
        """Print what the longer run would be, as a whole, and the update at which training would resume."""
        from electra.commands.parts.train import open_store, with_store_settings
        from electra.training.estimate import estimate
        from electra.training.extend import cooldown_start

        folder = RunFolder.open(checked_path(self.run_folder, "run_folder"))
        record, recipe, text = self._plan(folder)
        with display_for(self.progress) as display, interrupt_on_signal("the plan"):
            store = open_store(text, recipe, folder.path, display)
            display.progress("timing a few updates")
            for line in estimate(
                with_store_settings(recipe, store), store.vocab_size, store.train.num_tokens
            ):
                display.say(line)
            display.say(f"{'resumes at':<15}{cooldown_start(record):,} of these updates")

    def _plan(self, folder: RunFolder) -> tuple[dict[str, Any], Recipe, Text]:
        """Returns the run's record, its recipe with the new budget, and the store to train on."""
        from electra.commands.parts.stores import run_store_path
        from electra.commands.parts.train import Text
        from electra.training.extend import extended_recipe

        record, store = folder.record, run_store_path(folder, self.store)
        text = Text(store=store, allow_unknown=self.allow_unknown)
        return record, extended_recipe(folder, record, self.budget), text


extend = function(Extend)
