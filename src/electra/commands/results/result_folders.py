"""Folders with results: what `electra.open` returns, one class for each kind."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from electra.artifacts import Folder, open_folder
from electra.artifacts.evaluation_files import AnalysisFolder, EvaluationFolder
from electra.artifacts.run_files import RunFolder
from electra.artifacts.store_files import StoreFolder
from electra.artifacts.study_files import StudyFolder
from electra.commands.results.rows import Rows
from electra.foundation import durable
from electra.foundation.errors import RunFolderError
from electra.foundation.options import Source, as_name, checked_path

if TYPE_CHECKING:
    from electra.data.corpus.store import TokenStore
    from electra.inference.model import Model

F = TypeVar("F", bound=Folder)
CLASSES = {  # class of a folder -> module and class of its result
    "StoreFolder": "commands.results.result_folders.Store",
    "RunFolder": "commands.results.result_folders.Run",
    "PairFolder": "inference.model.Model",
    "ModelFolder": "inference.model.Model",
    "FinetuningFolder": "commands.results.finetuned.FineTuned",
    "EvaluationFolder": "commands.results.result_folders.Evaluation",
    "AnalysisFolder": "commands.results.result_folders.Analysis",
    "StudyFolder": "commands.results.result_folders.Study",
}


def open(path: Source) -> Artifact[Any] | Model:
    """Returns the Store, Run, Model, FineTuned, Evaluation, Analysis or Study in a folder.

    For a folder inside one of these, such as a seed or a checkpoint, returns an Artifact.

    Raises:
        RunFolderError: there is no such folder, or electra did not write it.
    """
    folder = open_folder(as_name(path, "path"))
    module, _, name = CLASSES.get(
        type(folder).__name__, "commands.results.result_folders.Artifact"
    ).rpartition(".")
    kind: Any = getattr(import_module(f"electra.{module}"), name)
    result: Artifact[Any] | Model = kind(path)
    return result


class Artifact(Generic[F]):
    """A folder with results. It can be passed wherever a path can."""

    FOLDER: ClassVar[type[Folder] | None] = None

    def __init__(self, path: Source) -> None:
        self.path = checked_path(path, "path")
        opened = open_folder(self.path) if self.FOLDER is None else self.FOLDER.open(self.path)
        self.folder: F = opened  # type: ignore[assignment]

    def __fspath__(self) -> str:
        return str(self.path)

    def report(self) -> Path:
        """Writes the report and returns its path. Raises RunFolderError if the records are inconsistent."""
        from electra.pages.pages import write_page

        return write_page(self.path)

    def __repr__(self) -> str:
        kind = self.folder.KIND if self.FOLDER is None else type(self).__name__
        return f"<{kind} {str(self.path)!r}>"


class Store(Artifact[StoreFolder]):
    """A folder written by `prepare`. Raises StoreError if it is missing or damaged."""

    FOLDER = StoreFolder

    def __init__(self, path: Source) -> None:
        from electra.data.corpus.store import TokenStore

        super().__init__(path)
        self.tokens: TokenStore = TokenStore.open(self.path)
        """The token ids, mapped into memory; also `audit`, `tokenizer` and `vocab_size`."""


class Evaluation(Artifact[EvaluationFolder]):
    """A folder written by `evaluate`."""

    FOLDER = EvaluationFolder

    @property
    def table(self) -> Rows:
        """A row for each task, split, metric and model, with statistics over the seeds."""
        return Rows(
            {key: row.get(key) for key in ("task", "split", "metric")}
            | {"model": model}
            | {name: value for name, value in score.items() if not isinstance(value, dict | list)}
            for row in self.folder.record["rows"]
            for model, score in row["scores"].items()
        )

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The tasks that failed: task, model, reason."""
        return list(self.folder.record.get("failures", []))


class Analysis(Artifact[AnalysisFolder]):
    """A folder written by `analyze`."""

    FOLDER = AnalysisFolder

    @property
    def headline(self) -> Rows:
        """A row for each headline number: probe, measure, value, and its 95 % interval (low, high)."""
        return Rows(
            {"probe": name, "measure": measure, **(value if isinstance(value, dict) else {"value": value})}
            for name, record in self.folder.record.items()
            for measure, value in record.get("headline", {}).items()
        )


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
    def scores(self) -> dict[str, float | None]:
        """The metrics of the last held-out evaluation (see docs/metrics.md); empty before the first."""
        evals = self.folder.ledger().evals
        return dict(evals[-1].values) if evals else {}

    @property
    def checkpoints(self) -> list[int]:
        """The steps that have a checkpoint, oldest first; `electra.load(run, step=...)` loads one."""
        return [checkpoint.step for checkpoint in reversed(self.folder.saved_checkpoints())]


class Study(Artifact[StudyFolder]):
    """A folder written by `ablate`."""

    FOLDER = StudyFolder

    @property
    def results(self) -> dict[str, Any]:
        """The contents of results.json, by arm. Raises RunFolderError if there is no such file yet."""
        results: dict[str, Any] = durable.read_json(self.folder.results, RunFolderError)
        return results

    @property
    def failed(self) -> list[dict[str, Any]]:
        """The runs that failed, with `job` and `problem`."""
        return list(self.results.get("failed", []))
