"""The transfer panel: the tasks on which each encoder of a study is scored (panel.toml, an evaluation suite).

The tasks in `FROZEN_TASKS` probe the frozen encoder with a linear model on a learned mix of its layers
(`electra.laboratory.analysis.measures.linear`). Nothing is random, so the score depends on the encoder alone.
For the other tasks the encoder is fine-tuned with the defaults of `electra finetune` and one seed. The
sentences are a fixed sample, the same for every arm and seed. All scores are between 0 and 1, or correlations
(Matthews for CoLA, Spearman for STS-B); higher is better. The panel's own score is their mean.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from electra.foundation.errors import ConfigError, DataError, Interrupted, nearest
from electra.foundation.progress import Say
from electra.laboratory.analysis.measures.linear import classify
from electra.laboratory.analysis.representations.encoders import rows_of_words
from electra.laboratory.evaluation.data import TaskFiles, find_data
from electra.laboratory.evaluation.suite import TaskEntry, read_suite
from electra.model.encoder import Encoder
from electra.model.hidden import word_vectors

VERSION = 2  # increase it when a change alters the score of any task
DEFAULT_TASKS = ("pos", "chunking")
FROZEN_TASKS = DEFAULT_TASKS
SENTENCE_LIMITS = (2000, 1000)  # training and dev sentences for probes of the frozen encoder
PENALTY = 1e-4  # weight of the squared weights in the probe's loss
LINE_SECONDS = 20.0  # minimum time between two progress lines of a fine-tuning run

Stop = Callable[[], bool]


@dataclass(frozen=True)
class Subject:
    """A trained arm to be scored."""

    encoder: Encoder
    tokenizer: Tokenizer
    run_folder: Path
    """The run's folder, with the exported model."""
    data: Path
    """The folder with the panel's data."""
    seed: int
    """Seed of the fine-tuning; probes of the frozen encoder do not depend on it."""
    say: Say
    stop: Stop


@dataclass(frozen=True)
class PanelTask:
    """One task of the panel."""

    entry: TaskEntry

    def find_files(self, data: Path) -> TaskFiles:
        """Returns the task's files below the folder `data`.

        Raises:
            DataError: The training file or the dev file is missing.
        """
        files = find_data(self.entry, load_task(self.entry.task), [data]) if data.is_dir() else None
        if files is None or files.dev is None:
            missing_split = "train" if files is None or files.trained_on_dev else "dev"
            fix = f"Put a {missing_split} file there, or choose other tasks with `eval_task`"
            where = data / self.entry.folders[0]
            raise DataError(f"no {missing_split} file for the panel", where=where, fix=fix)
        return files

    def score(self, subject: Subject) -> dict[str, Any] | None:
        """Scores an encoder.

        Returns:
            The score as "value" and, for a frozen encoder, the weight of each layer as "mix"; None if a stop
            was requested.

        Raises:
            DataError: The training file or the dev file is missing.
        """
        scorer = self.score_frozen if self.entry.name in FROZEN_TASKS else self.score_finetuned
        return scorer(subject, self.find_files(subject.data))

    def score_frozen(self, subject: Subject, files: TaskFiles) -> dict[str, Any]:
        """Returns the accuracy of a linear model on the frozen encoder's states, and its mix of layers."""
        task, splits = load_task(self.entry.task), []
        for path, limit in zip((files.train[0], files.dev), SENTENCE_LIMITS, strict=True):
            assert path is not None
            examples = limit_by_hash(task.read(path, labelled=True).examples, limit)
            splits.append(states_and_tags(subject.encoder, subject.tokenizer, examples))
        (train, labels), (dev, gold) = splits
        predicted, mix = classify(train, labels, dev, PENALTY)
        accuracy = float(np.mean(predicted == np.array(gold)))
        return {"value": accuracy, "mix": [round(weight, 4) for weight in mix.tolist()]}

    def score_finetuned(self, subject: Subject, files: TaskFiles) -> dict[str, Any] | None:
        """Returns the dev score after fine-tuning the run's exported model; None if a stop was requested."""
        out = subject.run_folder / "panel" / self.entry.name
        fixed = {"task": self.entry.task, "data": files.train[0], "dev": files.dev, "seed": subject.seed}
        fixed["baselines"] = False  # a study reports the score alone
        settings = build(Settings, {**self.entry.settings, **fixed, "out": out}, where=self.entry.name)
        try:
            results = finetune(str(subject.run_folder), settings, _throttled(subject.say), subject.stop)
        except Interrupted:
            return None
        # A score may be undefined if all predictions are the same; such an encoder scores 0.
        return {"value": results[f"eval_{self.entry.metrics[0]}"] or 0.0}


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
    tags = [tag for example in examples for tag in example.gold]
    tags = [tag for tag, is_known in zip(tags, has_token, strict=True) if is_known]
    return torch.from_numpy(states[:, has_token]), tags


def _throttled(say: Say) -> Say:
    """Returns a `say` that passes on at most one line every `LINE_SECONDS`."""
    last_time = [0.0]

    def say_throttled(line: str) -> None:
        if time.monotonic() - last_time[0] > LINE_SECONDS:
            last_time[0] = time.monotonic()
            say(line)

    return say_throttled


TASKS: Mapping[str, PanelTask] = {
    entry.name: PanelTask(entry) for entry in read_suite(Path(__file__).with_suffix(".toml")).task
}


def panel_record(data: Path | None, names: Sequence[str]) -> dict[str, Any]:
    """Returns the panel as study.json records it.

    It has the folder, the tasks, and the version and file digests under which scores are comparable.

    Args:
        data: The folder with the tasks' data; None for no panel.
        names: The names of the tasks.

    Raises:
        ConfigError: A task is unknown.
        DataError: A task's files are missing.
    """
    unknown = next((name for name in names if name not in TASKS), None)
    if unknown is not None:
        raise ConfigError(f"no task named {unknown!r}", key="eval_task", fix=nearest(unknown, list(TASKS)))
    tasks = {name: TASKS[name] for name in names} if data is not None else {}
    entries = {name: task.entry for name, task in tasks.items()}
    return {
        "folder": str(data.resolve()) if data is not None else "",
        "tasks": {
            name: {"title": entry.title, "metric": entry.metrics[0]} for name, entry in entries.items()
        },
        "identity": {
            name: {"version": VERSION, **task.find_files(data or Path()).digests()}
            for name, task in tasks.items()
        },
    }
