"""The splits of a fine-tuning: found, read, completed, checked against the task."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from electra.data.lines import COMPRESSIONS
from electra.data.rows import data_digest, is_saved_dataset, parts_of, split_name
from electra.finetuning.heads import load_head
from electra.finetuning.labelled.examples import Examples
from electra.finetuning.labelled.splits import (
    SPLIT_NAMES,
    find_named,
    find_split,
    limit_by_hash,
    split_by_hash,
)
from electra.finetuning.runner.counted import counted
from electra.finetuning.settings import Settings
from electra.finetuning.tasks import load_task
from electra.finetuning.tasks.parts.task import Task
from electra.foundation.errors import ConfigError, DataError, nearest
from electra.foundation.options import as_path, as_tuple
from electra.foundation.visible import one_line

FEW = 30  # examples to score on
SHOWN = 20  # labels in a line about a split


@dataclass(frozen=True)
class Dataset:
    task: Task  # fitted to the training data
    splits: dict[str, Examples]  # train, dev, and others to predict, and to score where they have answers
    files: dict[str, str]  # split -> SHA-256 of its file
    notes: tuple[str, ...]  # what was done to the data, to be reported


def choose_task(settings: Settings) -> Task:
    """The task of that name, as the settings want it and the head answers it."""
    task, head = load_task(settings.task).configured(settings.options()), load_head(settings.head)
    if settings.train_separately and "train_separately" not in head.options:
        fix = "Use it with `head` compare or bag"
        raise ConfigError(f"the head {settings.head} has no such option", key="train_separately", fix=fix)
    counts = {len(columns) for columns in task.texts}
    head.refuse(task.head, counts.pop() if len(counts) == 1 else None)  # None: the file's columns tell
    return head.adapted(task)


def read_dataset(settings: Settings, task: Task) -> Dataset:
    paths = locate(settings, task)
    read = {"train": task.read(paths["train"])}
    unfitted, task = task, task.fit(read["train"].examples)
    reader = unfitted.for_others(task)
    read |= {
        split: reader.read(path, labelled=split == "dev") for split, path in paths.items() if split != "train"
    }
    splits = {split: found.examples for split, found in read.items()}
    notes = [
        f"{split}: {counted(found.dropped, 'malformed row')} left out"
        for split, found in read.items()
        if found.dropped
    ]
    notes += [f"{split}: {note}" for split, found in read.items() for note in found.notes]
    for split, examples in splits.items():
        if count := sum(not "".join(example.texts).strip() for example in examples):
            notes.append(f"{split}: {counted(count, 'empty text')}, kept")
    for examples in splits.values():
        if examples:
            load_head(settings.head).refuse(task.head, len(examples[0].texts))
    if "dev" not in splits:
        train, dev = split_by_hash(splits["train"], task.side, paths["train"])
        splits = {"train": train, "dev": dev, **{name: splits[name] for name in splits if name != "train"}}
        out = counted(len(dev), "training example")
        notes.append(f"no dev file: {out} held out as the dev set (chosen by text hash)")
    splits = {
        split: limited(
            split, examples, settings.limit_train if split == "train" else settings.limit_eval, notes
        )
        for split, examples in splits.items()
    }
    try:
        missing = set(task.label_names) - set(unfitted.fit(splits["train"]).label_names)
        task = task.fit(splits["train"])  # the weights of classes are those of what is trained on
    except DataError:
        every, left = read["train"].examples, splits["train"]
        what = f"of {counted(len(every), 'training example')}"
        if (different := len({example.texts for example in every})) < len(every):
            what += f" ({different:,} different)"
        if "dev" not in paths:
            what += f" {len(splits['dev']):,} held out as the dev set;"
        what += f" {len(left):,} left to train on, with one and the same answer: nothing to learn"
        fix = "Add examples, or pass `dev` FILE" if "dev" not in paths else "Add examples"
        if settings.limit_train:
            fix += ", or a higher `limit_train`"
        raise DataError(what, where=paths["train"], fix=fix) from None
    notes += contradicted(splits["train"], task)
    if missing:
        listed = ", ".join(map(repr, sorted(missing)))
        notes.append(f"no training example is left with the label {listed}: it cannot be learned")
    for split, examples in splits.items():
        if split not in ("train", "dev"):
            splits[split] = without_placeholders(split, examples, task, notes)
        if split != "train":
            notes += [*unlearned(split, splits[split], task), *leaked(split, examples, splits["train"])]
    if len(splits["dev"]) < FEW:
        notes.append(f"dev: {counted(len(splits['dev']), 'example')}: a score on so few says little")
    files = {split: data_digest(path) for split, path in paths.items()}
    return Dataset(task, splits, files, tuple(notes))


def without_placeholders(split: str, examples: Examples, task: Task, notes: list[str]) -> Examples:
    """Test files often have one value where the answers will be: taken as no answer."""
    first, golds = examples[0], [example.gold for example in examples]
    if first.gold is not None and not task.knows(first) and all(map(same_answer(first.gold), golds)):
        notes.append(
            f"{split}: every answer is {first.gold!r}, which is not one of the task's: taken as no answer"
        )
        return tuple(replace(example, gold=None) for example in examples)
    bare = sum(gold is None for gold in golds)
    if 0 < bare < len(examples):
        notes.append(f"{split}: {bare} of {len(examples)} examples have no answer: predicted, not scored")
    return examples


def unlearned(split: str, examples: Examples, task: Task) -> Iterator[str]:
    """A note on the answers that no training example has; an error where there is no other."""
    absent = [(e, names) for e in examples if e.gold is not None and (names := task.unlearned(e))]
    if not absent:
        return
    first, names = absent[0]
    if len(absent) == len(examples):
        what = f"unknown label {names[0]!r}"
        raise DataError(what, where=first.where, fix=nearest(names[0], list(task.label_names)))
    counts = Counter(name for _, names in absent for name in names)
    shown = ", ".join(f"{name!r} {count}" for name, count in counts.most_common(5))
    more = ", ..." if len(counts) > 5 else ""
    which = f"{len(absent):,} of {counted(len(examples), 'example')} {'has' if len(absent) == 1 else 'have'}"
    yield f"{split}: {which} a label that the training data lack ({shown}{more}): scored as wrong"


def leaked(split: str, examples: Examples, train: Examples) -> Iterator[str]:
    """A note on the examples whose texts are also trained on, which flatter the score."""
    seen = {plain(example.texts) for example in train}
    if count := sum(plain(example.texts) in seen for example in examples):
        also = f"{count:,} of {counted(len(examples), 'example')} {'is' if count == 1 else 'are'}"
        yield f"{split}: {also} in the training data too (ignoring case and spacing): scores are too high"


def contradicted(train: Examples, task: Task) -> Iterator[str]:
    """A note on training examples with the same texts and different answers."""
    if task.head != "classifier" or not task.has_classes:
        return
    answers: dict[tuple[str, ...], set[str]] = {}
    for example in train:
        answers.setdefault(plain(example.texts), set()).add(str(task.gold_told(example)))
    if count := sum(len(answers[plain(example.texts)]) > 1 for example in train):
        share = f"{count:,} of {counted(len(train), 'example')}"
        yield f"train: {share} have the texts of others, and different answers: one of them is wrong"


def plain(texts: Sequence[str]) -> tuple[str, ...]:
    """Texts as they are compared: Unicode forms, case and white space do not count."""
    return tuple(" ".join(unicodedata.normalize("NFKC", text).casefold().split()) for text in texts)


def answers_told(dataset: Dataset) -> Iterator[str]:
    """The labels of each split with their counts, one line a split."""
    for split, examples in dataset.splits.items():
        counts = {label: n for label, n in count_labels(dataset.task, examples).items() if n}
        if counts:
            ranked = sorted(counts.items(), key=lambda entry: -entry[1])
            shown = ", ".join(f"{one_line(label)} {count:,}" for label, count in ranked[:SHOWN])
            more = f", and {len(ranked) - SHOWN} more labels" if len(ranked) > SHOWN else ""
            yield f"{split}: {shown}{more}"


def count_labels(task: Task, examples: Examples) -> dict[str, int]:
    """How often each label is an answer, where all answers are known."""
    return {} if any(example.gold is None for example in examples) else task.label_counts(examples)


def same_answer(first: Any) -> Callable[[Any], bool]:
    """Whether another answer is made of the same labels."""

    def labels(gold: Any) -> set[Any]:
        return set(gold) if isinstance(gold, tuple) else {gold}

    return lambda gold: labels(gold) == labels(first)


def locate(settings: Settings, task: Task) -> dict[str, Path]:
    """The file of each split there is: as given, else found in the folder by name."""
    data = as_path(settings.data)
    if not parts_of(data) or not parts_of(data)[0].exists():
        fix = "Pass `data` a folder with train and dev files, or a training file"
        raise DataError("no such file or folder", where=data, fix=fix)
    folder = data.is_dir() and not is_saved_dataset(data)
    given = {"train": None if folder else data, "dev": settings.dev, "test": settings.test}
    preferred = {"train": (), "dev": task.dev_files, "test": task.test_files}
    paths = {}
    for split in SPLIT_NAMES:
        chosen = given[split]
        path = None if chosen is None else as_path(chosen)
        if path is None and folder:
            path = find_split(data, split, preferred[split], task.formats)
        if path is not None:
            paths[split] = path
    for path in (
        *map(as_path, as_tuple(settings.extra_eval)),
        *(find_named(data, task.also, task.formats) if folder else ()),
    ):
        name = split_name(path)[0]
        taken = name in (*SPLIT_NAMES, "eval") and name not in paths  # its scores would pass for that split's
        if taken or not re.fullmatch(r"\w[\w.-]*", name) or paths.setdefault(name, path) != path:
            what = f"the name {name!r} cannot be that of a further file here"
            raise DataError(what, where=path, fix="Rename the file")
    if "train" not in paths:
        names = " or ".join(f"{name}*" for name in SPLIT_NAMES["train"])
        endings = f"{', '.join(task.formats)}, each also {', '.join(COMPRESSIONS)}"
        fix = f"Looked for {names} ({endings}); or pass `data` the file itself"
        raise DataError("no training file", where=data, fix=fix)
    return paths


def limited(split: str, examples: Examples, limit: int | None, notes: list[str]) -> Examples:
    if not limit or limit >= len(examples):
        return examples
    notes.append(f"{split}: {limit} of {len(examples)} examples, chosen by hash")
    return limit_by_hash(examples, limit)
