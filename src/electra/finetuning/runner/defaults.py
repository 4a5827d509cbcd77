"""Fills in the settings that the user did not set: defaults, or what an existing folder recorded."""

from __future__ import annotations

import math
from dataclasses import fields, replace

from electra.artifacts.finetuning import FinetuningFolder
from electra.artifacts.model import Pooling
from electra.exchange.load import Loaded
from electra.finetuning.heads import load_head
from electra.finetuning.runner.dataset import Dataset
from electra.finetuning.runner.finetuned_model import choose_pooling
from electra.finetuning.settings import (
    SEARCHABLE,
    ResolvedSettings,
    Settings,
    default_layer_decay,
    default_learning_rate,
    settings_to_search,
)
from electra.finetuning.tasks.parts.task import Task
from electra.foundation.errors import ConfigError
from electra.foundation.extensions import HEADS
from electra.foundation.terminal_text import plural
from electra.model.sizes import EncoderConfig

MIN_UPDATES, MAX_EPOCHS = 300, 20  # few examples get more epochs, to reach MIN_UPDATES


def resolve(
    settings: Settings, dataset: Dataset, config: EncoderConfig, pooling: Pooling | None = None
) -> ResolvedSettings:
    """Returns the settings with every default filled in."""
    positions = config.max_positions
    if settings.max_length is not None and settings.max_length > positions:
        problem = f"{settings.max_length} tokens, but the model has {positions} positions"
        raise ConfigError(problem, key="max_length", fix=f"Use at most {positions}")
    if settings.teacher is None and settings.teacher_weight != Settings.teacher_weight:
        fix = "Pass `teacher` as well"
        raise ConfigError("has no effect without a teacher", key="teacher_weight", fix=fix)
    if load_head(settings.head).epochs == 0:
        refuse_training(settings)
    if settings.search and not settings_to_search(settings):
        fix = f"Omit {', '.join(f'`{name}`' for name in SEARCHABLE[:-1])} or `{SEARCHABLE[-1]}`"
        raise ConfigError("no setting is left to search", key="search", fix=fix)
    values = {field.name: getattr(settings, field.name) for field in fields(Settings)}
    task = dataset.task
    defaults = default_settings(settings, dataset, config)
    values |= {name: value for name, (value, _) in defaults.items() if values[name] is None}
    values["calibrate"] = settings.calibrate is not False
    default_pooling = pooling or load_head(settings.head).pooling
    values["pooling"] = choose_pooling(settings.pooling, task.head, config.architecture, default_pooling)
    num_texts = len(dataset.splits["train"][0].texts)
    return ResolvedSettings(
        **values,
        separate_texts=separates_texts(settings.head, task, num_texts),
        read_columns=() if settings.text_column else dataset.text_columns,
    )


def encoder_pooling(loaded: Loaded) -> Pooling | None:
    """Returns the pooling in the encoder's sentence-transformers settings.

    Returns None without such settings, and for a model with a head.
    """
    return loaded.text_vector.pooling if loaded.kind == "encoder" and loaded.text_vector.files else None


def refuse_training(settings: Settings) -> None:
    """Raises ConfigError if settings ask to train with a head for an encoder that is not trained."""
    problem = f"nothing is trained with the head {HEADS.canonical_name(settings.head)}"
    for name in ("search", "epochs"):
        if getattr(settings, name):
            raise ConfigError(problem, key=name, fix=f"Omit `{name}`, or use another `head`")


def separates_texts(head: str, task: Task, num_texts: int) -> bool:
    """Whether the head encodes the texts of an example separately; `num_texts` is their number."""
    return load_head(head).separates_pairs and task.head == "classifier" and num_texts == 2


def with_recorded_defaults(settings: Settings, folder: FinetuningFolder) -> Settings:
    """Returns the settings; unset ones are as recorded in the folder, so new defaults change no old run.

    Returns them unchanged if the folder does not exist. Settings to search stay unset.
    """
    if not folder.exists():
        return settings
    recorded_settings = {"calibrate": False} | folder.record.get("settings", {})
    searched = SEARCHABLE if settings.search else ()
    names = {"dropout", "epochs", "learning_rate", "layer_decay", "max_length", "calibrate"} - {*searched}
    unset_names = {name for name in names if getattr(settings, name) is None and name in recorded_settings}
    return replace(settings, **{name: recorded_settings[name] for name in unset_names})


def default_settings(
    settings: Settings, dataset: Dataset, config: EncoderConfig
) -> dict[str, tuple[float, str]]:
    """Returns (default, origin) by setting, for defaults that depend on data, task, head or encoder.

    The origin says, for the user, what the default depends on.
    """
    task, num_examples = dataset.task, len(dataset.splits["train"])
    head, width = load_head(settings.head), f"width {config.hidden_size}"
    head_origin = f"the head {HEADS.canonical_name(settings.head)}"
    usual_rate = default_learning_rate(config.hidden_size)
    rate = default_learning_rate(config.hidden_size, tagging=task.head == "tagger")
    dropout, epochs = (config.dropout, "as in pre-training"), (task.epochs, "the task")
    few_example_epochs = min(MAX_EPOCHS, math.ceil(MIN_UPDATES * settings.batch_size / num_examples))
    if few_example_epochs > task.epochs:
        epochs = (few_example_epochs, plural(num_examples, "example"))
    if head.epochs is not None:
        epochs = (head.epochs, head_origin)
    if head.dropout is not None:
        dropout = (head.dropout, head_origin)
    return {
        "dropout": dropout,
        "epochs": epochs,
        "learning_rate": (rate, width if rate == usual_rate else f"{width}, tagging"),
        "layer_decay": (default_layer_decay(config.hidden_size), width),
        "max_length": (min(task.max_length, config.max_positions), "the task"),
    }


def describe_defaults(settings: Settings, dataset: Dataset, config: EncoderConfig) -> str:
    """Returns a line on the defaults in use and their origins; "" if the user set everything."""
    defaults = default_settings(settings, dataset, config)
    searched_names = settings_to_search(settings) if settings.search else ()
    descriptions = [
        f"{name} {value:g} ({origin})"
        for name, (value, origin) in defaults.items()
        if getattr(settings, name) is None and name not in searched_names
    ]
    return f"defaults: {', '.join(descriptions)}" if descriptions else ""
