"""A fine-tuned folder and a file of texts -> what the task's predictions file holds: labels with
probabilities, numbers, tags, answers.

Works with what `electra finetune` saved and with any folder of the ElectraFor... or ModernBertFor...
SequenceClassification, TokenClassification or QuestionAnswering classes.
Answers that the file may hold are not used: predicting is not evaluating.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from electra import durable
from electra.errors import ConfigError, ModelError
from electra.finetuning.features import Tokens
from electra.finetuning.heads import FineTuned, Pooling, build_head
from electra.finetuning.settings import HEAD, RECORD
from electra.finetuning.tasks import HeadKind, Task, load_task
from electra.finetuning.trainer import run_model
from electra.interop.load import NEEDS, Loaded, load, read_safetensors
from electra.labelled.examples import Example
from electra.model.precision import pick_device

USUAL: dict[str, str] = {
    "classifier": "classification",
    "tagger": "tagging",
    "reader": "qa",
}  # the task of a model that does not tell its own


@dataclass(frozen=True)
class Predictions:
    task: Task
    examples: tuple[Example, ...]
    values: list[Any]
    max_length: int
    truncated: int  # examples longer than max_length tokens
    notes: tuple[str, ...]

    def rows(self) -> list[tuple[str, ...]]:
        """A table, header first."""
        return self.task.table(self.values, self.examples)

    def to_json(self) -> bytes:
        """Of questions the official scorers' file, id -> answer; otherwise the table's rows as objects."""
        official = self.task.files("", self.values, self.examples).get(".predictions.json")
        header, *rows = self.rows()
        numbers = [name in ("score", "p") or name.startswith("p(") for name in header]
        values = [
            [float(cell) if number else cell for cell, number in zip(row, numbers, strict=True)]
            for row in rows
        ]
        return official or durable.to_json([dict(zip(header, row, strict=True)) for row in values])


def predict(  # noqa: PLR0917
    model: str,
    file: Path,
    text_column: Sequence[str] = (),
    columns: Sequence[str] = (),
    device: str = "auto",
    threshold: float | None = None,
) -> Predictions:
    """Predict each row of `file`. `model`: a fine-tuning's output folder, its model folder, or a fine-tuned
    model's folder or hub name.
    """
    folder = Path(model)
    if (folder / RECORD).is_file() and not (folder / "model").is_dir():
        raise ModelError("this fine-tuning has no model folder", where=folder, fix="It is not finished")
    record = next((place / RECORD for place in (folder, folder.parent) if (place / RECORD).is_file()), None)
    loaded = load(str(folder / "model") if record == folder / RECORD else model, "encoder")
    trained = durable.read_json(record, ModelError) if record else None
    task, max_length = _task_of(loaded, trained)
    weights = Path(loaded.folder) / HEAD
    tuned = (
        _with_own_head(loaded, task, trained["settings"], weights)
        if trained and weights.is_file()
        else _rebuild(loaded)
    )
    task = task if threshold is None else task.at_threshold(threshold)
    if text_column and len(text_column) not in (counts := {len(names) for names in task.texts}):
        raise ConfigError(
            f"{len(text_column)} columns, and this model reads {' or '.join(map(str, sorted(counts)))}",
            where="--text-column",
        )
    texts = (tuple(text_column),) if text_column else task.texts
    reader = replace(
        task, texts=texts, header=tuple(columns) or task.header, label=()
    )  # answers are not even looked at
    examples = tuple(replace(example, gold=None) for example in reader.read(file, labelled=False).examples)
    tokens = Tokens(loaded.tokenizer)
    windows = task.featurize(examples, tokens, max_length)
    chosen = pick_device(device)
    outputs, _ = run_model(tuned.to(chosen), windows, task, pad=tokens.pad, device=chosen)
    notes = (*windows.notes, task.rule) if task.rule else windows.notes
    return Predictions(
        task, examples, task.predict(outputs, windows, examples), max_length, windows.truncated, notes
    )


def _task_of(loaded: Loaded, record: dict[str, Any] | None) -> tuple[Task, int]:
    """Labels from the model; columns and length as it was trained, or the usual names where that is not
    known.
    """
    if not record and (Path(loaded.folder) / HEAD).is_file():
        fix = "Give the fine-tuning's folder, or copy that file to the folder above this one"
        raise ModelError(
            f"{HEAD} is here, and not the {RECORD} that says what it is", where=loaded.folder, fix=fix
        )
    if not record and loaded.kind not in USUAL:
        what = (
            f"this is {NEEDS.get(loaded.kind, 'an encoder without a head')}, and a fine-tuned classifier,"
            " tagger or reader is needed"
        )
        raise ModelError(what, where=loaded.folder, fix="Run electra finetune")
    config = durable.read_json(loaded.folder / "config.json", ModelError)
    if record:
        settings = record["settings"]
        return (
            load_task(record["task"]).configured(settings).rebuilt(loaded.labels, config),
            settings["max_length"],
        )
    usual = load_task(USUAL[loaded.kind])
    if loaded.kind == "classifier":
        usual = replace(usual, texts=(*load_task("pair").texts, *usual.texts))
    return usual.rebuilt(loaded.labels, config), loaded.config.max_positions


def _with_own_head(loaded: Loaded, task: Task, settings: dict[str, Any], weights: Path) -> FineTuned:
    """The saved encoder with the head beside its weights."""
    head = build_head(
        task.head, settings["head"], loaded.config, task.num_outputs, seed=0, pooling=settings["pooling"]
    )
    try:
        head.load_state_dict(read_safetensors(weights))
    except RuntimeError:  # names or shapes
        raise ModelError(
            "not the head of this model", where=weights, fix="Run electra finetune again"
        ) from None
    return FineTuned(loaded.encoder, head)


def _rebuild(loaded: Loaded) -> FineTuned:
    kind, pooling = cast(HeadKind, loaded.kind), cast(Pooling, loaded.pooling)
    head = build_head(
        kind,
        "transformers",
        loaded.config,
        loaded.head_weights["output.bias"].numel(),
        seed=0,
        pooling=pooling,
    )
    head.load_state_dict(loaded.head_weights)
    return FineTuned(loaded.encoder, head)
