"""Folders with results: what `electra.open` returns, one class for each kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from electra import artifacts
from electra.commands.results.rows import Rows
from electra.foundation import durable
from electra.foundation.errors import ConfigError, RunFolderError
from electra.foundation.machine import Device
from electra.foundation.options import Source, as_name, checked_path

if TYPE_CHECKING:
    import pandas

    from electra.data.corpus.store import TokenStore
    from electra.finetuning.predict import Text
    from electra.inference.model import Model

F = TypeVar("F", bound=artifacts.Folder)


def open(path: Source) -> Artifact[Any] | Model:
    """Returns the Store, Run, Model, FineTuned, Evaluation, Analysis or Study in a folder.

    For a folder inside one of these, such as a seed or a checkpoint, returns an Artifact.

    Raises:
        RunFolderError: there is no such folder, or electra did not write it.
    """
    kind = type(artifacts.open_folder(as_name(path, "path")))
    if kind in (artifacts.PairFolder, artifacts.ModelFolder):
        from electra.inference.model import Model

        return Model(path)
    results: list[type[Artifact[Any]]] = [Store, Run, FineTuned, Evaluation, Analysis, Study]
    return next((each for each in results if each.FOLDER is kind), Artifact)(path)


class Artifact(Generic[F]):
    """A folder with results. It can be passed wherever a path can."""

    FOLDER: ClassVar[type[artifacts.Folder] | None] = None

    def __init__(self, path: Source) -> None:
        self.path = checked_path(path, "path")
        opened = artifacts.open_folder(self.path) if self.FOLDER is None else self.FOLDER.open(self.path)
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


class Store(Artifact[artifacts.StoreFolder]):
    """A folder written by `prepare`. Raises StoreError if it is missing or damaged."""

    FOLDER = artifacts.StoreFolder

    def __init__(self, path: Source) -> None:
        from electra.data.corpus.store import TokenStore

        super().__init__(path)
        self.tokens: TokenStore = TokenStore.open(self.path)
        """The token ids, mapped into memory; also `audit`, `tokenizer` and `vocab_size`."""


class Evaluation(Artifact[artifacts.EvaluationFolder]):
    """A folder written by `evaluate`."""

    FOLDER = artifacts.EvaluationFolder

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


class Analysis(Artifact[artifacts.AnalysisFolder]):
    """A folder written by `analyze`."""

    FOLDER = artifacts.AnalysisFolder

    @property
    def headline(self) -> Rows:
        """A row for each headline number: probe, measure, value, and its 95 % interval (low, high)."""
        return Rows(
            {"probe": name, "measure": measure, **(value if isinstance(value, dict) else {"value": value})}
            for name, record in self.folder.record.items()
            for measure, value in record.get("headline", {}).items()
        )


class Run(Artifact[artifacts.RunFolder]):
    """A folder written by `pretrain`, finished or not. Its properties read the files on every access."""

    FOLDER = artifacts.RunFolder

    @property
    def status(self) -> Literal["finished", "stopped", "in progress"]:
        """The run's status; "in progress" may also mean that its process was killed."""
        return self.folder.ledger().status(self.total_steps)

    @property
    def step(self) -> int:
        """The number of finished updates, according to the last logged row."""
        last = self.folder.ledger().last("train", "eval")
        return 0 if last is None else int(last["step"])

    @property
    def total_steps(self) -> int | None:
        """The number of updates of the whole run; None before it starts."""
        return self.folder.steps_of(self.folder.record)

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
            {"kind": kind, **{axis: getattr(point, axis) for axis in axes}, **point.values} for kind, point in points
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


class Study(Artifact[artifacts.StudyFolder]):
    """A folder written by `ablate`."""

    FOLDER = artifacts.StudyFolder

    @property
    def results(self) -> dict[str, Any]:
        """The contents of results.json, by arm. Raises RunFolderError if there is no such file yet."""
        results: dict[str, Any] = durable.read_json(self.folder.results, RunFolderError)
        return results

    @property
    def failed(self) -> list[dict[str, Any]]:
        """The runs that failed, with `job` and `problem`."""
        return list(self.results.get("failed", []))


