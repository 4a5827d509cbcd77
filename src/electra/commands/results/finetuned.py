"""A fine-tuned model: its scores over seeds, its predictions and its errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.artifacts.finetuning_files import FinetuningFolder
from electra.commands.results.result_folders import Artifact
from electra.commands.results.rows import Rows
from electra.data.tables.passages import records
from electra.foundation import durable
from electra.foundation.errors import ConfigError, RunFolderError
from electra.foundation.machine import Device
from electra.foundation.options import Source

if TYPE_CHECKING:
    import pandas

    from electra.finetuning.predict import Text
    from electra.inference.model import Model


class FineTuned(Artifact[FinetuningFolder]):
    """A folder written by `finetune`."""

    FOLDER = FinetuningFolder

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
