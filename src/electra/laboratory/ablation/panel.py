"""The transfer panel: the tasks of panel.toml, an evaluation suite, that score each encoder of a study.

The tasks in `FROZEN` read the frozen encoder by a linear model on a learned mix of its layers
(`electra.laboratory.analysis.measures.linear`): nothing is random, so a score is a function of the encoder
alone. The others fine-tune it, with the defaults of electra finetune and one seed. The sentences used are a
fixed draw, the same for every arm and seed. All scores are shares (Matthews' correlation for CoLA, Spearman's
for STS-B), higher is better; the panel's own score is their mean.
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
from electra.finetuning.runner.all_seeds import finetune
from electra.finetuning.settings import Settings
from electra.finetuning.tasks import load_task
from electra.foundation.config import build
from electra.foundation.errors import ConfigError, DataError, Interrupted, nearest
from electra.foundation.progress import Say
from electra.laboratory.analysis.measures.linear import classify
from electra.laboratory.analysis.representations.encoders import rows_of_words
from electra.laboratory.evaluation.data import Found, find_data
from electra.laboratory.evaluation.suite import TaskEntry, read_suite
from electra.model.encoder import Encoder
from electra.model.hidden import word_vectors

VERSION = 2  # of every task here: raise it when a change alters a score
DEFAULT = ("pos", "chunking")
FROZEN = DEFAULT
LIMITS = (2000, 1000)  # sentences that a frozen encoder is read by, and scored on
PENALTY = 1e-4  # on the squared weights of that reading
LINE_SECONDS = 20.0  # between two lines of a fine-tuning that is under way

Stop = Callable[[], bool]


@dataclass(frozen=True)
class Subject:
    """A trained arm, ready to be scored."""

    encoder: Encoder
    tokenizer: Tokenizer
    run: Path
    data: Path  # the panel's
    seed: int
    say: Say
    stop: Stop


@dataclass(frozen=True)
class PanelTask:
    """A task of the panel's suite."""

    entry: TaskEntry

    def find(self, data: Path) -> Found:
        """Its files below `data`; one that is missing is a DataError."""
        found = find_data(self.entry, load_task(self.entry.task), [data]) if data.is_dir() else None
        missing = "train" if found is None or found.notes else "dev" if found.dev is None else ""
        if found is None or missing:
            fix = f"Put a {missing} file there, or name other tasks with `panel`"
            where = data / self.entry.folders[0]
            raise DataError(f"no {missing} file for the panel", where=where, fix=fix)
        return found

    def score(self, subject: Subject) -> dict[str, Any] | None:
        """Its score, and the mix of layers where it reads the frozen encoder; None when asked to stop."""
        read = self.read_frozen if self.entry.name in FROZEN else self.tune
        return read(subject, self.find(subject.data))

    def read_frozen(self, subject: Subject, found: Found) -> dict[str, Any]:
        task, sides = load_task(self.entry.task), []
        for path, limit in zip((found.train[0], found.dev), LIMITS, strict=True):
            assert path is not None
            examples = limit_by_hash(task.read(path, labelled=True).examples, limit)
            sides.append(words_of(subject.encoder, subject.tokenizer, examples))
        (train, labels), (judged, gold) = sides
        answers, mix = classify(train, labels, judged, PENALTY)
        share = float(np.mean(answers == np.array(gold)))
        return {"value": share, "mix": [round(weight, 4) for weight in mix.tolist()]}

    def tune(self, subject: Subject, found: Found) -> dict[str, Any] | None:
        out = subject.run / "panel" / self.entry.name
        own = {"task": self.entry.task, "data": found.train[0], "dev": found.dev, "seed": subject.seed}
        settings = build(Settings, {**self.entry.settings, **own, "out": out}, where=self.entry.name)
        try:
            results = finetune(str(subject.run), settings, _seldom(subject.say), subject.stop)
        except Interrupted:
            return None
        # An undefined score is that of the same answer to everything.
        return {"value": results[f"eval_{self.entry.metrics[0]}"] or 0.0}


def words_of(encoder: Encoder, tokenizer: Tokenizer, examples: Sequence[Example]) -> tuple[Tensor, list[str]]:
    """The vectors [layers + 1, words, D] of all words that the encoder has a token for, and their tags."""
    training = encoder.training
    rows = rows_of_words(tokenizer, [example.texts for example in examples], encoder.config.max_positions)
    states, has = word_vectors(encoder.eval(), rows, [len(example.texts) for example in examples])
    encoder.train(training)
    tags = [tag for example in examples for tag in example.gold]
    return torch.from_numpy(states[:, has]), [tag for tag, there in zip(tags, has, strict=True) if there]


def _seldom(say: Say) -> Say:
    last = [0.0]

    def now_and_then(line: str) -> None:
        if time.monotonic() - last[0] > LINE_SECONDS:
            last[0] = time.monotonic()
            say(line)

    return now_and_then


TASKS: Mapping[str, PanelTask] = {
    entry.name: PanelTask(entry) for entry in read_suite(Path(__file__).with_suffix(".toml")).task
}


def describe(data: Path | None, names: Sequence[str]) -> dict[str, Any]:
    """What study.json holds: the tasks, where their data lie, and what identifies a score of this panel."""
    unknown = next((name for name in names if name not in TASKS), None)
    if unknown is not None:
        raise ConfigError(f"no task named {unknown!r}", key="panel", fix=nearest(unknown, list(TASKS)))
    chosen = {name: TASKS[name] for name in names} if data is not None else {}
    entries = {name: task.entry for name, task in chosen.items()}
    return {
        "folder": str(data.resolve()) if data is not None else "",
        "tasks": {name: {"title": one.title, "metric": one.metrics[0]} for name, one in entries.items()},
        "identity": {
            name: {"version": VERSION, **task.find(data or Path()).digests()} for name, task in chosen.items()
        },
    }
