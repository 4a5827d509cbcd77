"""A fine-tuned folder and a file of texts -> a label and its probabilities, or a number, for each row.

Works with what `electra finetune` saved and with any ElectraForSequenceClassification or ModernBertForSequenceClassification folder.
Answers that the file may hold are not looked at: predicting is not evaluating.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from electra import durable
from electra.errors import ModelError
from electra.finetune.features import Tokens
from electra.finetune.heads import FineTuned, build_head
from electra.finetune.sequence import SequenceTask
from electra.finetune.settings import RECORD
from electra.finetune.tasks import Example, Task, load_task
from electra.finetune.trainer import run_model
from electra.interop.load import Loaded, load
from electra.training.precision import pick_device


@dataclass(frozen=True)
class Predictions:
    task: Task
    examples: tuple[Example, ...]
    values: list[Any]
    max_length: int
    truncated: int  # examples longer than max_length tokens

    def rows(self) -> list[tuple[str, ...]]:
        """A table, header first."""
        return self.task.table(self.values, self.examples)


def predict(model: str, file: Path, text_column: Sequence[str] = (), columns: Sequence[str] = (), device: str = "auto") -> Predictions:
    """Predict each row of `file`. `model`: a fine-tuning's output folder, its model folder, or any classifier's folder or hub name."""
    folder = Path(model)
    if (folder / RECORD).is_file() and not (folder / "model").is_dir():
        raise ModelError("this fine-tuning has no model folder", where=folder, fix="It is not finished, or used --head linear")
    record = next((place / RECORD for place in (folder, folder.parent) if (place / RECORD).is_file()), None)
    loaded = load(str(folder / "model") if record == folder / RECORD else model, "classifier")
    task, max_length = _task_of(loaded, durable.read_json(record, ModelError) if record else None)
    task = replace(task, texts=(tuple(text_column),) if text_column else task.texts, header=tuple(columns) or task.header)
    examples = tuple(replace(example, gold=None) for example in task.read(file, labelled=False).examples)
    tokens = Tokens(loaded.tokenizer)
    windows = task.featurize(examples, tokens, max_length)
    chosen = pick_device(device)
    outputs, _ = run_model(_rebuild(loaded).to(chosen), windows, task, pad=tokens.pad, device=chosen)
    return Predictions(task, examples, task.predict(outputs, windows, len(examples)), max_length, windows.truncated)


def _task_of(loaded: Loaded, record: dict[str, Any] | None) -> tuple[SequenceTask, int]:
    """Labels from the model; columns and length as it was trained, or the usual names where that is not known."""
    single, pair = load_task("classification"), load_task("pair")
    trained = load_task(record["task"]) if record else replace(single, texts=(*pair.texts, *single.texts))
    settings = record["settings"] if record else {}
    assert isinstance(trained, SequenceTask)
    regression = loaded.head_weights["output.bias"].numel() == 1
    task = replace(
        trained,
        kind="regression" if regression else "classification",
        labels=() if regression else loaded.labels,
        scale=(0.0, 1.0),  # the saved model answers in the data's unit
        texts=(tuple(settings["text_column"]),) if settings.get("text_column") else trained.texts,
        header=tuple(settings.get("columns", ())) or trained.header,
    )
    return task, settings.get("max_length", loaded.config.max_positions)


def _rebuild(loaded: Loaded) -> FineTuned:
    head = build_head("classifier", "transformers", loaded.config, loaded.head_weights["output.bias"].numel(), seed=0)
    head.load_state_dict(loaded.head_weights)
    return FineTuned(loaded.encoder, head)
