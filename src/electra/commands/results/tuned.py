"""A fine-tuned model: its scores over seeds, its predictions, its mistakes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.artifacts.tuning import TuningFolder
from electra.commands.framework.command import Source
from electra.commands.results.artifact import Artifact, given_path
from electra.commands.results.rows import Rows, records
from electra.foundation.errors import ConfigError
from electra.foundation.machine import Device

if TYPE_CHECKING:
    import pandas

    from electra.commands.results.model import Model
    from electra.exchange.onnx_graph import ExportReport
    from electra.finetuning.predict import Text


NO_LABELS = (("score",), ("start", "end"))  # what the outputs of a number and of an answer are called


class FineTuned(Artifact[TuningFolder]):
    """A folder made by `finetune`."""

    FOLDER = TuningFolder

    @property
    def task(self) -> str:
        """The name of its task."""
        return str(self.folder.record["task"])

    @property
    def results(self) -> dict[str, Any]:
        """The contents of all_results.json. Raises RunFolderError before the last seed has ended."""
        return self.folder.read_results()

    @property
    def scores(self) -> dict[str, float]:
        """The mean over the seeds of each metric on dev, and its standard deviation as NAME_sd."""
        return self.folder.scores()

    @property
    def seeds(self) -> Rows:
        """One row a seed: its scores on dev."""
        from electra.foundation import durable
        from electra.foundation.errors import RunFolderError

        rows = Rows()
        for number, seed in self.folder.seeds():
            scores = durable.read_json(seed.results, RunFolderError)["eval"]
            rows.append({"seed": number, **{k: v for k, v in scores.items() if not isinstance(v, Mapping)}})
        return rows

    @property
    def labels(self) -> tuple[str, ...]:
        """What it chooses from; empty for numbers and answers."""
        names = self.folder.model.record.get("id2label", {})
        found = tuple(names[key] for key in sorted(names, key=int))
        return () if found in NO_LABELS else found

    def predict(
        self,
        texts: Text | Iterable[Text] | pandas.DataFrame | Source,
        *,
        threshold: float | None = None,
        scores: bool = False,
        device: Device = "auto",
    ) -> Rows:
        """One row a text (a row a word for tags): its own columns, then `predicted`, `probability`, and the
        probability of each label.

        texts: texts, pairs (tuples), sentences as lists of words, or rows (dicts, a DataFrame), whose columns
            come back as they are; or the path of a file of them (as a Path: a str is a text).
        threshold: of a tagger with two labels, the probability from which a word is marked; for questions
            that may have no answer, the null odds above which none is given.
        scores: of a tagger, the probability of each label for each word.

        Raises DataError for what is not a text.
        """
        from electra.finetuning.predict import open_predictor

        predictor = open_predictor(str(self.path), device)
        if isinstance(texts, Path):
            return Rows(predictor(texts, threshold=threshold, scores=scores).records())
        given = [texts] if isinstance(texts, str | tuple | Mapping) else records(texts)
        return Rows(predictor.texts(given, threshold, scores).records() if given else ())

    def mistakes(self) -> Rows:
        """The examples of dev that the kept model gets wrong, the surest first: their own columns, `text`,
        `gold`, `predicted`, `probability`. Of numbers all examples, the furthest from the truth first.

        Raises ConfigError for a folder of an older version.
        """
        from electra.finetuning.runner.records import is_wrong

        found = self.folder.read_dev()
        if not found:
            what, fix = "no dev.jsonl, which this needs", "Rerun electra finetune to write it"
            raise ConfigError(what, where=self.path, fix=fix)
        return Rows(sorted(filter(is_wrong, found), key=_surest))

    def export_onnx(self, out: Source, *, int8: bool = False) -> ExportReport:
        """Write the kept model as a folder with an ONNX graph; how it compares. Raises ModelError, and writes
        nothing, where the graph computes something else.
        """
        from electra.finetuning.predict import export_tuned

        return export_tuned(str(self.path), given_path(out, "out"), int8=int8)

    def model(self) -> Model:
        """The kept model, to embed texts with or to fine-tune further."""
        from electra.commands.results.model import Model

        return Model(self.folder.model)


def _surest(row: Mapping[str, Any]) -> float:
    if isinstance(row["gold"], int | float):
        return -float(abs(row["predicted"] - row["gold"]))
    return -(row.get("probability") or 0.0)
