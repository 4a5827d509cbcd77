"""Folders with results: what `electra.open` returns, one class for each kind."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from electra.artifacts import Folder, open_folder
from electra.artifacts.evaluation import AnalysisFolder, EvaluationFolder
from electra.artifacts.store import StoreFolder
from electra.commands.results.rows import Rows
from electra.foundation.options import Source, as_name, checked_path

if TYPE_CHECKING:
    from electra.commands.results.model import Model
    from electra.data.store import TokenStore
    from electra.data.tokenizer import Tokenizer

F = TypeVar("F", bound=Folder)
CLASSES = {  # class of a folder -> class of its result, in electra.commands.results
    "StoreFolder": "folders.Store",
    "RunFolder": "run.Run",
    "PairFolder": "model.Model",
    "ModelFolder": "model.Model",
    "FinetuningFolder": "finetuned.FineTuned",
    "EvaluationFolder": "folders.Evaluation",
    "AnalysisFolder": "folders.Analysis",
    "StudyFolder": "run.Study",
}


def open(path: Source) -> Artifact[Any] | Model:
    """Returns the Store, Run, Model, FineTuned, Evaluation, Analysis or Study in a folder.

    For a folder inside one of these, such as a seed or a checkpoint, returns an Artifact.

    Raises:
        RunFolderError: there is no such folder, or electra did not write it.
    """
    folder = open_folder(as_name(path, "path"))
    module, _, name = CLASSES.get(type(folder).__name__, "folders.Artifact").rpartition(".")
    kind: Any = getattr(import_module(f"electra.commands.results.{module}"), name)
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
        from electra.data.store import TokenStore

        super().__init__(path)
        self.tokens: TokenStore = TokenStore.open(self.path)
        """The documents' token ids, mapped into memory."""

    @property
    def audit(self) -> dict[str, Any]:
        """Counts of documents, characters, words and tokens, and of everything that was left out."""
        return self.tokens.audit

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that encoded the text."""
        return self.tokens.tokenizer

    @property
    def vocab_size(self) -> int:
        """The number of entries in the vocabulary."""
        return self.tokens.vocab_size

    @property
    def num_tokens(self) -> int:
        """The number of tokens to train on, without held-out and special tokens."""
        return self.tokens.train.num_tokens

    @property
    def num_documents(self) -> int:
        """The number of documents to train on, without held-out ones."""
        return self.tokens.train.num_documents

    def verify(self) -> None:
        """Reads all files and compares their checksums. Raises StoreError naming a damaged file."""
        self.tokens.verify()


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
    def records(self) -> dict[str, Any]:
        """The contents of each probe's JSON file, by the name of the probe."""
        return self.folder.record

    @property
    def headline(self) -> Rows:
        """A row for each headline number: probe, measure, value, and its 95 % interval (low, high)."""
        return Rows(
            {"probe": name, "measure": measure, **(value if isinstance(value, dict) else {"value": value})}
            for name, record in self.records.items()
            for measure, value in record.get("headline", {}).items()
        )
