"""Saves the model of a fine-tuning as a folder that transformers loads.

If transformers has no class with the head, it loads only the encoder, and the head's weights are saved in a
separate file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_file, save

from electra.artifacts.model import ModelFolder
from electra.exchange.card import Card
from electra.exchange.huggingface import write_model
from electra.exchange.weight_names import Kind
from electra.finetuning.runner.finetuned_model import FinetunedModel, has_class
from electra.finetuning.runner.prepared import Finetuning
from electra.finetuning.runner.summary import FinishedSeed
from electra.finetuning.runner.task_file import task_file, task_source
from electra.finetuning.runner.train_seed import build_model
from electra.foundation import durable
from electra.foundation.extensions import HEADS
from electra.foundation.visible import plural
from electra.training.checkpoint import on_host


def save_model(
    tuning: Finetuning, folder: ModelFolder, chosen: FinishedSeed, results: dict[str, Any]
) -> None:
    """Writes the model of the chosen seed, with its model card and task.json.

    Args:
        tuning: the fine-tuning.
        folder: the folder to write.
        chosen: the seed whose model is saved.
        results: the contents of all_results.json.
    """
    settings, task = tuning.settings, tuning.task
    architecture = tuning.start.config.architecture
    is_one_file = has_class(task.head, settings.head, architecture, settings.pooling)
    model = load_seed(tuning, chosen)
    scale_outputs(model, tuning)
    head_weights = {} if is_one_file else on_host(model.head.state_dict())
    extra_files: dict[str, durable.Content] = {folder.head.name: save(head_weights)} if head_weights else {}
    extra_files[folder.task.name] = task_file(task_source(settings.task, task), settings.recorded())
    card = Card(
        name=f"{Path(results['model']).name}-{task.name}",
        kind=cast(Kind, task.head) if is_one_file else "encoder",
        task=task.name if head_weights else "",
        training={
            "task": task.name,
            "examples": results["train_samples"],
            "epochs": settings.epochs,
            "seed": chosen.seed,
        },
        metrics={name: score for name in task.metrics if (score := chosen.score(name)) is not None},
        measured_on=(
            f"the dev set of {task.name} ({results['eval_samples']} examples; the {settings.keep_seed} of"
            f" {plural(len(results['seeds']), 'seed')})"
        ),
    )
    write_model(
        folder.path,
        model.encoder,
        model.head if is_one_file else None,
        kind=card.kind,
        labels=task.label_names,
        tokenizer=tuning.start.tokenizer,
        card=card,
        pooling=settings.pooling if task.head in ("classifier", "vectors") else "mean",
        values=config_values(tuning, chosen.results["eval"]),
        further=extra_files,
    )
    if head_weights:
        head_and_pooling = (
            f"the head {HEADS.canonical_name(settings.head)} and the pooling {settings.pooling}"
        )
        tuning.say(
            f"transformers has no class with {head_and_pooling}: it loads {folder.path.name}/ as an encoder;"
            f" electra predict also loads {folder.head.name} from there"
        )


def load_seed(tuning: Finetuning, finished: FinishedSeed) -> FinetunedModel:
    """Returns the model of a finished seed."""
    model = build_model(tuning, finished.seed)
    model.load_state_dict(load_file(finished.folder.weights))
    return model


def config_values(tuning: Finetuning, scores: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the task and the pooling add to config.json; `scores` are the model's scores on dev."""
    records_pooling = tuning.start.config.architecture == "modern" and tuning.task.head == "classifier"
    pooling = {"classifier_pooling": tuning.settings.pooling} if records_pooling else {}
    return tuning.task.config_values(scores) | pooling


@torch.no_grad()
def scale_outputs(model: FinetunedModel, tuning: Finetuning) -> None:
    """Applies the scale of a regression to the last layer, so that it predicts in the data's unit."""
    factor, offset = tuning.task.output_scale()
    if (factor, offset) != (1.0, 0.0):
        model.head.rescale(factor, offset)
