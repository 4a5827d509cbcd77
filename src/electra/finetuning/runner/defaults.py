"""Fills in the settings that the user did not set: what an existing folder recorded, else defaults."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from electra.artifacts.model import Pooling
from electra.exchange.load import Loaded
from electra.finetuning.heads import load_head
from electra.finetuning.runner.dataset import Dataset
from electra.finetuning.settings import (
    ResolvedSettings,
    Settings,
    default_layer_decay,
    default_learning_rate,
)
from electra.foundation.errors import ConfigError
from electra.foundation.extensions import HEADS
from electra.model.sizes import EncoderConfig

MIN_UPDATES, MAX_EPOCHS = 300, 20  # few examples get more epochs, to reach MIN_UPDATES


def with_recorded_defaults(settings: Settings, record: Mapping[str, Any]) -> Settings:
    """Returns the settings; unset ones are as in the record ({}: none): new defaults change no old run."""
    recorded = {"calibrate": False} | record.get("settings", {}) if record else {}
    names = ("dropout", "epochs", "learning_rate", "layer_decay", "max_length", "calibrate")
    unset = [name for name in names if getattr(settings, name) is None and name in recorded]
    return replace(settings, **{name: recorded[name] for name in unset})


def resolve(
    settings: Settings, dataset: Dataset, config: EncoderConfig, own_pooling: Pooling | None = None
) -> ResolvedSettings:
    """Returns the settings with every default filled in; `own_pooling` is the encoder's, if it has one.

    Raises ConfigError if a setting does not fit the model or the head.
    """
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
        "learning_rate": default_learning_rate(config.hidden_size, tagging=task.head == "tagger"),
        "layer_decay": default_layer_decay(config.hidden_size),
        "max_length": min(task.max_length, config.max_positions),
        "calibrate": True,
    }
    values = {field.name: getattr(settings, field.name) for field in fields(Settings)}
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


def describe_defaults(settings: Settings, resolved: ResolvedSettings) -> str:
    """Returns a line with the defaults in use; "" if the user set everything."""
    names = ("dropout", "epochs", "learning_rate", "layer_decay", "max_length")
    unset = [f"{name} {getattr(resolved, name):g}" for name in names if getattr(settings, name) is None]
    return f"defaults: {', '.join(unset)}" if unset else ""
