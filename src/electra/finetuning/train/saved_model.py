"""Saves the model of a fine-tuning as a folder that transformers loads, with task.json: task and settings.

If transformers has no class with the head, it loads only the encoder, and the head's weights are saved in a
separate file.
"""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_file, save

from electra.artifacts.finetuning_files import SeedFolder, best_epoch
from electra.artifacts.model_files import ModelFolder
from electra.exchange.card import Card
from electra.exchange.huggingface import write_model
from electra.exchange.loaded import Loaded
from electra.exchange.pooling import TextVector
from electra.exchange.weight_names import Kind
from electra.finetuning.finetuned_model import has_class
from electra.finetuning.heads import load_head
from electra.finetuning.settings import ResolvedSettings
from electra.finetuning.task import Task
from electra.finetuning.text_answers import OUTPUT_RANGE
from electra.finetuning.train.one_seed import build_model
from electra.finetuning.train.prepared import Finetuning
from electra.finetuning.word_tags import TRANSITIONS_KEY
from electra.foundation import durable
from electra.foundation.config import build
from electra.foundation.errors import ConfigError, ModelError
from electra.foundation.extensions import HEADS, TASKS
from electra.foundation.terminal_text import plural
from electra.training.checkpoint import on_host

REPAIR_ADVICE = "Copy, export or fine-tune the model again"
REQUIRED_SETTINGS = {"head", "pooling", "max_length"}


def save_model(
    prepared: Finetuning,
    folder: ModelFolder,
    seed: SeedFolder,
    record: Mapping[str, Any],
    results: Mapping[str, Any],
) -> None:
    """Writes the model of a seed, with its model card and task.json.

    `record` is results.json of the seed, with all scores, and `results` all_results.json.
    """
    settings, task = prepared.settings, prepared.task
    architecture = prepared.start.config.architecture
    is_one_file = has_class(task.head, settings.head, architecture, settings.pooling)
    model = build_model(prepared, record["seed"])
    model.load_state_dict(load_file(seed.weights))
    if (scale := task.output_scale()) != (1.0, 0.0):  # predictions in the data's unit
        with torch.no_grad():
            model.head.rescale(*scale)
    elif OUTPUT_RANGE in task.config_values(record["eval"]):
        prepared.say(f"transformers predicts from 0 to 1: {OUTPUT_RANGE} of config.json has the range")
    if TRANSITIONS_KEY in task.config_values(record["eval"]):
        lacking = "give each word its own best tag: they do not read"
        prepared.say(f"transformers and ONNX graphs {lacking} {TRANSITIONS_KEY} of config.json")
    head_weights = {} if is_one_file else on_host(model.head.state_dict())
    extra_files: dict[str, durable.Content] = {folder.head.name: save(head_weights)} if head_weights else {}
    recorded = {"task": task_source(settings.task, task), "settings": settings.recorded()}
    extra_files[folder.task.name] = durable.to_json(recorded)
    text_vector = prepared.start.text_vector
    if task.head == "classifier" and settings.pooling != text_vector.pooling:
        text_vector = TextVector(settings.pooling)
        if prepared.start.text_vector.files:
            prepared.say(
                f"the vectors of {folder.path.name}/ are those of its head, pooled by {settings.pooling};"
                " the steps of the encoder's modules.json do not apply"
            )
    chosen = ", ".join(filter(None, (f"the best of {plural(len(results['seeds']), 'seed')}", best_epoch(results))))
    card = Card(
        name=f"{Path(results['model']).name}-{task.name}",
        kind=cast(Kind, task.head) if is_one_file else "encoder",
        task=task.name if head_weights else "",
        training={
            "task": task.name,
            "examples": results["train_samples"],
            "epochs": settings.epochs,
            "seed": record["seed"],
        },
        metrics={name: score for name in task.metrics if (score := record["eval"][name]) is not None},
        measured_on=(f"the dev set of {task.name} ({results['eval_samples']} examples; {chosen})"),
    )
    tuned = Loaded(
        model.encoder, model.head if is_one_file else None, model.encoder.config, prepared.start.tokenizer,
        card.kind, tuple(task.label_names), folder.path, text_vector=text_vector,
    )  # fmt: skip
    values = config_values(prepared, record["eval"])
    write_model(folder.path, tuned, card, values=values, further=extra_files)
    if head_weights:
        head = f"the head {HEADS.canonical_name(settings.head)} and the pooling {settings.pooling}"
        prepared.say(
            f"transformers has no class with {head}: it loads {folder.path.name}/ as an encoder;"
            f" electra predict also loads {folder.head.name} from there"
        )


def config_values(prepared: Finetuning, scores: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the task and the pooling add to config.json; `scores` are the model's scores on dev."""
    records_pooling = prepared.start.config.architecture == "modern" and prepared.task.head == "classifier"
    pooling = {"classifier_pooling": prepared.settings.pooling} if records_pooling else {}
    return prepared.task.config_values(scores) | pooling


def task_source(name: str, task: Task) -> str:
    """Returns the name to load the task by; for a file of your own, the task's (pass the file again)."""
    return TASKS.canonical_name(name) if TASKS.identity(name) else task.name


def read_task(folder: Path) -> dict[str, Any] | None:
    """Returns the validated contents of task.json; None if the folder has none."""
    path = ModelFolder(folder).task
    if not path.is_file():
        return None
    record: dict[str, Any] = durable.read_json(path, ModelError, fix=REPAIR_ADVICE)
    check_task(record, path)
    return record


def check_task(record: Any, path: Path) -> None:
    """Raises ModelError if the record, read from `path`, is not a valid task with settings."""
    task, settings = (record.get(name) if isinstance(record, dict) else None for name in ("task", "settings"))
    if not isinstance(task, str) or not isinstance(settings, dict):
        raise ModelError("not the task of a fine-tuned model", where=path, fix=REPAIR_ADVICE)
    setting_names = {field.name for field in fields(ResolvedSettings)}
    values = {name: value for name, value in settings.items() if name in setting_names}
    if missing := REQUIRED_SETTINGS - values.keys():
        problem = f"{', '.join(sorted(missing))} missing"
        raise ModelError(problem, where=path, key="settings", fix=REPAIR_ADVICE)
    try:
        build(ResolvedSettings, {**values, "task": task, "data": "", "out": ""}, "settings")
        load_head(values["head"])
    except ConfigError as error:
        key = error.where or error.key
        raise ModelError(error.what, where=path, key=key, fix=error.fix or REPAIR_ADVICE) from None
