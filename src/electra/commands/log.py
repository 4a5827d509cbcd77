"""The command `electra log`; rows are sent by `electra.exchange.trackers`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from typing_extensions import override

from electra.commands.framework.command import Command, Source, function
from electra.commands.framework.display import display_for
from electra.foundation.options import checked_path
from electra.foundation.signals import StopRequest


@dataclass(frozen=True)
class Log(
    Command[int],
    group="Measure",
    examples=(
        "electra log runs/mine --to tensorboard",
        "electra log runs/mine --to wandb --project encoders --follow",
    ),
):
    """Send the curves of a run or a fine-tuning to TensorBoard, Trackio, Weights & Biases or MLflow.

    Rows that were sent before are not sent again. In Python, returns the number of rows sent.
    """

    run_folder: Source
    """The folder of a run or a fine-tuning, finished or not. Each seed of a fine-tuning becomes a run in the
    tracker.
    """
    _: KW_ONLY
    to: Literal["tensorboard", "trackio", "wandb", "mlflow"]
    """The tracker, which must be installed: pip install wandb."""
    out: Source | None = None
    """The folder for the tracker's files (default: one named after the tracker in the current folder)."""
    project: str = "electra"
    """The project or experiment in the tracker. TensorBoard has none."""
    name: str | None = None
    """The name of the run in the tracker (default: the name of its folder)."""
    follow: bool = False
    """Keep sending until the run ends. You can interrupt and rerun the command at any time."""

    @override
    def run(self) -> int:
        from electra.exchange.trackers.following import send_curves
        from electra.exchange.trackers.interface import VIEW_COMMANDS

        run = checked_path(self.run_folder, "run_folder")
        out = checked_path(self.to if self.out is None else self.out, "out")
        with display_for(self.progress) as display, StopRequest() as stop:
            name = self.name or run.resolve().name
            num_sent = send_curves(
                run, self.to, out, self.project, name, follow=self.follow, stop=stop, say=display.say
            )
            display.say(f"{num_sent:,} row{'s' * (num_sent != 1)} of {run} sent to {self.to} in {out}")
            display.say(f"to view them: {VIEW_COMMANDS[self.to].format(out=out)}")
            return num_sent


log = function(Log)
