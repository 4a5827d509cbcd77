"""The settings of the paper and of its published code, task by task."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from electra.finetuning.labelled.examples import Example
from electra.finetuning.settings import ResolvedSettings, Settings, default_layer_decay, default_learning_rate
from electra.finetuning.tasks import load_task
from electra.finetuning.train.dataset import Dataset
from electra.finetuning.train.prepared import resolve
from electra.foundation.extensions import TASKS
from electra.model.sizes import EncoderConfig

SMALL = EncoderConfig("electra", 30_522, 128, 256, 12, 4, 1024)


def resolved(config: EncoderConfig = SMALL, size: int = 8551, **options: Any) -> ResolvedSettings:
    train = (Example("0", "f:1", ("a",), "0"),) * size
    settings = Settings(task="cola", data=Path(), out=Path(), **options)
    return resolve(settings, Dataset(load_task("cola"), {"train": train}, {}, ()), config)


def test_epochs_orders_and_lengths_of_tasks() -> None:
    published = {"rte": 10, "stsb": 10, "squad": 2, "squad2": 2}
    published |= dict.fromkeys(("cola", "sst2", "mrpc", "qqp", "mnli", "qnli"), 3)
    assert {name: load_task(name).epochs for name in published} == published
    names = {name for name in TASKS.names() if getattr(load_task(name), "both_orders", False)}
    assert names == {"mrpc", "stsb"}
    squad: Any = load_task("squad2")
    lengths = squad.max_length, squad.stride, squad.max_question, squad.max_answer, squad.n_best
    assert lengths == (512, 128, 64, 30, 20) and squad.threshold == 0.0


def test_rates_decays_and_warmup_of_the_paper() -> None:
    names = ("batch_size", "warmup", "weight_decay", "dropout", "clip")
    assert [getattr(resolved(), name) for name in names] == [32, 0.1, 0.0, 0.1, 1.0]
    for width, found in {256: (3e-4, 0.8), 768: (1e-4, 0.8), 1024: (5e-5, 0.9)}.items():
        assert (default_learning_rate(width), default_layer_decay(width)) == found


def test_dropout_is_that_of_pretraining_except_with_the_frozen_head() -> None:
    for head, dropout in (("transformers", 0.1), ("linear", 0.1), ("frozen", 0.0)):
        assert resolved(head=head).dropout == dropout
        assert resolved(replace(SMALL, dropout=0.0), head=head).dropout == 0.0
        assert resolved(head=head, dropout=0.2).dropout == 0.2


def test_few_examples_are_read_more_often_than_the_paper_reads_many() -> None:
    epochs = {size: resolved(size=size).epochs for size in (50, 1000, 8551)}
    assert epochs == {50: 20, 1000: 10, 8551: 3} and resolved(size=50, epochs=2).epochs == 2
