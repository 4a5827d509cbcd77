"""The transfer panel: a few small fixed tasks that tell a good encoder from a bad one in a minute or two on a
slow core.

pos and chunking ask the frozen encoder (probing.py); the others tune it (finetune/). Data are found under one
folder by name:

    ud-english-ewt/ train, dev    chunking/conll2000/ train, test    glue/sts-b, sst-2, cola, mnli  train, dev

The sentences used are a fixed draw, the same for every arm and seed. All scores are shares (Matthews'
correlation for CoLA, Spearman's for STS-B), higher is better; the panel's own score is their mean.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.data.rows import data_digest
from electra.data.tokenizer import Tokenizer
from electra.finetuning.labelled import tagged_sentences
from electra.finetuning.labelled.splits import find_split, limit_by_hash
from electra.finetuning.runner.all_seeds import finetune
from electra.finetuning.runner.dataset import choose_task, locate
from electra.finetuning.settings import Settings
from electra.foundation.errors import ConfigError, DataError, Interrupted, nearest
from electra.foundation.progress import Say
from electra.model.encoder import Encoder

VERSION = 1  # of every task here: raise it when a change alters a score
DEFAULT = ("pos", "chunking")
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
class Probed:
    """Frozen: a linear probe on a learned mix of the layers."""

    title: str
    folder: str
    splits: tuple[str, str]  # to learn from, to be judged on
    tag: str  # the column
    limits: tuple[int, int]  # sentences of each
    metric: str = "accuracy"

    def files(self, data: Path) -> dict[str, Path]:
        folder = data / self.folder
        found = {
            split: find_split(folder, split, formats=tagged_sentences.FORMATS) if folder.is_dir() else None
            for split in self.splits
        }
        return {split: path or _refuse(folder, split) for split, path in found.items()}

    def score(self, subject: Subject) -> dict[str, Any] | None:
        from electra.laboratory.ablation.probing import Tagged, probe

        sides = []
        for path, limit in zip(self.files(subject.data).values(), self.limits, strict=True):
            examples = tagged_sentences.read_sentences(
                path, tagged_sentences.TagColumns(word=("word",), tag=(self.tag,)), labelled=True
            ).examples
            chosen = limit_by_hash(examples, limit)
            sides.append(Tagged([example.texts for example in chosen], [example.gold for example in chosen]))
        found = probe(subject.encoder, subject.tokenizer, *sides)
        return {"value": found.accuracy, "mix": [round(weight, 4) for weight in found.mix]}


@dataclass(frozen=True)
class Tuned:
    """Fine-tuned whole, with the defaults of electra finetune, one seed."""

    title: str
    folder: str
    task: str
    metric: str
    limit_train: int | None = None

    def settings(self, data: Path, out: Path, seed: int) -> Settings:
        return Settings(
            task=self.task, data=data / self.folder, out=out, seed=seed, limit_train=self.limit_train
        )

    def files(self, data: Path) -> dict[str, Path]:
        settings = self.settings(data, Path("."), 0)
        found = locate(settings, choose_task(settings))
        return {split: found.get(split) or _refuse(data / self.folder, split) for split in ("train", "dev")}

    def score(self, subject: Subject) -> dict[str, Any] | None:
        settings = self.settings(subject.data, subject.run / "panel" / self.task, subject.seed)
        try:
            results = finetune(str(subject.run), settings, _seldom(subject.say), subject.stop)
        except Interrupted:
            return None
        return {"value": results[f"eval_{self.metric}"] or 0.0}  # undefined: the same answer to everything


def _refuse(folder: Path, split: str) -> Path:
    fix = f"Put a {split} file there, or name other tasks with `panel`"
    raise DataError(f"no {split} file for the panel", where=folder, fix=fix)


def _seldom(say: Say) -> Say:
    last = [0.0]

    def now_and_then(line: str) -> None:
        if time.monotonic() - last[0] > LINE_SECONDS:
            last[0] = time.monotonic()
            say(line)

    return now_and_then


TASKS: Mapping[str, Probed | Tuned] = {
    "pos": Probed("Part of speech (frozen)", "ud-english-ewt", ("train", "dev"), "UPOS", (2000, 1000)),
    "chunking": Probed("Chunking (frozen)", "chunking/conll2000", ("train", "test"), "tag", (2000, 1000)),
    "stsb": Tuned("STS-B (tuned, 1,500)", "glue/sts-b", "stsb", "spearmanr", 1500),
    "sst2": Tuned("SST-2 (tuned, 6,000)", "glue/sst-2", "sst2", "accuracy", 6000),
    "cola": Tuned("CoLA (tuned)", "glue/cola", "cola", "matthews_correlation"),
    "mnli": Tuned("MNLI (tuned, 10,000)", "glue/mnli", "mnli", "accuracy", 10000),
}


def describe(data: Path | None, names: Sequence[str]) -> dict[str, Any]:
    """What study.json holds: the tasks, where their data lie, and what identifies a score of this panel."""
    unknown = next((name for name in names if name not in TASKS), None)
    if unknown is not None:
        raise ConfigError(f"no task named {unknown!r}", key="panel", fix=nearest(unknown, list(TASKS)))
    chosen: Mapping[str, Probed | Tuned] = {name: TASKS[name] for name in names} if data is not None else {}
    return {
        "folder": str(data.resolve()) if data is not None else "",
        "tasks": {name: {"title": task.title, "metric": task.metric} for name, task in chosen.items()},
        "identity": {
            name: {
                "version": VERSION,
                **{split: data_digest(path) for split, path in task.files(data or Path()).items()},
            }
            for name, task in chosen.items()
        },
    }
