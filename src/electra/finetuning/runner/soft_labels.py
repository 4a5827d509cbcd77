"""Soft labels: a fine-tuned teacher's answers as the targets of a smaller model.

At temperature 1 the two losses of Hinton et al. 2015 (section 2), cross-entropy with the label and with the
teacher's probabilities, are one cross-entropy with their weighted mean, which is what is computed here. Texts
without labels have the teacher's answers alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from electra.data.table_files import data_digest
from electra.exchange.huggingface import exported_weights
from electra.exchange.weights import digest
from electra.finetuning.heads import load_head
from electra.finetuning.heads.parts.contract import HeadFactory
from electra.finetuning.labelled.examples import Example, Examples
from electra.finetuning.predict import Predictor, open_predictor
from electra.finetuning.runner.tuning import Tuning, count_steps
from electra.finetuning.settings import Settings
from electra.finetuning.tasks.parts.task import Task
from electra.finetuning.windows.features import Tokens
from electra.foundation.errors import ConfigError, DataError
from electra.foundation.options import as_path
from electra.foundation.visible import plural

LINES = (".txt",)  # files with a text in each line


def _open(teacher: str, task: Task, head: str) -> Predictor:
    """Returns the fine-tuned model, whose labels must be those of the task.

    Raises:
        ConfigError: The task or the head cannot learn from soft labels, or the teacher has other labels.
    """
    if type(task).soft_target is Task.soft_target:
        fix = "Use a task with one answer for each text, such as classification, pair or regression"
        raise ConfigError(f"{task.name} cannot learn from a teacher's answers", key="teacher", fix=fix)
    if type(load_head(head)).start is not HeadFactory.start:
        what = f"the head {head} is fitted to the labels themselves"
        raise ConfigError(what, key="head", fix="Use `head` transformers")
    predictor = open_predictor(teacher)
    own, other = task.label_names, predictor.task.label_names
    if type(predictor.task) is not type(task) or set(own) != set(other):
        what = f"answers {', '.join(map(repr, other[:5]))}, and the task has {', '.join(map(repr, own[:5]))}"
        fix = "Fine-tune the teacher on the same labels"
        raise ConfigError(what, where=teacher, key="teacher", fix=fix)
    return predictor


def teacher_digest(predictor: Predictor) -> str:
    """Returns the SHA-256 of the teacher's weights, its head's included."""
    head = {f"head.{name}": value for name, value in predictor.tuned.head.state_dict().items()}
    return digest(exported_weights(predictor.loaded.encoder, None) | head)


def read_unlabelled(path: Path, task: Task) -> Examples:
    """Returns the texts of a file: the lines of a .txt, the rows of a table that has the task's columns."""
    if path.suffix not in LINES:
        return tuple(replace(example, gold=None) for example in task.read(path, labelled=False).examples)
    if all(len(columns) > 1 for columns in task.texts):
        raise DataError("a line is one text, and this task reads two", where=path, fix="Give a table")
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except FileNotFoundError:
        raise DataError("no such file", where=path, fix="Check `unlabelled`") from None
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8 (byte {error.start})", where=path, fix="Convert it to UTF-8") from None
    examples = tuple(
        Example(str(number), f"{path}:{number}", (line.strip(),), row={"text": line.strip()})
        for number, line in enumerate(lines, 1)
        if line.strip()
    )
    if not examples:
        raise DataError("no text in it", where=path, fix="Check `unlabelled`")
    return examples


def with_soft_labels(
    tuning: Tuning, train: Examples, unlabelled: Examples, predictor: Predictor
) -> tuple[Tuning, str]:
    """Returns the fine-tuning with the teacher's answers in its targets, and a note on how it answered.

    train: the labelled examples; unlabelled: those that have the teacher's answers alone.
    """
    task, settings = tuning.task, tuning.settings
    examples = (*train, *unlabelled)
    answers = in_order(predictor.values(examples), predictor.task.label_names, task.label_names)
    weight = settings.teacher_weight
    soft = [
        task.soft_target(example, answer, weight if example.gold is not None else 1.0)
        for example, answer in zip(examples, answers, strict=True)
    ]
    windows = task.featurize(examples, Tokens(tuning.start.tokenizer), settings.max_length, train=True)
    windows = replace(windows, targets=[soft[number] for number in windows.example])
    scores = task.score(answers[: len(train)], train)
    first = task.metrics[0]
    note = f"teacher: {first} {scores[first].value or 0:.3f} on the {plural(len(train), 'training example')}"
    if unlabelled:
        note += f"; {plural(len(unlabelled), 'text')} without labels added"
    softened = replace(tuning, train=windows, total_steps=count_steps(settings, windows))
    return softened, note


def unlabelled_digest(settings: Settings) -> dict[str, str]:
    """Returns the digest of the file of texts without labels, for the record; {} if there is none."""
    return {} if settings.unlabelled is None else {"unlabelled": data_digest(as_path(settings.unlabelled))}


def in_order(
    answers: Sequence[npt.NDArray[Any]], given: Sequence[str], wanted: Sequence[str]
) -> list[npt.NDArray[Any]]:
    """Returns answers [labels] in another order of the labels."""
    places = [list(given).index(label) for label in wanted]
    return [np.asarray(answer)[places] for answer in answers]


def open_teacher(tuning: Tuning) -> tuple[Predictor | None, Examples]:
    """Returns the teacher that the settings name, and the texts without labels.

    Raises:
        ConfigError: The teacher cannot teach this task.
        DataError: The texts cannot be read.
    """
    settings = tuning.settings
    if settings.teacher is None:
        return None, ()
    predictor = _open(str(settings.teacher), tuning.task, settings.head)
    texts = () if settings.unlabelled is None else read_unlabelled(as_path(settings.unlabelled), tuning.task)
    return predictor, texts
