"""The settings of the paper and of its published code, task by task."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from electra.finetuning.labelled.examples import Example
from electra.finetuning.runner.dataset import Dataset
from electra.finetuning.runner.prepared import resolve
from electra.finetuning.settings import Settings, default_layer_decay, default_learning_rate
from electra.finetuning.tasks import load_task
from electra.finetuning.tasks.parts.answer_spans import QuestionAnswering
from electra.foundation.extensions import TASKS
from electra.model.sizes import EncoderConfig

SMALL = EncoderConfig("electra", 30_522, 128, 256, 12, 4, 1024)


def examples_of(task: str, size: int = 8551) -> Dataset:
    return Dataset(load_task(task), {"train": (Example("0", "f:1", ("a",), "0"),) * size}, {}, ())


def test_both_orders_in_training_for_mrpc_and_stsb_and_for_no_other_task() -> None:
    names = {name for name in TASKS.names() if getattr(load_task(name), "both_orders", False)}
    assert names == {"mrpc", "stsb"}


def test_epochs_of_the_paper() -> None:
    published = {"rte": 10, "stsb": 10, "squad": 2, "squad2": 2} | dict.fromkeys(
        ("cola", "sst2", "mrpc", "qqp", "mnli", "qnli"), 3
    )
    assert {name: load_task(name).epochs for name in published} == published


@pytest.mark.parametrize(
    ("task", "head", "dropout"),
    [("cola", "transformers", 0.1), ("cola", "linear", 0.1), ("cola", "frozen", 0.0)],
)
def test_dropout_is_that_of_pretraining_except_with_the_frozen_head(
    task: str, head: str, dropout: float
) -> None:
    settings, data = Settings(task=task, data=Path(), out=Path(), head=head), examples_of(task)
    assert resolve(settings, data, SMALL).dropout == dropout
    assert resolve(settings, data, replace(SMALL, dropout=0.0)).dropout == 0.0
    assert resolve(replace(settings, dropout=0.2), data, SMALL).dropout == 0.2


def test_few_examples_are_read_more_often_than_the_paper_reads_many() -> None:
    settings = Settings(task="cola", data=Path(), out=Path())
    epochs = {size: resolve(settings, examples_of("cola", size), SMALL).epochs for size in (50, 1000, 8551)}
    assert epochs == {50: 20, 1000: 10, 8551: 3}
    assert resolve(replace(settings, epochs=2), examples_of("cola", 50), SMALL).epochs == 2


def test_rates_decays_and_warmup_of_the_paper() -> None:
    given = Settings(task="cola", data=Path(), out=Path())
    settings = resolve(given, examples_of("cola"), SMALL)
    names = ("batch_size", "warmup", "weight_decay", "dropout", "clip")
    assert [getattr(settings, name) for name in names] == [32, 0.1, 0.0, 0.1, 1.0]
    by_width = {256: (3e-4, 0.8), 768: (1e-4, 0.8), 1024: (5e-5, 0.9)}
    assert {
        width: (default_learning_rate(width), default_layer_decay(width)) for width in by_width
    } == by_width


def test_thresholds_and_lengths_of_questions() -> None:
    squad = load_task("squad2")
    assert isinstance(squad, QuestionAnswering) and squad.threshold == 0.0
    lengths = squad.max_length, squad.stride, squad.max_question, squad.max_answer, squad.n_best
    assert lengths == (512, 128, 64, 30, 20)
