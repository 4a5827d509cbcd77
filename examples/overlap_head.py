"""A head of your own: the standard head plus a linear model of words, and of the overlap of a pair.

    electra finetune tiny-en --task mrpc --data glue/mrpc --head examples/overlap_head.py --out runs/mrpc
    electra predict runs/mrpc pairs.csv --head examples/overlap_head.py --out answers.csv

With a few thousand labels, a network of a few million parameters does not learn which words of one text occur
in the other, or which words matter. Here scikit-learn fits a linear model of that first, and the network
learns the rest. Most of the gain on pairs is the linear model's: an untrained encoder gains as much, so
fine-tune once more with `--init random` to see what yours adds.

In training, an example's linear logits come from a fit without it (stacked generalization: Wolpert 1992); a
model fitted to its label would leave the network nothing to learn. transformers loads the encoder alone.
Shapes: B texts or pairs, N training examples, F features, O outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from electra.finetuning.counts import NUM_OVERLAPS, overlaps, words
from electra.finetuning.heads import load_head
from electra.finetuning.heads.parts.contract import HeadFactory, HeadModule, HeadShape, TrainingData
from electra.finetuning.windows.features import LabelledBatch
from electra.foundation.errors import ConfigError
from electra.model.encoder import Encoder

BUCKETS = 1 << 16  # into which terms are hashed, so that the weights have a fixed shape
FOLDS = 5


def terms(texts: Sequence[str]) -> Iterator[str]:
    """Yields the words and pairs of words of a text; for two texts, the words that one or both have."""
    if len(texts) == 1:
        found = words(texts[0])
        yield from found
        yield from map(" ".join, pairwise(found))
        return
    first, second = (set(words(text)) for text in texts)
    for kind, group in (("first", first - second), ("second", second - first), ("both", first & second)):
        yield from (f"{kind} {word}" for word in sorted(group))


def features(texts: Sequence[tuple[str, ...]]) -> Any:
    """Returns the terms, of unit length, and the overlaps of each text or pair: a sparse matrix [N, F]."""
    from scipy.sparse import csr_array, hstack
    from sklearn.feature_extraction.text import HashingVectorizer

    hashed = HashingVectorizer(analyzer=terms, n_features=BUCKETS, alternate_sign=False).transform(texts)
    dense = [overlaps(*each) if len(each) == 2 else np.zeros(NUM_OVERLAPS) for each in texts]
    return csr_array(hstack([hashed, np.stack(dense)]))


class OverlapHead(HeadModule):
    """The standard head plus a linear model; `weight` [F, O] and `bias` [O] are fitted, not trained."""

    not_in_graphs = "the head overlap_head reads words, which an ONNX graph does not"
    weight: Tensor
    bias: Tensor
    held_out: Tensor  # the linear logits of the training examples [N, O]

    def __init__(self, standard: nn.Module, num_outputs: int) -> None:
        super().__init__()
        self.standard = standard
        self.register_buffer("weight", torch.zeros(BUCKETS + NUM_OVERLAPS, num_outputs))
        self.register_buffer("bias", torch.zeros(num_outputs))
        self.register_buffer("held_out", torch.zeros(0, num_outputs), persistent=False)

    def forward(self, hidden_BTD: Tensor, batch: LabelledBatch) -> Tensor:
        """Returns logits [B, O]."""
        logits: Tensor = self.standard(hidden_BTD, batch).float()
        if self.training:
            return logits + self.held_out[torch.from_numpy(batch.index).to(logits.device)]
        linear = torch.from_numpy(features(batch.texts) @ self.weight.cpu().numpy())
        return logits + linear.to(logits) + self.bias

    def rescale(self, factor: float, offset: float) -> None:
        """Multiplies the outputs by `factor`, and adds `offset`."""
        for name in ("standard.output.weight", "standard.output.bias"):
            self.get_parameter(name).mul_(factor)
        self.weight.mul_(factor)
        self.bias.mul_(factor).add_(offset)

    def fit(self, texts: Sequence[tuple[str, ...]], targets: np.ndarray[Any, Any]) -> None:
        """Fits the linear model to classes or numbers [N], and zeroes the last layer of the standard head.

        Raises:
            ConfigError: a text has several labels.
        """
        from sklearn.linear_model import LogisticRegression, Ridge
        from sklearn.model_selection import cross_val_predict

        if targets.ndim > 1:
            raise ConfigError("the head overlap_head predicts one label or number for a text", key="head")
        x_NF, is_number = features(texts), targets.dtype.kind == "f"
        model = Ridge() if is_number else LogisticRegression(C=10.0, max_iter=300)
        folds = min(FOLDS, len(targets) if is_number else int(np.unique(targets, return_counts=True)[1].min()))
        columns = np.zeros(1, np.int64) if is_number else np.unique(targets)
        weight_CF, bias_C = np.atleast_2d(model.fit(x_NF, targets).coef_), np.ravel(model.intercept_)
        held_out = x_NF @ weight_CF.T + bias_C
        if folds > 1:
            method = "predict" if is_number else "decision_function"
            held_out = cross_val_predict(model, x_NF, targets, cv=folds, method=method)
            held_out = held_out.reshape(len(targets), -1)
        if len(columns) == 2:  # one logit, of the second class: half of it for each
            weight_CF, bias_C = (np.concatenate([-value, value]) / 2 for value in (weight_CF, bias_C))
            held_out = np.hstack([-held_out, held_out]) / 2
        self.held_out = self.bias.new_zeros(len(targets), len(self.bias))
        for into, values in ((self.weight, weight_CF.T), (self.bias, bias_C), (self.held_out, held_out)):
            into[..., columns] = torch.from_numpy(np.asarray(values)).to(into)
        for name in ("output.weight", "output.bias"):
            self.standard.get_parameter(name).data.zero_()


class OverlapFactory(HeadFactory):
    """Builds the head, and fits its linear model before training."""

    name = "overlap_head"
    kinds = ("classifier",)
    dropout = 0.0

    def build(self, shape: HeadShape) -> OverlapHead:
        """Returns a new head around the standard one."""
        return OverlapHead(load_head("transformers").build(shape), shape.num_outputs)

    def start(self, head: HeadModule, encoder: Encoder, data: TrainingData) -> None:
        """Fits the linear model to the training examples."""
        assert isinstance(head, OverlapHead)
        assert data.windows.targets is not None, "training data has answers"
        head.fit(list(data.windows.texts), np.stack(data.windows.targets))


HEAD = OverlapFactory()
