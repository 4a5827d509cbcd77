"""A fine-tuned model: its scores over seeds, its predictions, its mistakes."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from electra.artifacts.tuning import TuningFolder
from electra.errors import ConfigError
from electra.workflow.artifact import Artifact, Source
from electra.workflow.rows import Rows

if TYPE_CHECKING:
    from electra.finetuning.predict import Text
    from electra.interop.onnx_graph import Written
    from electra.workflow.model import Model


class FineTuned(Artifact):
    """A folder made by `finetune`."""

    kind = "FineTuned"

    def __init__(self, path: Source) -> None:
        super().__init__(path)
        self.folder = TuningFolder.open(self.path)

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
        results, found = self.results, {}
        for name, value in results.items():
            if name.startswith("eval_") and isinstance(value, int | float) and name != "eval_samples":
                found[name.removeprefix("eval_")] = float(value)
        return found

    @property
    def seeds(self) -> Rows:
        """One row a seed: its scores on dev."""
        from electra import durable
        from electra.errors import RunFolderError

        rows = Rows()
        for number, seed in self.folder.seeds():
            scores = durable.read_json(seed.results, RunFolderError)["eval"]
            rows.append({"seed": number, **{k: v for k, v in scores.items() if not isinstance(v, Mapping)}})
        return rows

    @property
    def labels(self) -> tuple[str, ...]:
        """What it chooses from; empty for numbers and answers."""
        names = self.folder.model.record.get("id2label", {})
        return tuple(names[key] for key in sorted(names, key=int))

    def predict(
        self,
        texts: Text | Iterable[Text] | Source,
        *,
        threshold: float | None = None,
        device: Literal["auto", "cpu", "cuda"] = "auto",
    ) -> Rows:
        """One row a text (a row a word for tags): the answer, and the probability of each label.

        texts: texts, pairs (tuples), sentences as lists of words, or rows; or the path of a file of them.
        threshold: for questions that may have no answer: none is given where the null odds exceed this.
        """
        from electra.finetuning.predict import open_predictor

        if isinstance(texts, Path):
            return table(open_predictor(str(self.path), device)(texts, threshold=threshold).rows())
        given = [texts] if isinstance(texts, str | tuple | Mapping) else list(texts)  # type: ignore[arg-type]
        if not given:
            return Rows()
        return table(open_predictor(str(self.path), device).texts(given, threshold).rows())

    def mistakes(self, data: Source | None = None) -> Rows:
        """The examples of dev that the kept model gets wrong, the surest first: text, gold, label, p. The
        model is not run: its predictions lie in the folder.

        data: where the training data are now, as `finetune` takes them (None: where they were).

        For numbers: all examples, the furthest from the truth first. Raises DataError where other data lie
        there, and ConfigError where no place is known (a folder of an older version) and for questions.
        """
        from electra.finetuning.read_again import read_again

        now = None if data is None else Path(data)
        examples = read_again(self.folder.record, self.path, now).splits["dev"]
        kept = self.folder.seed(self.results["kept_seed"]).path / "dev.tsv"
        with open(kept, encoding="utf-8", newline="") as file:
            predicted = table(
                [tuple(row) for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
            )
        if predicted and "answer" in predicted[0]:
            raise ConfigError("answers to questions are not compared here", where=kept, fix="Read dev.tsv")
        if predicted and "word" in predicted[0]:
            gold = [
                (word, tag)
                for example in examples
                for word, tag in zip(example.texts, example.gold, strict=True)
            ]
        else:
            gold = [(" | ".join(example.texts), example.gold) for example in examples]
        rows = [_judged(text, right, row) for (text, right), row in zip(gold, predicted, strict=True)]
        return Rows(sorted((row for row in rows if row.get("error") != 0), key=_surest))

    def export_onnx(self, out: Source, *, int8: bool = False) -> Written:
        """Write the kept model as a folder with an ONNX graph; how it compares. Raises ModelError, and writes
        nothing, where the graph computes something else.
        """
        from electra.finetuning.predict import export_tuned

        return export_tuned(str(self.path), Path(out), int8=int8)

    def model(self) -> Model:
        """The kept model, to embed texts with or to fine-tune further."""
        from electra.workflow.model import Model

        return Model(self.folder.model)

    def facts(self) -> Sequence[tuple[str, Any]]:
        record = self.folder.record
        seeds = [("seeds", len(self.folder.seeds()))]
        scores = list(self.scores.items()) if self.folder.results.is_file() else [("status", "in progress")]
        return [("task", self.task), ("model", record.get("model")), *seeds, *scores]


def table(rows: Sequence[Sequence[str]]) -> Rows:
    """A table of text, header first, as records; probabilities and scores become numbers."""
    from electra.finetuning.records import as_records

    return Rows(as_records(rows) if rows else [])


def _judged(text: str, right: Any, row: Mapping[str, Any]) -> dict[str, Any]:
    """A prediction beside the truth; `error` is 0 where it is right."""
    if "score" in row:
        return {
            "text": text,
            "gold": float(right),
            "score": row["score"],
            "error": abs(row["score"] - float(right)),
        }
    names = [name[2:-1] for name in row if name.startswith("p(")]
    gold = ",".join(right) if isinstance(right, tuple | list) else str(right)
    if names and gold not in names and gold.isdecimal():
        gold = names[int(gold)]  # classes given by their numbers
    label = row["label"]
    p = row.get(f"p({label})", row.get("p"))
    return {"text": text, "gold": gold, "label": label, "p": p, "error": int(gold != label)}


def _surest(row: Mapping[str, Any]) -> float:
    return -(row["p"] or 0.0) if "p" in row else -row["error"]
