"""Finds, reads and checks the splits of a fine-tuning."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from electra.data.tables.lines import COMPRESSIONS
from electra.data.tables.table import short_name
from electra.data.tables.table_files import (
    Data,
    Given,
    data_digest,
    extension_of,
    is_saved_dataset,
    parts_of,
    split_name,
)
from electra.finetuning.heads import load_head
from electra.finetuning.labelled.examples import Example, Examples, Split
from electra.finetuning.labelled.splits import (
    DEV_SHARE,
    SPLIT_NAMES,
    find_named,
    find_split,
    limit_by_hash,
    other_files,
    split_by_hash,
)
from electra.finetuning.settings import Settings, TaskOptions
from electra.finetuning.task import Task
from electra.finetuning.tasks import load_task
from electra.foundation.arrays import Ints
from electra.foundation.errors import DataError, nearest
from electra.foundation.options import as_path, as_tuple
from electra.foundation.terminal_text import one_line, plural, when

FOLDS = 5  # of the training examples
MIN_RELIABLE_DEV = 30  # with fewer dev examples the score is unreliable
MAX_COLUMNS = 4  # of the columns or files that are not read, how many are named
MAX_LISTED = 20  # maximum number of labels to list for a split


@dataclass(frozen=True)
class Dataset:
    """The splits of a fine-tuning and the task fitted to them."""

    task: Task  # fitted to the training data
    splits: dict[str, Examples]  # train, dev and others; those with answers are scored
    files: dict[str, str]  # SHA-256 of each split's file
    notes: tuple[str, ...]  # for the user: how the data was read, and what is suspicious
    text_columns: tuple[str, ...] = ()  # the columns of the training texts, if they are from a table

    @cached_property
    def dev_keys(self) -> list[tuple[str, ...] | None]:
        """The `text_key` of each dev example; None if the training data has the same text.

        For a comparison on dev, equal texts are one observation, and those of the training data are none.
        """
        known = {text_key(example, self.task) for example in self.splits["train"]}
        keys = (text_key(example, self.task) for example in self.splits["dev"])
        return [None if key in known else key for key in keys]

    @cached_property
    def different_texts(self) -> list[int]:
        """The index of a training example for each of the different texts (`text_key`), by answers."""
        train, drawn = self.splits["train"], dict[tuple[str, ...], int]()
        for i in np.random.default_rng(0).permutation(len(train)):
            drawn.setdefault(text_key(train[i], self.task), int(i))
        return sorted(drawn.values(), key=lambda i: str(self.task.shown_gold(train[i])))

    @cached_property
    def folds(self) -> Ints:
        """The fold of each training example, 0 to 4: equal texts are in one, and all labels in each."""
        train = self.splits["train"]
        known = {text_key(train[i], self.task): n % FOLDS for n, i in enumerate(self.different_texts)}
        return np.array([known[text_key(example, self.task)] for example in train], np.int64)

    def held_out(self, fold: int) -> list[int]:
        """Returns the indices of the different training texts of a fold, each once."""
        return [i for i in sorted(self.different_texts) if self.folds[i] == fold]

    @property
    def num_dev_texts(self) -> int:
        """The number of different dev texts that the training data lacks."""
        return len({key for key in self.dev_keys if key is not None})


def choose_task(settings: Settings) -> Task:
    """Returns the task with the settings' options."""
    options = TaskOptions.of(vars(settings))
    task, head = load_task(settings.task).with_options(options), load_head(settings.head)
    counts = {len(columns) for columns in task.texts}
    head.check_supports(task.head, counts.pop() if len(counts) == 1 else None)  # None: it depends on the file
    return task


