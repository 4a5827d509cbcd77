"""The splits of one fine-tuning: found, read, completed, checked against the task."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from electra import durable
from electra.data.sources import COMPRESSIONS
from electra.errors import DataError
from electra.finetuning.settings import Settings
from electra.finetuning.tasks import Task, load_task
from electra.labelled.examples import Example, Examples
from electra.labelled.files import split_name
from electra.labelled.splits import SPLIT_NAMES, find_named, find_split, limit_by_hash, split_by_hash


@dataclass(frozen=True)
class Dataset:
    task: Task  # fitted to the training data
    train: tuple[Example, ...]
    dev: tuple[Example, ...]
    others: dict[
        str, tuple[Example, ...]
    ]  # test, and further files: predicted, and scored where they have answers
    files: dict[str, str]  # split -> SHA-256 of its file
    notes: tuple[str, ...]  # what was done to the data, to be told


def choose_task(settings: Settings) -> Task:
    """The task of that name, as the settings want it."""
    return load_task(settings.task).configured(asdict(settings))


def read_dataset(settings: Settings, task: Task) -> Dataset:
    paths = locate(settings, task)
    splits = {split: task.read(path, labelled=split in ("train", "dev")) for split, path in paths.items()}
    notes = [
        f"{split}: {found.dropped} malformed rows left out"
        for split, found in splits.items()
        if found.dropped
    ]
    notes += [f"{split}: {note}" for split, found in splits.items() for note in found.notes]
    empty = {
        split: sum(not "".join(example.texts).strip() for example in found.examples)
        for split, found in splits.items()
    }
    notes += [f"{split}: {count} texts are empty, and used" for split, count in empty.items() if count]
    train = splits["train"].examples
    unfitted, task = task, task.fit(train)
    if "dev" in splits:
        dev = splits["dev"].examples
    else:
        train, dev = split_by_hash(train, task.side, paths["train"])
        notes.append(
            f"no dev file: {len(dev)} of the training examples are set aside as dev, by hash of their text"
        )
    others = {split: found.examples for split, found in splits.items() if split not in ("train", "dev")}
    train = limited({"train": train}, settings.limit_train, notes)["train"]
    others = limited({"dev": dev, **others}, settings.limit_eval, notes)
    dev = others.pop("dev")
    try:
        missing = set(task.label_names) - set(unfitted.fit(train).label_names)
        task = task.fit(train)  # weights of classes are those of what is trained on
    except DataError:
        fix = "Give --dev FILE, or a higher --limit-train"
        raise DataError(
            "what is left to train on has one answer only", where=paths["train"], fix=fix
        ) from None
    for split in [split for split, examples in others.items() if only_placeholders(examples, task)]:
        notes.append(
            f"{split}: every answer is {others[split][0].gold!r}, which is none of the task's: taken as no"
            " answer"
        )
        others[split] = tuple(replace(example, gold=None) for example in others[split])
    if missing:
        notes.append(
            f"no training example is left with the label {', '.join(map(repr, sorted(missing)))}: it cannot"
            " be learned"
        )
    for split, examples in others.items():
        bare = sum(example.gold is None for example in examples)
        if 0 < bare < len(examples):
            notes.append(
                f"{split}: {bare} of {len(examples)} examples have no answer, so it is predicted and not"
                " scored"
            )
    files = {split: durable.sha256(path) for split, path in paths.items()}
    return Dataset(task, train, dev, others, files, tuple(notes))


def only_placeholders(examples: Sequence[Example], task: Task) -> bool:
    """Test files often hold one value where the answers will be."""
    first = examples[0]
    return (
        first.gold is not None
        and not task.knows(first)
        and all(set_of(example) == set_of(first) for example in examples)
    )


def set_of(example: Example) -> set[Any]:
    return set(example.gold) if isinstance(example.gold, tuple) else {example.gold}


def locate(settings: Settings, task: Task) -> dict[str, Path]:
    """The file of each split there is: as given, else found in the folder by name."""
    data = settings.data
    if not data.exists():
        raise DataError(
            "no such file or folder",
            where=data,
            fix="Give --data a folder with train and dev files, or a training file",
        )
    given = {"train": None if data.is_dir() else data, "dev": settings.dev, "test": settings.test}
    preferred = {"train": (), "dev": task.dev_files, "test": task.test_files}
    paths = {}
    for split in SPLIT_NAMES:
        path = given[split]
        if path is None and data.is_dir():
            path = find_split(data, split, preferred[split], task.formats)
        if path is not None:
            paths[split] = path
    for path in (*settings.also, *(find_named(data, task.also, task.formats) if data.is_dir() else ())):
        name = split_name(path)[0]
        taken = (
            name in (*SPLIT_NAMES, "eval") and name not in paths
        )  # its numbers would be taken for those of that split
        if taken or not re.fullmatch(r"\w[\w.-]*", name) or paths.setdefault(name, path) != path:
            raise DataError(
                f"the name {name!r} cannot be that of a further file here", where=path, fix="Rename the file"
            )
    if "train" not in paths:
        names = " or ".join(f"{name}*" for name in SPLIT_NAMES["train"])
        endings = f"{', '.join(task.formats)}, each also {', '.join(COMPRESSIONS)}"
        raise DataError(
            "no training file",
            where=data,
            fix=f"Looked for {names} ({endings}); or give --data the file itself",
        )
    return paths


def limited(splits: Mapping[str, Examples], limit: int | None, notes: list[str]) -> dict[str, Examples]:
    """At most `limit` examples of each split, which is told."""
    cut = {
        split: limit_by_hash(examples, limit) if limit and limit < len(examples) else examples
        for split, examples in splits.items()
    }
    notes += [
        f"{split}: {limit} of {len(splits[split])} examples, chosen by hash"
        for split in cut
        if len(cut[split]) < len(splits[split])
    ]
    return cut
