"""A pre-training run: its ledger, its networks, its report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from electra.artifacts.ledger import Axis, Curve
from electra.artifacts.run import RunFolder
from electra.commands.framework.command import Source
from electra.commands.results.artifact import Artifact, given_path
from electra.commands.results.rows import Rows
from electra.foundation.config import convert
from electra.foundation.errors import ConfigError, nearest
from electra.foundation.machine import library

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from electra.artifacts import Finding
    from electra.commands.results.model import Model
    from electra.commands.results.store import Store

AXES: dict[Axis, str] = {
    "step": "updates",
    "tokens": "tokens",
    "flops": "training FLOPs",
    "seconds": "seconds",
}


class Metrics(Rows):
    """The training and evaluation rows of a run: kind, step, tokens, flops, seconds, and each measure."""

    def curve(self, kind: Literal["train", "eval"], key: str, against: Axis = "step") -> Curve:
        """(x, y) of a measure, such as ("eval", "auc") or ("train", "losses.rtd"), where it was measured."""
        convert(Literal["train", "eval"], kind, "kind")
        convert(Axis, against, "against")
        rows = [row for row in self if row["kind"] == kind]
        kept = [row for row in rows if row.get(key) is not None and row.get(against) is not None]
        if not kept:
            known = sorted({name for row in rows for name in row} - {"kind"})
            raise ConfigError(f"no {kind} measure {key!r}", where="metrics", fix=nearest(key, known))
        return Curve([float(row[against]) for row in kept], [float(row[key]) for row in kept])


class Run(Artifact[RunFolder]):
    """A folder made by `pretrain`, finished or not. Everything is read anew when asked for."""

    FOLDER = RunFolder

    @property
    def status(self) -> Literal["finished", "stopped", "in progress"]:
        """ "in progress" may also mean that the process was killed."""
        return self.folder.ledger().status(self.folder.total_steps)

    @property
    def step(self) -> int:
        """Finished updates, as of the last row of the ledger."""
        last = self.folder.ledger().last("train", "eval")
        return 0 if last is None else int(last["step"])

    @property
    def total_steps(self) -> int | None:
        """Updates that the run is to take."""
        return self.folder.total_steps

    @property
    def recipe(self) -> dict[str, Any]:
        """run.toml: the resolved recipe, the networks' shapes, identity and environment."""
        return self.folder.record

    @property
    def metrics(self) -> Metrics:
        """The rows of the ledger, those of resumed stretches counted once."""
        ledger = self.folder.ledger()
        points = [("train", point) for point in ledger.train] + [("eval", point) for point in ledger.evals]
        points.sort(key=lambda entry: entry[1].step)
        return Metrics(
            {"kind": kind, **{axis: getattr(point, axis) for axis in AXES}, **point.values}
            for kind, point in points
        )

    @property
    def events(self) -> Rows:
        """What happened: started, resumed, stopped, warning, finished, ..."""
        return Rows(
            {"step": event.step, "event": event.name, "message": event.message}
            for event in self.folder.ledger().events
        )

    @property
    def scores(self) -> dict[str, float | None]:
        """The last held-out evaluation, by the names of docs/metrics.md."""
        evals = self.folder.ledger().evals
        return dict(evals[-1].values) if evals else {}

    @property
    def checkpoints(self) -> list[int]:
        """The steps whose checkpoints are kept, oldest first: `electra.load(run, step=...)`."""
        return [checkpoint.step for checkpoint in reversed(self.folder.saved())]

    @property
    def store(self) -> Store | None:
        """The store in the run folder; None where the run was given one from elsewhere."""
        from electra.commands.results.store import Store

        return Store(self.folder.store.path) if self.folder.store.exists() else None

    def load(self, *, step: int | None = None, average: int | None = None) -> Model:
        """Its networks: the finished ones, those of a checkpoint, or the mean of the last checkpoints, as in
        `electra.load`.
        """
        from electra.commands.results.model import Model

        return Model(self, step=step, average=average)

    def batch(self, step: int, store: Source | None = None) -> list[str]:
        """What the update that finished `step` was trained on: the text of each row, as it is decoded."""
        from electra.commands.parts.replay import texts_of_batch

        return texts_of_batch(self.folder, convert(int, step, "step"), store)

    def replay(self, steps: int, store: Source | None = None) -> list[Finding]:
        """Do so many logged updates once more, from a kept checkpoint, and compare: each thing and its
        `problem`, "" where there is none. Nothing is written.

        store: what the run was trained on (None: where it lay, or RUN/store).
        """
        from electra.commands.parts.replay import replay

        return replay(self.folder, convert(int, steps, "steps"), store)

    def report(self, out: Source | None = None, compare: Sequence[Source] = ()) -> Path:
        """Write the page (RUN/report.html, or `out`), other runs drawn over this one; its path."""
        from electra.pages.run import write_report

        others = [given_path(other, "compare") for other in compare]
        return write_report(self.path, None if out is None else given_path(out, "out"), others)

    def plot(self, key: str, against: Axis = "tokens") -> Figure:
        """A matplotlib figure of a held-out measure ("auc"), or one of training ("losses.rtd", "loss")."""
        matplotlib = library("matplotlib.figure", "report")
        metrics = self.metrics
        held_out = any(row["kind"] == "eval" and key in row for row in metrics)
        curve = metrics.curve("eval" if held_out else "train", key, against)
        figure: Figure = matplotlib.figure.Figure(figsize=(6, 3.5), layout="constrained")
        axes = figure.add_subplot()
        axes.plot(curve.x, curve.y, marker="o" if held_out else "")
        axes.set_xlabel(AXES[against])
        axes.set_ylabel(key.replace("_", " "))
        axes.set_title(f"{self.path.name}, {'held out' if held_out else 'training'}")
        return figure
