"""Tasks that read one text or two and answer with one label or one number: classification and regression.

The reference's details that matter are kept: both orders of a pair in training for MRPC and STS-B (not QQP),
numbers scaled to [0, 1] and fitted by squared error. The scaling is undone in the model's last layer when it
is saved, so it answers in the data's unit.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from electra.errors import ConfigError, DataError, nearest
from electra.finetuning.features import Tokens, Windows
from electra.finetuning.losses import balanced_weights, cross_entropy
from electra.finetuning.metrics import METRICS, Score
from electra.finetuning.tasks import HeadKind, Outputs, Task
from electra.labelled.examples import Example, Split
from electra.labelled.tables import ID_COLUMNS, cell_text, format_tsv, open_table, row_id

if TYPE_CHECKING:
    from torch import Tensor

Kind = Literal["classification", "regression", "multi-label"]
SEVERAL = re.compile(r"[,;|]")  # between several labels in one cell
MULTI_LABEL_METRICS = ("f1_micro", "f1_macro", "accuracy")


@dataclass(frozen=True, kw_only=True)
class SequenceTask(Task):
    kind: Kind = "classification"
    labels: tuple[str, ...] = ()  # names in the order of the classes; () = found in training data
    numbered: bool = (
        True  # a file may also give a class's number: not where the labels were found, in an order of our own
    )
    scale: tuple[float, float] | None = None  # regression: lowest and highest; None = found in training data
    both_orders: bool = False  # train on (a, b) and (b, a)
    drop_malformed: bool = False  # leave out rows with a wrong number of cells and count them
    submissions: tuple[tuple[str, str], ...] = ()  # split -> name of the file that GLUE's server wants
    submit_numbers: bool = False  # it wants the class's number, not its name

    def configured(self, options: Mapping[str, Any]) -> SequenceTask:
        columns = options.get("text_column")
        if columns and self.name == "pair" and len(columns) != 2:
            raise ConfigError(
                "a pair has two texts",
                where="--text-column",
                fix="Give two columns, or --task classification",
            )
        configured = super().configured(options)
        assert isinstance(configured, SequenceTask)
        if options.get("both_orders") is not None:
            configured = replace(configured, both_orders=options["both_orders"])
        if not options.get("multi_label"):
            return configured
        if self.kind != "classification" or self.labels:
            raise ConfigError(
                f"{self.name} has one answer", where="--multi-label", fix="Use --task classification or pair"
            )
        return replace(configured, kind="multi-label", metrics=MULTI_LABEL_METRICS)

    @property
    def head(self) -> HeadKind:
        return "classifier"

    @property
    def num_outputs(self) -> int:
        return 1 if self.kind == "regression" else len(self.labels)

    @property
    def label_names(self) -> tuple[str, ...]:
        return ("score",) if self.kind == "regression" else self.labels

    def read(self, path: Path, labelled: bool = True) -> Split:
        table = open_table(path, self.header, self.texts, self.drop_malformed)
        texts = next((names for names in self.texts if set(names) <= set(table.columns)), None)
        if texts is None:
            raise table.no_column([" + ".join(names) for names in self.texts], "--text-column")
        label = table.column(self.label)
        if label is None and labelled:
            raise table.no_column(self.label, "--label-column")
        identifier = table.column([name for name in ID_COLUMNS if name not in (*texts, label)])
        examples = []
        for number, (line, row) in enumerate(table.rows):
            where = f"{path}:{line}"
            gold = self._gold(row.get(label), where) if label else None
            if gold is None and labelled:
                raise DataError(f"no answer in column {label!r}", where=where)
            name = row_id(row, identifier, number)
            examples.append(
                Example(name, where, tuple(cell_text(row, column, where) for column in texts), gold)
            )
        if not examples:
            raise DataError("no examples: the file has nothing but a header", where=path)
        return Split(tuple(examples), table.dropped)

    def _gold(self, value: Any, where: str) -> Any:
        """An answer as written; None where there is none. GLUE's test files on the hub have -1
        in its place.
        """
        if isinstance(value, float) and math.isnan(value):  # how pandas writes an empty cell
            value = None
        if self.kind == "multi-label":
            several = _several(value) if isinstance(value, str) else value
            if several is not None and not isinstance(several, list):
                raise DataError(f"{value!r} is not a list of labels", where=where)
            return None if several is None else tuple(sorted({str(name).strip() for name in several} - {""}))
        if isinstance(value, list | dict):
            raise DataError(
                f"{value!r} is not one label", where=where, fix="Use --multi-label where several can be right"
            )
        text = "" if value is None else str(value).strip()
        no_answer = (
            text in ("-1", "-1.0")
            and text not in self.labels
            and (self.labels or (self.scale and self.scale[0] > -1))
        )
        return None if no_answer or not text else text

    def fit(self, examples: Sequence[Example]) -> SequenceTask:
        where = examples[0].where.rpartition(":")[0]
        if self.kind == "regression":
            numbers = [self.gold_number(example) for example in examples]
            low, high = self.scale or (min(numbers), max(numbers))
            if low == high:
                raise DataError(f"every example has the number {low:g}: nothing to learn", where=where)
            return replace(self, scale=(low, high))
        if self.kind == "multi-label":
            return self._fit_several(examples)
        found = sorted({str(example.gold) for example in examples}, key=_natural)
        labels = self.labels or tuple(found)
        fitted = replace(self, labels=labels, numbered=self.numbered and bool(self.labels))
        classes = [fitted.gold_class(example) for example in examples]
        if len(set(classes)) < 2:
            raise DataError(
                f"every example has the label {found[0]!r}: nothing to learn",
                where=where,
                fix="Check --label-column",
            )
        return replace(fitted, weights=balanced_weights(classes, len(labels)) if self.balanced else ())

    def _fit_several(self, examples: Sequence[Example]) -> SequenceTask:
        found = sorted({name for example in examples for name in example.gold}, key=_natural)
        fitted = replace(self, labels=self.labels or tuple(found))
        if len(found) < 2:
            where = examples[0].where.rpartition(":")[0]
            raise DataError(
                "fewer than two labels: nothing to learn", where=where, fix="Check --label-column"
            )
        counts = np.stack([fitted.gold_several(example) for example in examples]).sum(0)
        one_sided = (counts == 0) | (counts == len(examples))  # nothing to balance
        weights = np.where(
            one_sided, 1.0, (len(examples) - counts) / np.maximum(counts, 1)
        )  # of the positive side of each label
        return replace(fitted, weights=tuple(map(float, weights)) if self.balanced else ())

    def rebuilt(self, labels: tuple[str, ...], config: Mapping[str, Any]) -> SequenceTask:
        """A saved model answers in the data's unit, so nothing is left to scale."""
        if config.get("problem_type") == "regression" or len(labels) == 1:
            return replace(self, kind="regression", labels=(), scale=(0.0, 1.0))
        if config.get("problem_type") == "multi_label_classification":
            return replace(self, kind="multi-label", labels=labels, metrics=MULTI_LABEL_METRICS)
        return replace(self, kind="classification", labels=labels)

    def config_values(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        names = {"classification": "single_label_classification", "multi-label": "multi_label_classification"}
        return {"problem_type": names.get(self.kind, self.kind)}

    def knows(self, example: Example) -> bool:
        if self.kind == "multi-label" and not example.gold:
            return False  # "none is right" is an answer of single rows, not of a whole file
        try:
            self._target(example)
        except DataError:
            return False
        return True

    def gold_class(self, example: Example) -> int:
        gold = str(example.gold)
        if gold in self.labels:
            return self.labels.index(gold)
        if (
            self.numbered
            and gold.isdecimal()
            and int(gold) < len(self.labels)
            and not any(name.isdecimal() for name in self.labels)
        ):
            return int(gold)
        raise DataError(f"unknown label {gold!r}", where=example.where, fix=nearest(gold, list(self.labels)))

    def gold_several(self, example: Example) -> npt.NDArray[np.float32]:
        """1 for each label that is right."""
        for name in example.gold:
            if name not in self.labels:
                raise DataError(
                    f"unknown label {name!r}", where=example.where, fix=nearest(name, list(self.labels))
                )
        return np.array([label in example.gold for label in self.labels], np.float32)

    def gold_number(self, example: Example) -> float:
        try:
            number = float(example.gold)
        except (TypeError, ValueError):
            number = np.nan
        if not np.isfinite(number):
            raise DataError(
                f"{example.gold!r} is not a number", where=example.where, fix="Check --label-column"
            )
        return number

    def featurize(
        self, examples: Sequence[Example], tokens: Tokens, max_length: int, train: bool = False
    ) -> Windows:
        columns = [list(texts) for texts in zip(*(example.texts for example in examples), strict=True)]
        orders = [columns, columns[::-1]] if train and self.both_orders and len(columns) == 2 else [columns]
        joined = [row for order in orders for row in tokens.join(order, max_length)]
        targets = None
        if all(example.gold is not None for example in examples):
            targets = [self._target(example) for example in examples] * len(orders)
        return Windows(
            input_ids=[ids for ids, _, _ in joined],
            token_type_ids=[types for _, types, _ in joined],
            example=np.tile(np.arange(len(examples)), len(orders)),
            targets=targets,
            truncated=sum(cut for _, _, cut in joined[: len(examples)]),
        )

    def _target(self, example: Example) -> Any:
        if self.kind == "classification":
            return np.array(self.gold_class(example), np.int64)
        if self.kind == "multi-label":
            return self.gold_several(example)
        assert self.scale is not None
        low, high = self.scale
        return np.array((self.gold_number(example) - low) / (high - low), np.float32)

    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, float]:
        import torch
        from torch.nn import functional as F

        if self.kind == "regression":
            return F.mse_loss(logits.squeeze(-1).float(), targets, reduction="sum"), len(targets)
        if self.kind == "multi-label":
            weights = logits.new_tensor(self.weights, dtype=torch.float32) if self.weights else None
            loss = F.binary_cross_entropy_with_logits(
                logits.float(), targets, pos_weight=weights, reduction="sum"
            )
            return loss, targets.numel()
        return cross_entropy(logits, targets, self.weights)

    def output_scale(self) -> tuple[float, float]:
        low, high = self.scale or (0.0, 1.0)
        return (high - low, low) if self.kind == "regression" else (1.0, 0.0)

    def predict(self, outputs: Outputs, windows: Windows, examples: Sequence[Example]) -> list[Any]:
        """Probabilities [classes], which for several labels are each its own, or [number] in the
        data's unit.
        """
        assert len(outputs) == len(examples)
        logits = np.stack(outputs).astype(np.float64)
        if self.kind == "regression":
            factor, offset = self.output_scale()
            return list(logits * factor + offset)
        if self.kind == "multi-label":
            return list(1 / (1 + np.exp(-logits)))
        exponentials = np.exp(logits - logits.max(-1, keepdims=True))
        return list(exponentials / exponentials.sum(-1, keepdims=True))

    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]:
        stacked = np.stack(predictions)
        if self.kind == "regression":
            predicted, gold = stacked[:, 0], np.array([self.gold_number(example) for example in examples])
        elif self.kind == "multi-label":
            predicted, gold = (
                stacked > 0.5,
                np.stack([self.gold_several(example) for example in examples]) > 0.5,
            )
        else:
            predicted, gold = stacked.argmax(-1), np.array([self.gold_class(example) for example in examples])
        return {name: METRICS[name](predicted, gold) for name in self.metrics}

    def table(self, predictions: Sequence[Any], examples: Sequence[Example]) -> list[tuple[str, ...]]:
        if self.kind == "regression":
            return [
                ("id", "score"),
                *((e.id, _digits(p[0])) for e, p in zip(examples, predictions, strict=True)),
            ]
        rows = [(e.id, self.answer(p), *map(_digits, p)) for e, p in zip(examples, predictions, strict=True)]
        return [("id", "label", *(f"p({name})" for name in self.labels)), *rows]

    def answer(self, prediction: npt.NDArray[np.float64]) -> str:
        """The label, or the labels with "|" between."""
        if self.kind == "multi-label":
            return "|".join(label for label, p in zip(self.labels, prediction, strict=True) if p > 0.5)
        return self.labels[int(prediction.argmax())]

    def files(self, split: str, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, bytes]:
        """The predictions file, and the one that can be sent to GLUE's server."""
        name = dict(self.submissions).get(split)
        rows = [
            ("index", "prediction"),
            *((e.id, self._submitted(p)) for e, p in zip(examples, predictions, strict=True)),
        ]
        return super().files(split, predictions, examples) | (
            {f"{name}.tsv": format_tsv(rows)} if name else {}
        )

    def _submitted(self, prediction: npt.NDArray[np.float64]) -> str:
        if self.kind == "regression":
            assert self.scale is not None
            return format(float(np.clip(prediction[0], *self.scale)), ".3f")
        return str(int(prediction.argmax())) if self.submit_numbers else self.answer(prediction)


def _digits(number: float) -> str:
    return format(number, ".9g")


def _several(cell: str) -> list[Any]:
    """Labels with commas between, or a list as Python and JSON write it."""
    if cell.strip().startswith("["):
        try:
            listed = ast.literal_eval(cell.strip())
        except (ValueError, SyntaxError):
            listed = None
        if isinstance(listed, list):
            return listed
    return SEVERAL.split(cell)


def _natural(label: str) -> tuple[int, float, str]:
    """Sort numbers as numbers, before words."""
    try:
        number = float(label)
    except ValueError:
        number = math.nan
    return (0, number, label) if math.isfinite(number) else (1, 0.0, label)
