"""The splits of one fine-tuning: found, read, completed, checked against the task."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from electra import durable
from electra.errors import ConfigError, TaskError
from electra.finetune.question_answering import QuestionAnswering
from electra.finetune.sequence import SequenceTask
from electra.finetune.settings import Settings
from electra.finetune.tables import COMPRESSIONS, SPLIT_NAMES, find_split
from electra.finetune.tasks import Example, Task, load_task

DEV_SHARE = 0.1  # of the training data, when there is no dev file


@dataclass(frozen=True)
class Dataset:
    task: Task  # fitted to the training data
    train: tuple[Example, ...]
    dev: tuple[Example, ...]
    test: tuple[Example, ...]
    files: dict[str, str]  # split -> SHA-256 of its file
    notes: tuple[str, ...]  # what was done to the data, to be told


def choose_task(settings: Settings) -> Task:
    """The task of that name, with the user's columns."""
    task = load_task(settings.task)
    if settings.text_column:
        wanted = len(task.texts[0])
        if task.name == "pair" and len(settings.text_column) != wanted:
            raise ConfigError("a pair has two texts", where="--text-column", fix="Give two columns, or --task classification")
        task = replace(task, texts=(settings.text_column,))
    if settings.label_column:
        task = replace(task, label=(settings.label_column,))
    if settings.columns:
        task = replace(task, header=settings.columns)
    if settings.stride:
        task = replace(task, stride=settings.stride)
    task = replace(task, balanced=settings.class_weights == "balanced")
    if settings.head == "joint":
        if not isinstance(task, QuestionAnswering):
            raise ConfigError("the joint head finds answers in texts", where="--head", fix="Use it with --task squad, squad2 or qa")
        task = replace(task, joint=True)
    if settings.both_orders is not None and isinstance(task, SequenceTask):
        task = replace(task, both_orders=settings.both_orders)
    return task


def read_dataset(settings: Settings, task: Task) -> Dataset:
    paths = locate(settings, task)
    splits = {split: task.read(path, labelled=split != "test") for split, path in paths.items()}
    notes = [f"{split}: {found.dropped} malformed rows left out" for split, found in splits.items() if found.dropped]
    notes += [f"{split}: {note}" for split, found in splits.items() for note in found.notes]
    train = splits["train"].examples
    task = task.fit(train)
    if "dev" in splits:
        dev = splits["dev"].examples
    else:
        train, dev = split_by_hash(train, paths["train"])
        notes.append(f"no dev file: {len(dev)} of the training examples are set aside as dev, by hash of their text")
    if settings.limit_train and settings.limit_train < len(train):
        notes.append(f"train: {settings.limit_train} of {len(train)} examples, chosen by hash")
        train = limit_by_hash(train, settings.limit_train)
    try:
        task.fit(train)
    except TaskError:
        fix = "Give --dev FILE, or a higher --limit-train"
        raise TaskError("what is left to train on has one answer only", where=paths["train"], fix=fix) from None
    test = splits["test"].examples if "test" in splits else ()
    return Dataset(task, train, dev, test, {split: durable.sha256(path) for split, path in paths.items()}, tuple(notes))


def locate(settings: Settings, task: Task) -> dict[str, Path]:
    """The file of each split there is: as given, else found in the folder by name."""
    data = settings.data
    if not data.exists():
        raise TaskError("no such file or folder", where=data, fix="Give --data a folder with train and dev files, or a training file")
    given = {"train": None if data.is_dir() else data, "dev": settings.dev, "test": settings.test}
    paths = {}
    for split in SPLIT_NAMES:
        path = given[split]
        if path is None and data.is_dir():
            path = find_split(data, split, task.dev_files if split == "dev" else (), task.formats)
        if path is not None:
            paths[split] = path
    if "train" not in paths:
        names = " or ".join(f"{name}*" for name in SPLIT_NAMES["train"])
        endings = f"{', '.join(task.formats)}, each also {', '.join(COMPRESSIONS)}"
        raise TaskError("no training file", where=data, fix=f"Looked for {names} ({endings}); or give --data the file itself")
    return paths


def hash_of(example: Example) -> float:
    """A number in [0, 1) that depends on the texts alone, so that the same texts land on the same side of a split."""
    digest = hashlib.blake2b("\x1f".join(example.texts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64


def split_by_hash(examples: Sequence[Example], where: Path) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """(train, dev): the examples with the smallest hashes are dev; equal texts stay together."""
    hashes = [hash_of(example) for example in examples]
    cut = sorted(hashes)[math.ceil(len(hashes) * DEV_SHARE) - 1]
    dev = tuple(example for example, value in zip(examples, hashes, strict=True) if value <= cut)
    train = tuple(example for example, value in zip(examples, hashes, strict=True) if value > cut)
    if not train:
        raise TaskError("too few examples to set some aside as dev", where=where, fix="Give --dev FILE")
    return train, dev


def limit_by_hash(examples: Sequence[Example], limit: int) -> tuple[Example, ...]:
    """`limit` examples, in the file's order."""
    order = sorted(range(len(examples)), key=lambda i: (hash_of(examples[i]), i))
    return tuple(examples[i] for i in sorted(order[:limit]))
