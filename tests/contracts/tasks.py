"""The contract tests of fine-tuning tasks, of electra and of the examples."""

import csv
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from contracts import toy_task
from electra.finetuning.predict import open_predictor
from electra.finetuning.settings import Settings, TaskOptions
from electra.finetuning.tasks import load_task
from electra.finetuning.train.all_seeds import finetune
from electra.finetuning.windows.features import Tokens
from electra.testing.contracts import Contract

LENGTH = 16


class TaskContract(Contract):
    """Contract tests of tasks.

    Subclass this in a test file and set `task` to the name or path of a task, or to several. If its files are
    neither tables of texts nor columns of words and tags, override `write_data`, with words from
    `contracts.toy_task`, because those are in the model's vocabulary.
    """

    subject = "task"
    task: ClassVar[str | Path | Sequence[str | Path]]

    def write_data(self, name: str, folder: Path) -> Path:
        """Writes files `train` and `dev` with something to learn, and returns their folder."""
        if load_task(name).head == "classifier":
            return write_table(name, folder)
        if load_task(name).head == "tagger":
            return toy_task.write_tagging(folder, train=40, dev=20)
        raise NotImplementedError(f"override write_data for {name}, which has its own file format")

    @pytest.fixture
    def data(self, name: str, tmp_path: Path) -> Path:
        """The folder of the task's data."""
        return self.write_data(name, tmp_path / "data")

    @pytest.fixture
    def tokens(self, tmp_path: Path) -> Tokens:
        """The toy tokenizer."""
        return Tokens(toy_task.tokenizer(tmp_path / "vocabulary"))

    def read(self, name: str, data: Path, split: str = "train") -> tuple[Any, Any]:
        """Returns the task, fitted to the training data, and the examples of a split."""
        task = load_task(name).with_options(TaskOptions())
        files = {split: next(path for path in data.iterdir() if path.name.startswith(split))}
        files["train"] = next(path for path in data.iterdir() if path.name.startswith("train"))
        return task.fit(task.read(files["train"]).examples), task.read(files[split]).examples

    def test_its_attributes_are_complete_and_comparable(self, name: str) -> None:
        task = load_task(name)
        assert task.name and task.version >= 1 and task.source and task.metrics and task.epochs > 0
        assert task.head in ("classifier", "tagger", "reader") and task.max_length > 2
        assert load_task(name) == task and hash(repr(task)) == hash(repr(load_task(name)))

    def test_examples_have_ids_and_locations(self, name: str, data: Path) -> None:
        task, examples = self.read(name, data)
        assert examples and len({example.id for example in examples}) == len(examples)
        for example in examples:
            assert Path(str(example.where).split(":")[0]).name.startswith("train")
            assert example.texts and all(isinstance(text, str) for text in example.texts)
            assert example.gold is not None and task.can_score(example) in (True, False)
        assert task.num_outputs >= 1 and len(task.label_names) in (0, task.num_outputs)
        assert len(set(task.label_names)) == len(task.label_names)

    def test_windows_fit_and_are_reproducible(self, name: str, data: Path, tokens: Tokens) -> None:
        task, examples = self.read(name, data)
        for train in (True, False):
            windows, again = (task.featurize(examples, tokens, LENGTH, train=train) for _ in range(2))
            assert len(windows) >= len(examples) or task.head == "reader"
            assert int(windows.lengths().max()) <= LENGTH
            assert all(map(np.array_equal, windows.input_ids, again.input_ids))

    def test_losses_add_up(self, name: str, data: Path, tokens: Tokens) -> None:
        """Losses and counts of two halves of a batch add up to the whole's."""
        task, examples = self.read(name, data)
        targets, logits = self.batch(task, task.featurize(examples, tokens, LENGTH, train=True))
        whole_loss, count = task.loss(logits, targets)
        [gradient] = torch.autograd.grad(whole_loss, logits, retain_graph=True)
        assert count > 0 and torch.isfinite(gradient).all() and gradient.any()
        middle = len(targets) // 2
        parts = [task.loss(logits[:middle], targets[:middle]), task.loss(logits[middle:], targets[middle:])]
        expected = float(whole_loss.detach())
        # Some losses are computed in float32.
        tolerance = logits.numel() * float(np.finfo(np.float32).eps)
        assert math.isclose(sum(float(part[0].detach()) for part in parts), expected, rel_tol=tolerance)
        assert math.isclose(sum(part[1] for part in parts), count, rel_tol=tolerance)

    def batch(self, task: Any, windows: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns all targets, padded as in training, and random head outputs of the matching shape."""
        from electra.finetuning.windows.features import collate

        batch = collate(windows, np.arange(len(windows)), pad=0)
        B, T = batch.input_ids.shape
        rng = torch.Generator().manual_seed(1)
        shape = (B, task.num_outputs) if task.head == "classifier" else (B, T, task.num_outputs)
        logits = torch.randn(shape, generator=rng, dtype=torch.float64)
        assert batch.targets is not None
        return batch.targets, (logits[:, 0] if shape == (B, 1) else logits).requires_grad_()

    def test_a_fine_tuned_model_reproduces_its_predictions(self, name: str, data: Path, tmp_path: Path) -> None:
        """The saved model makes the same predictions as the one that was scored."""
        model, out = toy_task.save_encoder(tmp_path / "model"), tmp_path / "out"
        settings = Settings(task=name, data=data, out=out, epochs=1, precision="fp32", device="cpu", max_length=LENGTH)
        finetune(str(model), settings)
        dev = next(path for path in data.iterdir() if path.name.startswith("dev"))
        predicted, scored = open_predictor(str(out))(dev).rows(), read_table(out / "seeds/seed-0/dev.tsv")
        assert len(predicted) == len(scored) > 1 and list(predicted[0]) == scored[0]
        # For question answering, `predict` uses the best threshold on dev; the saved dev predictions do not.
        if "null_odds" in scored[0]:
            return
        cells = [zip(*rows, strict=True) for rows in zip(predicted, scored, strict=True)]
        for cell, other in (pair for row in cells for pair in row):
            assert cell == other or float(cell) == pytest.approx(float(other), rel=1e-4, abs=1e-6)


def write_table(name: str, folder: Path, train: int = 40, dev: int = 20) -> Path:
    """Writes train and dev tables with the task's columns and returns their folder.

    Texts with a word of `toy_task.GOOD` have the last label or a high number.
    """
    task: Any = load_task(name)
    labels = ("0.5", "4.5") if task.num_outputs == 1 else (getattr(task, "labels", ()) or ("0", "1"))
    columns = task.header or (*task.texts[0], task.label[0])
    rng = random.Random(1)
    folder.mkdir(parents=True, exist_ok=True)
    for split, size in (("train", train), ("dev", dev)):
        with (folder / f"{split}.tsv").open("w", newline="") as file:
            table = csv.DictWriter(file, columns, delimiter="\t", lineterminator="\n", restval="-")
            if not task.header:
                table.writeheader()
            for i in range(size):
                texts = {column: toy_task.sentence(rng, i % 2, 5) for column in task.texts[0]}
                table.writerow({**texts, task.label[0]: labels[-1 if i % 2 else 0]})
    return folder


def read_table(path: Path) -> list[list[str]]:
    """Returns the cells of a TSV file."""
    return [line.split("\t") for line in path.read_text().splitlines()]
