"""Finds, reads and checks the splits of a fine-tuning."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from electra.data.lines import COMPRESSIONS
from electra.data.table_files import data_digest, is_saved_dataset, parts_of, split_name
from electra.finetuning.heads import load_head
from electra.finetuning.labelled.examples import TEXT_COUNTS, Example, Examples
from electra.finetuning.labelled.splits import (
    DEV_SHARE,
    SPLIT_NAMES,
    find_named,
    find_split,
    limit_by_hash,
    split_by_hash,
)
from electra.finetuning.settings import Settings
from electra.finetuning.tasks import load_task
from electra.finetuning.tasks.parts.task import Task
from electra.foundation.errors import DataError, nearest
from electra.foundation.options import as_path, as_tuple
from electra.foundation.terminal_text import one_line, plural

MIN_RELIABLE_DEV = 30  # with fewer dev examples the score is unreliable
MAX_LISTED = 20  # maximum number of labels to list for a split


@dataclass(frozen=True)
class Dataset:
    """The splits of a fine-tuning and the task fitted to them."""

    task: Task  # fitted to the training data
    splits: dict[str, Examples]  # train, dev and others; those with answers are scored
    files: dict[str, str]  # SHA-256 of each split's file
    notes: tuple[str, ...]  # for the user: how the data was read, and what is suspicious
    text_columns: tuple[str, ...] = ()  # the columns of the training texts, if they are from a table


def choose_task(settings: Settings) -> Task:
    """Returns the task with the settings' options."""
    task, head = load_task(settings.task).configured(settings.options()), load_head(settings.head)
    counts = {len(columns) for columns in task.texts}
    head.check_supports(task.head, counts.pop() if len(counts) == 1 else None)  # None: it depends on the file
    return task


def read_dataset(settings: Settings, task: Task) -> Dataset:
    """Reads all splits, holds out dev if there is no file for it, and fits the task to the training data."""
    paths = locate_files(settings, task)
    train = task.read(paths["train"])
    if train.text_columns:  # other files may have other usual columns, too
        task = task.preferring(train.text_columns, train.label_column)
    unfitted_task, task = task, task.fit(train.examples)
    other_task = unfitted_task.for_evaluation_files(task)
    others = {split: path for split, path in paths.items() if split != "train"}
    contents = {split: other_task.read(path, labelled=split == "dev") for split, path in others.items()}
    contents = {"train": train, **contents}
    splits = {split: content.examples for split, content in contents.items()}
    notes: list[str] = []
    for split, content in contents.items():
        if content.num_dropped:
            notes.append(f"{split}: {plural(content.num_dropped, 'malformed row')} left out")
        notes += [f"{split}: {note}" for note in content.notes]
    for split, examples in splits.items():
        notes += note_empty_texts(split, examples, task)
        if split_name(paths[split])[1] in (".csv", ".tsv", ".tab"):
            notes += note_swallowed_rows(split, examples)
    num_texts = len(train.examples[0].texts)
    for split, examples in splits.items():
        if examples:
            found = len(examples[0].texts)
            load_head(settings.head).check_supports(task.head, found)
            if task.head == "classifier" and found != num_texts:
                problem = f"{TEXT_COUNTS[found]}, but {TEXT_COUNTS[num_texts]} in train"
                fix = "Name the same columns with `text_column`, or pass another file"
                raise DataError(problem, where=paths[split], fix=fix)
    if "dev" not in splits:
        remaining, dev = hold_out_dev(train.examples, task, paths["train"])
        splits = {"train": remaining, "dev": dev} | {name: splits[name] for name in others}
        held_out = plural(len(dev), "training example")
        notes.append(f"no dev file: {held_out} held out as the dev set (chosen by text hash)")
    for split, examples in splits.items():
        size = settings.limit_train if split == "train" else settings.limit_eval
        if size and size < len(examples):
            notes.append(f"{split}: {size} of {len(examples)} examples, chosen by hash")
            splits[split] = limit_by_hash(examples, size)
    try:
        missing_labels = set(task.label_names) - set(unfitted_task.fit(splits["train"]).label_names)
        task = task.fit(splits["train"])  # fitted again: class weights depend on the examples that are left
    except DataError:
        num_held_out = 0 if "dev" in paths else len(splits["dev"])
        raise _nothing_left(train.examples, splits["train"], num_held_out, settings, paths["train"]) from None
    notes += note_contradictions(splits["train"], task)
    if missing_labels:
        listed = ", ".join(map(repr, sorted(missing_labels)))
        which = f"label {listed}: it" if len(missing_labels) == 1 else f"labels {listed}: they"
        notes.append(f"no training example is left with the {which} cannot be learned")
    for split, examples in splits.items():
        if split not in ("train", "dev"):
            splits[split] = without_placeholders(split, examples, task, notes)
        if split != "train":
            notes += note_unseen_labels(split, splits[split], task)
            notes += note_leaks(split, examples, splits["train"])
    notes += note_small_dev(splits["dev"])
    files = {split: data_digest(path) for split, path in paths.items()}
    return Dataset(task, splits, files, tuple(notes), train.text_columns)


