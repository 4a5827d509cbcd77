"""A run's curves in other programs: TensorBoard, Trackio, Weights & Biases, MLflow."""

from __future__ import annotations

from typing import Literal

from electra.commands.workflow.artifact import Source, given_path
from electra.commands.workflow.display import Told, display_for
from electra.exchange.trackers.following import carry
from electra.exchange.trackers.interface import NAMES
from electra.foundation.signals import StopRequest

To = Literal["tensorboard", "trackio", "wandb", "mlflow"]


def log(
    run: Source,
    to: To,
    *,
    out: Source | None = None,
    project: str = "electra",
    name: str | None = None,
    follow: bool = False,
    progress: Told = None,
) -> int:
    """Send the curves and settings of a run or a fine-tuning to a tracker, as far as it lacks them; returns
    the number of rows sent. Each finished seed of a fine-tuning becomes a run there, NAME-seed-N.

    out:     the folder of the tracker's files (None: one named after the tracker, here).
    project: the project or experiment there; TensorBoard has none.
    name:    of the run there (None: that of its folder).
    follow:  go on until the run ends. To end it before, interrupt it: nothing is lost or sent twice.

    Raises ConfigError where the tracker is not installed, and RunFolderError where `run` is neither or
    another run of this name was sent there.
    """
    run, where = given_path(run, "run"), given_path(to if out is None else out, "out")
    with display_for(progress) as display, StopRequest() as stop:
        called = name or run.resolve().name
        sent = carry(run, to, where, project, called, follow=follow, stop=stop, say=display.say)
        display.say(f"{sent:,} row{'s' * (sent != 1)} of {run} sent to {to} in {where}")
        display.say(f"to look at them: {NAMES[to].format(out=where)}")
        return sent
