"""A pre-training run: its metrics, its networks, its report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import override

from electra.artifacts.ledger import Axis, Curve
from electra.artifacts.run import RunFolder
from electra.commands.framework.command import Source
from electra.commands.results.artifact import Artifact
from electra.commands.results.rows import Rows
from electra.foundation.config import convert
from electra.foundation.errors import ConfigError, nearest
from electra.foundation.machine import library
from electra.foundation.options import checked_path
from electra.pages.figures import AXIS_TITLES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from electra.artifacts import Finding
    from electra.commands.results.model import Model
    from electra.commands.results.store import Store


class Metrics(Rows):
    """The training and evaluation rows of a run: kind, step, tokens, flops, seconds, and each metric."""

    def curve(self, kind: Literal["train", "eval"], key: str, against: Axis = "step") -> Curve:
        """Returns (x, y) of a metric, such as ("eval", "auc") or ("train", "losses.rtd").

        Raises ConfigError, with the nearest name, for a metric that the run does not have.
        """
        convert(Literal["train", "eval"], kind, "kind")
        convert(Axis, against, "against")
        rows = [row for row in self if row["kind"] == kind]
        points = [row for row in rows if row.get(key) is not None and row.get(against) is not None]
        if not points:
            known = sorted({name for row in rows for name in row} - {"kind"})
            raise ConfigError(f"no {kind} metric {key!r}", where="metrics", fix=nearest(key, known))
        return Curve([float(row[against]) for row in points], [float(row[key]) for row in points])


class Run(Artifact[RunFolder]):
    """A folder written by `pretrain`, finished or not. Its properties read the files on every access."""

    FOLDER = RunFolder

    @property
    def status(self) -> Literal["finished", "stopped", "in progress"]:
        """The run's status; "in progress" may also mean that its process was killed."""
        return self.folder.ledger().status(self.folder.total_steps)

    @property
    def step(self) -> int:
        """The number of finished updates, according to the last logged row."""
        last = self.folder.ledger().last("train", "eval")
        return 0 if last is None else int(last["step"])

    @property
    def total_steps(self) -> int | None:
        """The number of updates of the whole run; None before it starts."""
        return self.folder.total_steps

    @property
    def recipe(self) -> dict[str, Any]:
        """The contents of run.toml: the recipe, the shapes of the networks, identity and environment."""
        return self.folder.record

    @property
    def metrics(self) -> Metrics:
        """The logged rows. Steps that were repeated after a resume count once."""
        ledger = self.folder.ledger()
        points = [("train", point) for point in ledger.train] + [("eval", point) for point in ledger.evals]
        points.sort(key=lambda entry: entry[1].step)
        return Metrics(
            {"kind": kind, **{axis: getattr(point, axis) for axis in AXIS_TITLES}, **point.values}
            for kind, point in points
        )

    @property
    def events(self) -> Rows:
        """Events: started, resumed, stopped, warning, finished, ..."""
        return Rows(
            {"step": event.step, "event": event.name, "message": event.message}
            for event in self.folder.ledger().events
        )

    @property
    def scores(self) -> dict[str, float | None]:
        """The metrics of the last held-out evaluation (see docs/metrics.md); empty before the first."""
        evals = self.folder.ledger().evals
        return dict(evals[-1].values) if evals else {}

    @property
    def checkpoints(self) -> list[int]:
        """The steps that have a checkpoint, oldest first; `electra.load(run, step=...)` loads one."""
        return [checkpoint.step for checkpoint in reversed(self.folder.saved_checkpoints())]

    @property
    def store(self) -> Store | None:
        """The store in the run folder; None if the run was trained on a store elsewhere."""
        from electra.commands.results.store import Store

        return Store(self.folder.store.path) if self.folder.store.exists() else None

    def load(self, *, step: int | None = None, average: int | None = None) -> Model:
        """Loads the finished networks, a checkpoint, or the average of several: see `electra.load`."""
        from electra.commands.results.model import Model

        return Model(self, step=step, average=average)

    def batch(self, step: int, store: Source | None = None) -> list[str]:
        """Returns the decoded text of each row in the batch of update `step`.

        `store` is the store that the run was trained on (default: RUN/store if it exists, otherwise the
        recorded path).

        Raises:
            ConfigError: the run has no such step, or does not record where its store is.
            StoreError: the store is missing, or is not the one that the run was trained on.
        """
        from electra.commands.parts.replay import batch_texts

        return batch_texts(self.folder, convert(int, step, "step"), store)

    def replay(self, steps: int, store: Source | None = None) -> list[Finding]:
        """Repeats updates from a checkpoint and compares their results with the log. Writes nothing.

        It starts from the newest intact checkpoint that is followed by `steps` updates.

        Args:
            steps: how many updates to repeat.
            store: the store that the run was trained on (default: RUN/store if it exists, otherwise the
                recorded path).

        Returns:
            A finding for each comparison; its `problem` is empty if the values are equal.

        Raises:
            ConfigError: `steps` is below 1 or too small to reach a logged update, or the run does not record
                where its store is.
            CheckpointError: no checkpoint has that many logged updates after it.
            StoreError: the store is missing, or is not the one that the run was trained on.
        """
        from electra.commands.parts.replay import replay

        return replay(self.folder, convert(int, steps, "steps"), store)

    @override
    def report(self, out: Source | None = None, compare: Sequence[Source] = ()) -> Path:
        """Writes a report to RUN/report.html or `out`, and returns its path.

        The runs in `compare` are shown for comparison.
        """
        from electra.pages.run import write_report

        others = [checked_path(other, "compare") for other in compare]
        return write_report(self.path, None if out is None else checked_path(out, "out"), others)

    def plot(self, key: str, against: Axis = "tokens") -> Figure:
        """Returns a matplotlib figure of a held-out metric ("auc") or a training metric ("losses.rtd").

        Raises ConfigError for a metric that the run does not have, or if matplotlib is not installed.
        """
        matplotlib = library("matplotlib.figure", "report")
        metrics = self.metrics
        held_out = any(row["kind"] == "eval" and key in row for row in metrics)
        curve = metrics.curve("eval" if held_out else "train", key, against)
        figure: Figure = matplotlib.figure.Figure(figsize=(6, 3.5), layout="constrained")
        axes = figure.add_subplot()
        axes.plot(curve.x, curve.y, marker="o" if held_out else "")
        axes.set_xlabel(AXIS_TITLES[against])
        axes.set_ylabel(key.replace("_", " "))
        axes.set_title(f"{self.path.name}, {'held out' if held_out else 'training'}")
        return figure
