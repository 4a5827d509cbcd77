"""Pre-training runs: metrics, checkpoints and texts of one, and the runs of a study."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from electra.artifacts.run import RunFolder
from electra.artifacts.study import StudyFolder
from electra.commands.results.folders import Artifact, Store
from electra.commands.results.rows import Rows
from electra.foundation import durable
from electra.foundation.config import convert
from electra.foundation.errors import RunFolderError
from electra.foundation.options import Source

if TYPE_CHECKING:
    from electra.artifacts import Finding
    from electra.commands.results.model import Model


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
    def metrics(self) -> Rows:
        """The logged rows: kind (train or eval), step, tokens, flops, seconds, and each metric.

        Steps that were repeated after a resume count once.
        """
        ledger = self.folder.ledger()
        points = [("train", point) for point in ledger.train] + [("eval", point) for point in ledger.evals]
        points.sort(key=lambda entry: entry[1].step)
        axes = ("step", "tokens", "flops", "seconds")
        return Rows(
            {"kind": kind, **{axis: getattr(point, axis) for axis in axes}, **point.values}
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
        return Store(self.folder.store.path) if self.folder.store.exists() else None

    def load(self, *, step: int | None = None, average: int | None = None) -> Model:
        """Loads the finished networks, a checkpoint, or the average of several: see `electra.load`."""
        from electra.commands.results.model import Model

        return Model(self, step=step, average=average)

    def replay(self, steps: int, store: Source | None = None) -> list[Finding]:
        """Repeats `steps` updates from a checkpoint and compares their results with the log. Writes nothing.

        It starts from the newest intact checkpoint that is followed by `steps` updates. Returns a finding for
        each comparison; its `problem` is empty if the values are equal.

        Raises:
            ConfigError: `steps` is below 1 or too small to reach a logged update, or the run does not record
                where its store is.
            CheckpointError: no checkpoint has that many logged updates after it.
            StoreError: the store is missing, or is not the one that the run was trained on.
        """
        from electra.commands.parts.replay import replay

        return replay(self.folder, convert(int, steps, "steps"), store)


class Study(Artifact[StudyFolder]):
    """A folder written by `ablate`."""

    FOLDER = StudyFolder

    @property
    def results(self) -> dict[str, Any]:
        """The contents of results.json: statistics of each metric, by arm.

        Raises RunFolderError if there is no such file yet.
        """
        results: dict[str, Any] = durable.read_json(self.folder.results, RunFolderError)
        return results

    @property
    def runs(self) -> list[Run]:
        """The runs that have started, by arm and seed."""
        return [Run(folder) for folder in self.folder.runs() if folder.exists()]

    @property
    def table(self) -> Rows:
        """A row for each run: arm, seed, status, step, held-out metrics, task scores, their mean `panel`."""
        from electra.laboratory.ablation.results import panel_scores

        return Rows(
            {
                "arm": str(run.path.relative_to(self.folder.arms).parent),
                "seed": run.path.name.removeprefix("seed-"),
                "status": run.status,
                "step": run.step,
                **run.scores,
                **(panel_scores(run.folder) if run.folder.score.is_file() else {}),
            }
            for run in self.runs
        )

    @property
    def failed(self) -> list[dict[str, Any]]:
        """The runs that failed, with `job` and `problem`."""
        return list(self.results.get("failed", []))