class FineTuned(Artifact[artifacts.FinetuningFolder]):
    """A folder written by `finetune`."""

    FOLDER = artifacts.FinetuningFolder

    @property
    def results(self) -> dict[str, Any]:
        """The contents of all_results.json. Raises RunFolderError before the last seed has finished."""
        return self.folder.read_results()

    @property
    def scores(self) -> dict[str, float]:
        """The mean of each dev metric over the seeds, and its standard deviation as NAME_sd.

        Raises RunFolderError before the last seed has finished.
        """
        return self.folder.scores()

    @property
    def seeds(self) -> Rows:
        """The scores on dev: a row for each seed."""
        rows = Rows()
        for number, seed in self.folder.seeds():
            scores = durable.read_json(seed.results, RunFolderError)["eval"]
            rows.append({"seed": number, **{k: v for k, v in scores.items() if not isinstance(v, Mapping)}})
        return rows

    def predict(
        self,
        texts: Text | Iterable[Text] | pandas.DataFrame | Source,
        *,
        threshold: float | None = None,
        scores: bool = False,
        device: Device = "auto",
        allow_unknown: bool = False,
    ) -> Rows:
        """Returns a row for each text or, from taggers, for each word.

        A row has the columns of the input, then `predicted` and, for tasks with labels, `probability` and
        (taggers: only with `scores`) the probability of each label.

        Args:
            texts: texts, pairs (tuples), sentences as lists of words, or rows (dicts or a DataFrame); or the
                path of a file of them, as a Path, since a str is a text.
            threshold: for taggers with two labels, the probability from which a word is marked; with several
                labels per text, the one above which a label is predicted; for questions that may have no
                answer, the no-answer score above which none is given (None: the model's).
            scores: for taggers, whether to add the probability of each label for each word.
            device: where to compute.
            allow_unknown: whether to accept texts of which most tokens are unknown to the tokenizer.

        Raises:
            DataError: an input is not a text.
            TokenizerError: too many tokens are unknown.
            ModelError: the saved model is missing or damaged.
            ConfigError: a `threshold` was passed, but the model has none, or it is out of range.
        """
        from electra.data.tables.passages import records
        from electra.finetuning.predict import open_predictor

        predictor = open_predictor(str(self.path), device, allow_unknown=allow_unknown)
        if isinstance(texts, Path):
            return Rows(predictor(texts, threshold=threshold, scores=scores).records())
        inputs = [texts] if isinstance(texts, str | tuple | Mapping) else records(texts)
        return Rows(predictor.texts(inputs, threshold, scores).records() if inputs else ())

    def mistakes(self) -> Rows:
        """Returns the dev examples that the saved model gets wrong, the most confident first.

        A row has the columns of the input, `text`, `gold`, `predicted` and `probability`. For regression, all
        examples are returned, the largest error first.

        Raises:
            ConfigError: the folder lacks dev.jsonl, because it is unfinished or from an old version.
            RunFolderError: dev.jsonl is damaged.
        """
        from electra.finetuning.score.records import is_wrong

        examples = self.folder.read_dev()
        if not examples:
            fix = "Rerun electra finetune to write it"
            raise ConfigError("there is no dev.jsonl with the predictions on dev", where=self.path, fix=fix)
        return Rows(sorted(filter(is_wrong, examples), key=_confidence_order))

    def model(self) -> Model:
        """Returns the saved model, to embed texts or to fine-tune it further."""
        from electra.inference.model import Model

        return Model(self.folder.model)


def _confidence_order(row: Mapping[str, Any]) -> float:
    if isinstance(row["gold"], int | float):
        return -float(abs(row["predicted"] - row["gold"]))
    return -(row.get("probability") or 0.0)
