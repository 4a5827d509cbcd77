"""The transfer panel: the tasks on which each encoder of a study is scored (panel.toml, an evaluation suite).

The tasks in `FROZEN_TASKS` probe the frozen encoder with a linear model on a learned mix of its layers
(`electra.laboratory.analysis.measures.linear`). Nothing is random, so the score depends on the encoder alone.
For the other tasks the encoder is fine-tuned with the defaults of `electra finetune` and one seed. The
sentences are a fixed sample, the same for every arm and seed. All scores are between 0 and 1, or correlations
(Matthews for CoLA, Spearman for STS-B); higher is better. The panel's own score is their mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from electra.data.tokenizer import Tokenizer
from electra.finetuning.labelled.examples import Example
from electra.finetuning.labelled.splits import limit_by_hash
from electra.finetuning.runner.finetune import finetune
from electra.finetuning.settings import Settings
from electra.finetuning.tasks import load_task
from electra.foundation.config import build
from electra.foundation.errors import ConfigError, DataError, nearest
from electra.foundation.progress import Say
from electra.foundation.signals import Stop
from electra.laboratory.analysis.measures.linear import classify
from electra.laboratory.analysis.representations.encoders import rows_of_words
from electra.laboratory.evaluation.data import TaskFiles, find_data
from electra.laboratory.evaluation.suite import TaskEntry, read_suite
from electra.model.encoder import Encoder
from electra.model.hidden import word_vectors

VERSION = 2  # increase it when a change alters the score of any task
DEFAULT_TASKS = FROZEN_TASKS = ("pos", "chunking")
SENTENCE_LIMITS = (2000, 1000)  # training and dev sentences for probes of the frozen encoder
PENALTY = 1e-4  # weight of the squared weights in the probe's loss
TASKS = {entry.name: entry for entry in read_suite(Path(__file__).with_suffix(".toml")).task}


def find_files(entry: TaskEntry, data: Path) -> TaskFiles:
    """Returns a task's files below the folder `data`. Raises DataError if train or dev is missing."""
    files = find_data(entry, load_task(entry.task), [data]) if data.is_dir() else None
    if files is None or files.dev is None:
        split = "train" if files is None or files.trained_on_dev else "dev"
        fix = f"Put a {split} file there, or choose other tasks with `eval_task`"
        raise DataError(f"no {split} file for the panel", where=data / entry.folders[0], fix=fix)
    return files


def score_frozen(encoder: Encoder, tokenizer: Tokenizer, name: str, data: Path) -> dict[str, Any]:
    """Returns the accuracy ("value") of a linear model on the frozen encoder's states, and its `mix`."""
    files, task, splits = find_files(TASKS[name], data), load_task(TASKS[name].task), []
    for path, limit in zip((files.train, files.dev), SENTENCE_LIMITS, strict=True):
        assert path is not None
        examples = limit_by_hash(task.read(path, labelled=True).examples, limit)
        splits.append(states_and_tags(encoder, tokenizer, examples))
    (train, labels), (dev, gold) = splits
    predicted, mix = classify(train, labels, dev, PENALTY)
    accuracy = float(np.mean(predicted == np.array(gold)))
    return {"value": accuracy, "mix": [round(weight, 4) for weight in mix.tolist()]}


def score_finetuned(run: Path, name: str, data: Path, seed: int, *, say: Say, stop: Stop) -> dict[str, Any]:
    """Returns the dev score ("value") after fine-tuning the run's exported model."""
    entry, files = TASKS[name], find_files(TASKS[name], data)
    fixed = {"task": entry.task, "data": files.train, "dev": files.dev, "seed": seed}
    fixed |= {"out": run / "panel" / name, "baselines": False}
    settings = build(Settings, {**entry.settings, **fixed}, where=name)
    results = finetune(str(run), settings, say, stop)
    # A score may be undefined if all predictions are the same; such an encoder scores 0.
    return {"value": results[f"eval_{entry.metrics[0]}"] or 0.0}


def states_and_tags(
    encoder: Encoder, tokenizer: Tokenizer, examples: Sequence[Example]
) -> tuple[Tensor, list[str]]:
    """Returns the states [layers + 1, words, D] and the tags of all words that have a token.

    The encoder is read in evaluation mode and keeps its own mode.
    """
    training = encoder.training
    rows = rows_of_words(tokenizer, [example.texts for example in examples], encoder.config.max_positions)
    states, has_token = word_vectors(encoder.eval(), rows, [len(example.texts) for example in examples])
    encoder.train(training)
    tags = np.array([tag for example in examples for tag in example.gold], object)[has_token]
    return torch.from_numpy(states[:, has_token]), tags.tolist()


def panel_record(data: Path | None, names: Sequence[str]) -> dict[str, Any]:
    """Returns the panel as study.json records it.

    It has the folder (`data`; None: no panel), the tasks, and the version and file digests under which scores
    are comparable. Raises ConfigError for an unknown task.
    """
    for name in names:
        if name not in TASKS:
            raise ConfigError(f"no task named {name!r}", key="eval_task", fix=nearest(name, list(TASKS)))
    if data is None:
        return {"folder": "", "tasks": {}, "identity": {}}
    entries = [TASKS[name] for name in names]
    return {
        "folder": str(data.resolve()),
        "tasks": {entry.name: {"title": entry.title, "metric": entry.metrics[0]} for entry in entries},
        "identity": {e.name: {"version": VERSION, **find_files(e, data).digests()} for e in entries},
    }