def read_dataset(settings: Settings, task: Task) -> Dataset:
    """Reads all splits, holds out dev if there is no file for it, and fits the task to the training data."""
    sources = locate_files(settings, task)
    train = task.read(sources["train"])
    load_head(settings.head).check_supports(task.head, len(train.examples[0].texts))
    if train.text_columns:  # other files may have other usual columns, too
        task = replace(task.preferring(train.text_columns, train.label_column), **train.remembered)
    unfitted_task, task = task, task.fit(train.examples)
    others = {split: source for split, source in sources.items() if split != "train"}
    contents = {split: unfitted_task.read(each, labelled=split == "dev") for split, each in others.items()}
    contents = {"train": train, **contents}
    splits = {split: content.examples for split, content in contents.items()}
    notes: list[str] = []
    if not isinstance(settings.data, Given) and sources["train"] != as_path(settings.data):
        notes += note_unread(other_files(as_path(settings.data), sources.values(), task.formats), "file")
    for split, content in contents.items():
        known = train.unread if split != "train" else ()
        told = notes_on_file(content, task, extension_of(sources[split]), known)
        notes += [f"{split}: {note}" for note in told]
    if "dev" not in splits:
        remaining, dev = hold_out_dev(train.examples, task, sources["train"])
        splits = {"train": remaining, "dev": dev} | {name: splits[name] for name in others}
        held_out = plural(len(dev), "training example")
        notes.append(f"no dev file: {held_out} held out as the dev set (chosen by text hash)")
    for split, examples in splits.items():
        size = settings.limit_train if split == "train" else settings.limit_eval
        if size and size < len(examples):
            notes.append(f"{split}: {size} of {len(examples)} examples, chosen by hash")
            splits[split] = limit_by_hash(examples, size)
    missing_labels = set[str]()
    try:
        if splits["train"] is not train.examples:  # fitted again: class weights depend on those that are left
            missing_labels = set(task.label_names) - set(unfitted_task.fit(splits["train"]).label_names)
            task = task.fit(splits["train"])
    except DataError:
        left, found = len(splits["train"]), plural(len(train.examples), "training example")
        problem = f"{left:,} of {found} left to train on, all with the same answer: nothing to learn"
        fix = "Add examples" + when("dev" not in sources, ", or pass a dev file as `dev`")
        fix += when(settings.limit_train, ", or a higher `limit_train`")
        raise DataError(problem, where=sources["train"], fix=fix) from None
    if missing_labels:
        listed = ", ".join(map(repr, sorted(missing_labels)))
        notes.append(f"no training example is left with a label that cannot be learned then: {listed}")
    counts, in_dev = (count_labels(task, splits[split]) for split in ("train", "dev"))
    if lacking := [name for name, n in counts.items() if in_dev and n and not in_dev.get(name)]:
        listed = ", ".join(f"{one_line(name)} {counts[name]:,}" for name in lacking[:MAX_LISTED])
        more = when(len(lacking) > MAX_LISTED, f", and {len(lacking) - MAX_LISTED} more")
        notes.append(f"dev: labels of train without an example, so not scored: {listed}{more}")
    alike = Counter(name.casefold() for name in task.label_names)
    if same := [name for name in task.label_names if alike[name.casefold()] > 1]:
        notes.append(f"train: {', '.join(same)} differ only in capitals, and are different labels")
    for split in [name for name in splits if name != "train"]:
        if split != "dev":
            splits[split] = without_placeholders(split, splits[split], task, notes)
        dev_file = sources[split] if split == "dev" and split in sources and settings.dev is None else None
        notes += [f"{split}: {note}" for note in notes_on_scores(splits[split], splits["train"], task, dev_file)]
    if (num_texts := len({example.texts for example in splits["dev"]})) < MIN_RELIABLE_DEV:
        texts = plural(num_texts, "different text")
        notes.append(f"dev: {plural(len(splits['dev']), 'example')}, {texts}: too few for a reliable score")
    files = {split: data_digest(source) for split, source in sources.items()}
    return Dataset(task, splits, files, tuple(notes), train.text_columns)


def note_unread(names: Sequence[str], noun: str = "column") -> Iterator[str]:
    """Yields a note on the columns of a table, or the files of a folder, that are not read."""
    if names:
        more = f" and {len(names) - MAX_COLUMNS} others" if len(names) > MAX_COLUMNS else ""
        listed = ", ".join(map(short_name, names[:MAX_COLUMNS]))
        yield f"not read: {noun}{when(len(names) > 1, 's')} {listed}{more}"


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


def hold_out_dev(examples: Examples, task: Task, where: Data) -> tuple[Examples, Examples]:
    """Splits the training examples into train and dev by a hash of their texts.

    If dev would lack a label that it should have about once or more, each label's examples are split.
    Raises DataError if train or dev would have no example.
    """
    train, dev = split_by_hash(examples, task.hashed_texts, str(where))
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
        for example in split_by_hash(group, task.hashed_texts, str(where))[1]
    }
    parts = [tuple(e for e in examples if (task.hashed_texts(e) in held_out) == is_dev) for is_dev in (0, 1)]
    if not held_out:
        problem = "no label has ten examples with different texts: no dev set can be held out"
        raise DataError(problem, where=str(where), fix="Add examples, or pass a dev file as `dev`")
    return parts[0], parts[1]


def notes_on_file(content: Split, task: Task, extension: str, known: Sequence[str]) -> Iterator[str]:
    """Yields notes on how a file was read, on empty texts and, in a csv, on rows lost to a stray quote.

    `known` are the columns that the training file has, too, but that are not read.
    """
    yield from note_unread([name for name in content.unread if name not in known])
    if content.num_dropped:
        yield f"{plural(content.num_dropped, 'malformed row')} left out"
    yield from content.notes
    # Of words, or of a question and a context, only one must not be empty.
    holds_text = all if task.head == "classifier" else any
    if empty := sum(not holds_text(map(str.strip, example.texts)) for example in content.examples):
        yield f"{plural(empty, 'example')} with an empty text, kept"
    if extension not in (".csv", ".tsv", ".tab"):
        return
    answers = {example.gold for example in content.examples if isinstance(example.gold, str)}
    for example in content.examples:
        for line in (line for text in example.texts for line in text.splitlines() if line != text):
            cells = [cell.strip(' "') for cell in re.split("[,;\t|]", line)]
            if len(cells) > 1 and answers & {cells[0], cells[-1]}:
                yield f"{example.where}: a text has a line that looks like a row. Is there a stray quote?"
                return


