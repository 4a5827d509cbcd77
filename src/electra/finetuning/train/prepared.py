"""Prepares what the seeds of a fine-tuning share, all settings included, and evaluates a model on a split."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from electra.artifacts.model_files import Pooling
from electra.data.corpus import unknown
from electra.exchange.load import Loaded
from electra.finetuning.heads import load_head
from electra.finetuning.heads.parts.contract import TrainingData
from electra.finetuning.labelled.examples import Examples
from electra.finetuning.settings import (
    AUTO,
    ResolvedSettings,
    Settings,
    default_layer_decay,
    default_learning_rate,
)
from electra.finetuning.task import Task
from electra.finetuning.train.dataset import Dataset
from electra.finetuning.windows.features import Ids, Tokens, Windows
from electra.foundation.errors import ConfigError, TokenizerError
from electra.foundation.extensions import HEADS
from electra.foundation.progress import Say, quiet
from electra.model.precision import pick_device, pick_precision
from electra.model.sizes import EncoderConfig

FROZEN, COUNTS = "frozen", "counts"  # the heads that are fitted
MIN_UPDATES, MAX_EPOCHS = 300, 20  # few examples get more epochs, to reach MIN_UPDATES


@dataclass(frozen=True)
class FeaturizedSplit:
    """The examples of a split and their windows."""

    windows: Windows
    examples: Examples


@dataclass(frozen=True)
class Finetuning:
    """Everything that the seeds of a fine-tuning share: settings, task, data, initial model and hardware."""

    settings: ResolvedSettings
    task: Task  # fitted
    start: Loaded  # the model that each seed starts from
    train: Windows
    splits: dict[str, FeaturizedSplit]  # dev and other files; those with answers are scored
    device: torch.device
    precision: str
    folds: Callable[[], Ids]  # gives those of the training examples (`Dataset.folds`)
    say: Say = quiet
    stopping: Callable[[], bool] = lambda: False  # called after each step; True stops the run

    @property
    def training_data(self) -> TrainingData:
        """What a head receives before training."""
        return TrainingData(self.train, self.task, self.start.tokenizer, self.device, self.folds)

    @property
    def pad(self) -> int:
        """The id of the padding token."""
        return self.start.tokenizer.specials.pad

    @property
    def steps_per_epoch(self) -> int:
        """The number of updates in one pass over the training data."""
        return math.ceil(len(self.train) / self.settings.batch_size)

    @property
    def total_steps(self) -> int:
        """The number of updates, which is at least 1 unless there are 0 epochs."""
        return max(1, round(self.settings.epochs * self.steps_per_epoch)) if self.settings.epochs else 0


def with_recorded_defaults(settings: Settings, record: Mapping[str, Any]) -> Settings:
    """Returns the settings; unset ones are as in the record ({}: none): new defaults change no old run."""
    recorded = {"calibrate": False} | record.get("settings", {}) if record else {}
    names = ("dropout", "epochs", "learning_rate", "layer_decay", "max_length", "calibrate", "head")
    unset = [name for name in names if getattr(settings, name) in (None, AUTO) and name in recorded]
    return replace(settings, **{name: recorded[name] for name in unset})


def resolve(
    settings: Settings, dataset: Dataset, config: EncoderConfig, own_pooling: Pooling | None = None
) -> ResolvedSettings:
    """Returns the settings with every default filled in, and `own_pooling`, the encoder's. Checks them."""
    head, task = load_head(settings.head), dataset.task
    if settings.max_length is not None and settings.max_length > config.max_positions:
        problem = f"{settings.max_length} tokens, but the model has {config.max_positions} positions"
        raise ConfigError(problem, key="max_length", fix=f"Use at most {config.max_positions}")
    if head.epochs == 0 and settings.epochs:
        problem = f"nothing is trained with the head {HEADS.canonical_name(settings.head)}"
        raise ConfigError(problem, key="epochs", fix="Omit `epochs`, or use another `head`")
    train = dataset.splits["train"]
    few_example_epochs = min(MAX_EPOCHS, math.ceil(MIN_UPDATES * settings.batch_size / len(train)))
    defaults: dict[str, Any] = {
        "dropout": config.dropout if head.dropout is None else head.dropout,
        "epochs": max(task.epochs, few_example_epochs) if head.epochs is None else head.epochs,
        "learning_rate": default_learning_rate(
            config.hidden_size, tagging=task.head == "tagger", labels=task.num_outputs
        ),
        "layer_decay": default_layer_decay(config.hidden_size),
        "max_length": min(task.max_length, config.max_positions),
        "calibrate": True,
    }
    values = {field.name: getattr(settings, field.name) for field in fields(Settings)}
    values["head"] = head.name if settings.head == AUTO else settings.head
    values |= {name: value for name, value in defaults.items() if values[name] is None}
    # Replaced token detection does not train [CLS] to represent the text, so the mean is better where the
    # transformers class supports it.
    usual = "mean" if config.architecture == "modern" else "cls"
    values["pooling"] = settings.pooling or own_pooling or head.pooling or usual
    if task.head != "classifier":
        if settings.pooling not in (None, "cls"):
            problem = f"does not apply to a {task.head}, which predicts for each token"
            raise ConfigError(problem, key="pooling", fix="Omit it")
        values["pooling"] = "cls"
    return ResolvedSettings(
        **values,
        separate_texts=head.separates_pairs and task.head == "classifier" and len(train[0].texts) == 2,
        read_columns=() if settings.text_column else dataset.text_columns,
    )


def encoder_pooling(loaded: Loaded) -> Pooling | None:
    """Returns the pooling in the encoder's sentence-transformers settings; None without, or with a head."""
    return loaded.text_vector.pooling if loaded.kind == "encoder" and loaded.text_vector.files else None


def prepare(settings: ResolvedSettings, dataset: Dataset, loaded: Loaded) -> tuple[Finetuning, list[str]]:
    """Tokenises the data once for all seeds; also returns notes on the data for the user."""
    tokens, task, notes = Tokens(loaded.tokenizer), dataset.task, list(dataset.notes)
    splits: dict[str, FeaturizedSplit] = {}
    loaded.tokenizer.counted = unknown.Count()
    for split, examples in dataset.splits.items():
        windows = task.featurize(examples, tokens, settings.max_length, train=split == "train")
        if windows.truncated:
            count_note = f"{windows.truncated} of {len(examples)} examples"
            notes.append(f"{split}: {count_note} truncated to {settings.max_length} tokens")
        notes += [f"{split}: {note}" for note in windows.notes]
        splits[split] = FeaturizedSplit(windows, examples)
    try:
        note = unknown.note(loaded.tokenizer, settings.allow_unknown)
    except TokenizerError as error:
        fix = f"{error.fix}, and `head` counts then reads the words themselves"
        raise TokenizerError(error.what, where=error.where, fix=fix) from None
    notes[:0] = [note] if note else []
    train, device = splits.pop("train").windows, pick_device(settings.device)
    precision = pick_precision(settings.precision, device)
    folds = lambda: dataset.folds  # noqa: E731
    return Finetuning(settings, task, loaded, train, splits, device, precision, folds), notes