def _nothing_left(
    examples: Examples, remaining: Examples, num_held_out: int, settings: Settings, where: Path
) -> DataError:
    problem, fix = plural(len(examples), "training example"), "Add examples"
    if (num_different := len({example.texts for example in examples})) < len(examples):
        problem += f" ({num_different:,} different)"
    if num_held_out:
        problem += f", {num_held_out:,} held out as the dev set"
        fix += ", or pass a dev file as `dev`"
    if settings.limit_train:
        fix += ", or a higher `limit_train`"
    problem += f", {len(remaining):,} left to train on, all with the same answer: nothing to learn"
    return DataError(problem, where=where, fix=fix)


def without_placeholders(split: str, examples: Examples, task: Task, notes: list[str]) -> Examples:
    """Returns the examples, at least one, without their answers if all are the same unknown label.

    Many test files have such answers. Appends a note on that, or on examples without an answer.
    """
    answers = {frozenset(e.gold) if isinstance(e.gold, tuple) else e.gold for e in examples}
    num_unanswered = sum(example.gold is None for example in examples)
    if len(answers) == 1 and not num_unanswered and not task.can_score(examples[0]):
        notes.append(f"{split}: every answer is {examples[0].gold!r}, an unknown label: read as no answer")
        return tuple(replace(example, gold=None) for example in examples)
    if 0 < num_unanswered < len(examples):
        count = f"{num_unanswered} of {len(examples)} examples"
        notes.append(f"{split}: {count} have no answer: predicted, not scored")
    return examples


def hold_out_dev(examples: Examples, task: Task, where: Path) -> tuple[Examples, Examples]:
    """Splits the training examples into train and dev by a hash of their texts.

    If dev would lack a label that it should have about once or more, each label's examples are split.
    Raises DataError if no training example would be left.
    """
    train, dev = split_by_hash(examples, task.hashed_texts, where)
    dev_counts = count_labels(task, dev) if task.has_classes else {}
    expected = [label for label, n in count_labels(task, examples).items() if n * DEV_SHARE >= 1]
    if task.head != "classifier" or not dev_counts or all(dev_counts.get(label) for label in expected):
        return train, dev
    groups: dict[str, list[Example]] = {}
    for example in examples:
        groups.setdefault(task.shown_gold(example), []).append(example)
    held_out = {
        task.hashed_texts(example)
        for group in groups.values()
        if len(group) * DEV_SHARE >= 1 and len({*map(task.hashed_texts, group)}) > 1
        for example in split_by_hash(group, task.hashed_texts, where)[1]
    }
    parts = [tuple(e for e in examples if (task.hashed_texts(e) in held_out) == is_dev) for is_dev in (0, 1)]
    return parts[0], parts[1]


def note_small_dev(dev: Examples) -> Iterator[str]:
    """Yields a note if the dev set has too few examples, or different texts, for a reliable score."""
    num_texts = len({example.texts for example in dev})
    if num_texts < MIN_RELIABLE_DEV:
        texts = f" with {plural(num_texts, 'different text')}" if num_texts < len(dev) else ""
        yield f"dev: {plural(len(dev), 'example')}{texts}: too few for a reliable score"


def note_empty_texts(split: str, examples: Examples, task: Task) -> Iterator[str]:
    """Yields a note on empty texts; of words, or of a question and a context, only one must not be empty."""
    holds_text = all if task.head == "classifier" else any
    empty = [example for example in examples if not holds_text(map(str.strip, example.texts))]
    if empty:
        is_pair = len(empty[0].texts) == 2
        found = (
            f"{plural(len(empty), 'pair')} with an empty text"
            if is_pair
            else plural(len(empty), "empty text")
        )
        yield f"{split}: {found}, kept"


def note_swallowed_rows(split: str, examples: Examples) -> Iterator[str]:
    """Yields a note on texts of which a line looks like a row: it begins or ends with an answer.

    A stray quote in a csv makes the following rows part of its cell.
    """
    answers = {example.gold for example in examples if isinstance(example.gold, str)}
    suspects = [
        example
        for example in examples
        for text in example.texts
        for line in text.splitlines()
        if len(cells := [cell.strip(' "') for cell in re.split("[,;\t|]", line)]) > 1
        and text != line
        and answers & {cells[0], cells[-1]}
    ]
    if suspects:
        found = "a text has a line that looks like a row of its own"
        if (count := len({example.where for example in suspects})) > 1:
            found += f" (and {plural(count - 1, 'more text')})"
        yield f"{split}: {suspects[0].where}: {found}. Is there a stray quote?"