def notes_on_scores(examples: Examples, train: Examples, task: Task, dev_file: Data | None) -> Iterator[str]:
    """Yields notes on labels that no training example has, and on texts that are also in train.

    Raises DataError if all examples have such labels, or if train contains a dev file that was found by its
    name, or the other way round.
    """
    labelled = [example for example in examples if example.gold is not None]
    unseen = [(each.where, names) for each in labelled if (names := task.unseen_labels(each))]
    if unseen:
        where, (name, *_) = unseen[0]
        if len(unseen) == len(examples):
            raise DataError(f"unknown label {name!r}", where=where, fix=nearest(name, list(task.label_names)))
        counts = Counter(name for _, names in unseen for name in names)
        listed = ", ".join(f"{name!r} {count}" for name, count in counts.most_common(5))
        found = f"{len(unseen):,} of {plural(len(examples), 'example')}"
        yield f"{found} with a label that the training data lacks ({listed}): scored as wrong"
    train_texts, texts = set(map(normalise, train)), [*map(normalise, examples)]
    if count := sum(text in train_texts for text in texts):
        found = f"{count:,} of {plural(len(examples), 'example')}"
        if dev_file and (train_texts >= {*texts} or train_texts <= {*texts}):
            fix = f"Pass the dev file as `dev` ({dev_file} if it is this one)"
            why = f"{found} are in the training data, which has {len(train):,}: one file contains the other"
            raise DataError(why, where=dev_file, fix=fix)
        yield f"{found} also in the training data (ignoring case and spacing): scores are too high"


def normalise(example: Example) -> tuple[str, ...]:
    """Returns the texts with normalised Unicode, case and white space, for comparison."""
    return tuple(" ".join(unicodedata.normalize("NFKC", text).casefold().split()) for text in example.texts)


def text_key(example: Example, task: Task) -> tuple[str, ...]:
    """Returns what equal texts have in common: they are `normalise`d, and the order of a pair is ignored."""
    texts = normalise(example)
    return tuple(sorted(texts)) if task.head == "classifier" else texts


def describe_labels(dataset: Dataset) -> Iterator[str]:
    """Yields, for each split with labels, a line with the frequencies of its most frequent labels."""
    for split, examples in dataset.splits.items():
        counts = Counter(count_labels(dataset.task, examples))
        if ranked := [(label, count) for label, count in counts.most_common() if count]:
            listed = ", ".join(f"{one_line(label)} {count:,}" for label, count in ranked[:MAX_LISTED])
            more = f", and {len(ranked) - MAX_LISTED} more" if len(ranked) > MAX_LISTED else ""
            unlabelled = sum(example.gold == () for example in examples)
            yield f"{split}: {listed}{more}{when(unlabelled, f', no label {unlabelled:,}')}"


def count_labels(task: Task, examples: Examples) -> dict[str, int]:
    """Returns the frequency of each label; {} if an answer is missing or the task has no labels."""
    return {} if any(example.gold is None for example in examples) else task.label_counts(examples)


def locate_files(settings: Settings, task: Task) -> dict[str, Data]:
    """Returns the data of each split: that in the settings, else the file with its name in the folder.

    The keys are "train", "dev", "test" and the names of other files to predict; splits without a file are
    left out.
    """
    data, folder = settings.data, None
    if not isinstance(data, Given):
        data = as_path(data)
        if not parts_of(data) or not parts_of(data)[0].exists():
            fix = "Pass a folder with train and dev files, or a training file, as `data`"
            raise DataError("no such file or folder", where=data, fix=fix)
        folder = data if data.is_dir() and not is_saved_dataset(data) else None
    chosen = {"train": None if folder else data, "dev": settings.dev, "test": settings.test}
    preferred_names = {"train": (), "dev": task.dev_files, "test": task.test_files}
    sources: dict[str, Data] = {}
    for split in SPLIT_NAMES:
        if (source := chosen[split]) is not None:
            sources[split] = source if isinstance(source, Given) else as_path(source)
        elif folder and (path := find_split(folder, split, preferred_names[split], task.formats)):
            sources[split] = path
    others = [as_path(source) for source in as_tuple(settings.extra_eval)]
    for path in [*others, *(find_named(folder, task.also, task.formats) if folder else ())]:
        name = split_name(path)[0]
        # A further file called train, dev, test or eval would have scores with the keys of that split.
        is_split_name = name in (*SPLIT_NAMES, "eval") and name not in sources
        if is_split_name or not re.fullmatch(r"\w[\w.-]*", name) or sources.setdefault(name, path) != path:
            problem = f"{name!r} is the name of a split or of another file, or has invalid characters"
            raise DataError(problem, where=path, fix="Rename the file")
    if "train" not in sources:
        names = " or ".join(f"{name}*" for name in SPLIT_NAMES["train"])
        formats = f"{', '.join(task.formats)}, each also {', '.join(COMPRESSIONS)}"
        fix = f"Name it {names} ({formats}), or pass the file itself as `data`"
        raise DataError("no training file", where=data, fix=fix)
    return sources
