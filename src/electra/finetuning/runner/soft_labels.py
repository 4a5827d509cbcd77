"""Trains on soft labels: the answers of a fine-tuned teacher are part of the targets.

At temperature 1, the two losses of Hinton et al. 2015 (section 2), the cross-entropies with the label and
with the teacher's probabilities, equal one cross-entropy with the weighted mean of the two targets, which is
what this module computes. The targets of texts without labels are the teacher's answers alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from electra.data.table_files import data_digest
from electra.exchange.huggingface import exported_weights
from electra.exchange.weights import digest
from electra.finetuning.heads import load_head
from electra.finetuning.heads.parts.contract import HeadFactory
from electra.finetuning.labelled.examples import TEXT_COUNTS, Examples, read_texts
from electra.finetuning.predict import Predictor, open_predictor
from electra.finetuning.runner.prepared import Finetuning, count_steps
from electra.finetuning.settings import Settings
from electra.finetuning.tasks.parts.task import Task
from electra.finetuning.windows.features import Tokens
from electra.foundation.errors import ConfigError, DataError
from electra.foundation.options import as_path
from electra.foundation.terminal_text import plural


def open_teacher(prepared: Finetuning, num_texts: int) -> tuple[Predictor | None, Examples]:
    """Returns the teacher and the texts without labels that the settings name; (None, ()) without a teacher.

    The texts are the lines of a .txt file, or the rows of a table with the task's columns.
    """
    settings, task = prepared.settings, prepared.task
    if settings.teacher is None:
        return None, ()
    predictor = _open(str(settings.teacher), task, settings.head)
    expected = f"but the training data has {TEXT_COUNTS[num_texts]}"
    if predictor.num_texts not in (None, num_texts):
        problem = f"the teacher reads {TEXT_COUNTS[predictor.num_texts]}, {expected}"
        raise ConfigError(problem, where=str(settings.teacher), key="teacher", fix="Pass another teacher")
    if settings.unlabelled is None:
        return predictor, ()
    path = as_path(settings.unlabelled)
    is_lines = path.suffix == ".txt"
    texts = read_texts(path) if is_lines else task.read(path, labelled=False).examples
    texts = tuple(replace(example, gold=None) for example in texts)
    if other := next((example for example in texts if len(example.texts) != num_texts), None):
        fix = "Pass a table" if is_lines else "Pass a file like the training data"
        problem = f"{TEXT_COUNTS[len(other.texts)]}, {expected}"
        raise DataError(problem, where=path, key="unlabelled", fix=fix)
    return predictor, texts


def _open(teacher: str, task: Task, head: str) -> Predictor:
    """Opens a fine-tuned model as a teacher; its labels must be those of the task."""
    if type(task).soft_target is Task.soft_target:
        fix = "Use a task with one answer for each text, such as classification, pair or regression"
        raise ConfigError(f"{task.name} cannot learn from a teacher's answers", key="teacher", fix=fix)
    if type(load_head(head)).start is not HeadFactory.start:
        problem = f"the head {head} is fitted to the labels themselves"
        raise ConfigError(problem, key="head", fix="Use `head` transformers")
    predictor = open_predictor(teacher)
    labels, teacher_labels = task.label_names, predictor.task.label_names
    if type(predictor.task) is not type(task) or set(labels) != set(teacher_labels):
        shown = [", ".join(map(repr, names[:5])) for names in (teacher_labels, labels)]
        problem = f"the teacher predicts {shown[0]}, but the task has {shown[1]}"
        fix = "Fine-tune the teacher on the same labels"
        raise ConfigError(problem, where=teacher, key="teacher", fix=fix)
    return predictor


def teacher_digest(predictor: Predictor) -> str:
    """Returns the SHA-256 of the teacher's weights, including its head's."""
    head_weights = {f"head.{name}": value for name, value in predictor.tuned.head.state_dict().items()}
    return digest(exported_weights(predictor.loaded.encoder, None) | head_weights)


def unlabelled_digest(settings: Settings) -> dict[str, str]:
    """Returns the digest of the file of texts without labels, for the record; {} if there is none."""
    return {} if settings.unlabelled is None else {"unlabelled": data_digest(as_path(settings.unlabelled))}


def with_soft_labels(
    prepared: Finetuning, train: Examples, unlabelled: Examples, predictor: Predictor
) -> tuple[Finetuning, str]:
    """Returns the fine-tuning with the teacher's answers in its targets, and a note on its score."""
    task, settings, examples = prepared.task, prepared.settings, (*train, *unlabelled)
    answers = reorder_labels(predictor.values(examples), predictor.task.label_names, task.label_names)
    weight = settings.teacher_weight
    soft_targets = [
        task.soft_target(example, answer, weight if example.gold is not None else 1.0)
        for example, answer in zip(examples, answers, strict=True)
    ]
    windows = task.featurize(examples, Tokens(prepared.start.tokenizer), settings.max_length, train=True)
    windows = replace(windows, targets=[soft_targets[index] for index in windows.example])
    metric = task.metrics[0]
    value = task.score(answers[: len(train)], train)[metric].value
    score = "undefined" if value is None else f"{value:.3f}"
    note = f"teacher: {metric} {score} on the {plural(len(train), 'training example')}"
    if unlabelled:
        note += f"; {plural(len(unlabelled), 'text')} without labels added"
    soft_tuning = replace(prepared, train=windows, total_steps=count_steps(settings, windows))
    return soft_tuning, note


def reorder_labels(
    answers: Sequence[npt.NDArray[Any]], source: Sequence[str], target: Sequence[str]
) -> list[npt.NDArray[Any]]:
    """Reorders answers [labels] from the order of labels `source` to the order `target`."""
    indices = [list(source).index(label) for label in target]
    return [np.asarray(answer)[indices] for answer in answers]