def note_unseen_labels(split: str, examples: Examples, task: Task) -> Iterator[str]:
    """Yields a note on gold labels that no training example has, if there are any."""
    unseen = [
        (example.where, names)
        for example in examples
        if example.gold is not None and (names := task.unseen_labels(example))
    ]
    if not unseen:
        return
    if len(unseen) == len(examples):
        where, (name, *_) = unseen[0]
        raise DataError(f"unknown label {name!r}", where=where, fix=nearest(name, list(task.label_names)))
    counts = Counter(name for _, names in unseen for name in names)
    listed = ", ".join(f"{name!r} {count}" for name, count in counts.most_common(5))
    ellipsis = ", ..." if len(counts) > 5 else ""
    found = f"{len(unseen):,} of {plural(len(examples), 'example')} {'has' if len(unseen) == 1 else 'have'}"
    yield f"{split}: {found} a label that the training data lacks ({listed}{ellipsis}): scored as wrong"


def note_leaks(
    split: str, examples: Examples, train: Examples, source: str = "training data"
) -> Iterator[str]:
    """Yields a note if examples inflate the score because their texts are also in `train`, the `source`."""
    train_texts = {normalise(example.texts) for example in train}
    if count := sum(normalise(example.texts) in train_texts for example in examples):
        found = f"{count:,} of {plural(len(examples), 'example')} {'is' if count == 1 else 'are'}"
        yield f"{split}: {found} also in the {source} (ignoring case and spacing): scores are too high"


def note_contradictions(train: Examples, task: Task) -> Iterator[str]:
    """Yields a note on training examples with the same texts and different answers, if these are classes."""
    if task.head != "classifier" or not task.has_classes:
        return
    answers: dict[tuple[str, ...], set[str]] = {}
    for example in train:
        answers.setdefault(normalise(example.texts), set()).add(str(task.shown_gold(example)))
    if count := sum(len(answers[normalise(example.texts)]) > 1 for example in train):
        found = f"{count:,} of {plural(len(train), 'example')}"
        yield f"train: {found} have the same text as another example, but a different answer"


def normalise(texts: Sequence[str]) -> tuple[str, ...]:
    """Returns the texts with normalised Unicode, case and white space, for comparison."""
    return tuple(" ".join(unicodedata.normalize("NFKC", text).casefold().split()) for text in texts)


def describe_labels(dataset: Dataset) -> Iterator[str]:
    """Yields, for each split with labels, a line with the frequencies of its most frequent labels."""
    for split, examples in dataset.splits.items():
        counts = {label: n for label, n in count_labels(dataset.task, examples).items() if n}
        if counts:
            ranked = sorted(counts.items(), key=lambda entry: -entry[1])
            listed = ", ".join(f"{one_line(label)} {count:,}" for label, count in ranked[:MAX_LISTED])
            more = f", and {len(ranked) - MAX_LISTED} more" if len(ranked) > MAX_LISTED else ""
            yield f"{split}: {listed}{more}"


def count_labels(task: Task, examples: Examples) -> dict[str, int]:
    """Returns the frequency of each label; {} if an answer is missing or the task has no labels."""
    return {} if any(example.gold is None for example in examples) else task.label_counts(examples)


def locate_files(settings: Settings, task: Task) -> dict[str, Path]:
    """Returns the file of each split: the one in the settings, else the one with its name in the folder.

    The keys are "train", "dev", "test" and the names of other files to predict; splits without a file are
    left out.
    """
    data = as_path(settings.data)
    if not parts_of(data) or not parts_of(data)[0].exists():
        fix = "Pass a folder with train and dev files, or a training file, as `data`"
        raise DataError("no such file or folder", where=data, fix=fix)
    is_folder = data.is_dir() and not is_saved_dataset(data)
    chosen = {"train": None if is_folder else data, "dev": settings.dev, "test": settings.test}
    preferred_names = {"train": (), "dev": task.dev_files, "test": task.test_files}
    paths: dict[str, Path] = {}
    for split in SPLIT_NAMES:
        if (source := chosen[split]) is not None:
            paths[split] = as_path(source)
        elif is_folder and (path := find_split(data, split, preferred_names[split], task.formats)):
            paths[split] = path
    others = [as_path(source) for source in as_tuple(settings.extra_eval)]
    for path in [*others, *(find_named(data, task.also, task.formats) if is_folder else ())]:
        name = split_name(path)[0]
        # A further file called train, dev, test or eval would have scores with the keys of that split.
        is_split_name = name in (*SPLIT_NAMES, "eval") and name not in paths
        if is_split_name or not re.fullmatch(r"\w[\w.-]*", name) or paths.setdefault(name, path) != path:
            problem = f"{name!r} is the name of a split or of another file, or has invalid characters"
            raise DataError(problem, where=path, fix="Rename the file")
    if "train" not in paths:
        names = " or ".join(f"{name}*" for name in SPLIT_NAMES["train"])
        formats = f"{', '.join(task.formats)}, each also {', '.join(COMPRESSIONS)}"
        fix = f"Name it {names} ({formats}), or pass the file itself as `data`"
        raise DataError("no training file", where=data, fix=fix)
    return paths
