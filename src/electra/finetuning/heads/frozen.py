"""The head `frozen`: the encoder is not trained; a linear model is fitted to its states in seconds.

A text is represented by the mean of its tokens' states, a token by its own state. The texts of a pair are
encoded separately, and the pair is represented by |u - v| and u * v of their vectors u and v (InferSent,
Conneau et al. 2017), because an encoder that is not trained for it does not compare two texts in one input.
Long pairs are truncated as for the other heads, the longer text first. The penalty on the weights is chosen
by cross-validation on the training examples. With few labels this often scores higher than a trained encoder.
scikit-learn fits it: a logistic regression (one for each label with `multi_label`), or a ridge regression.

Shapes: B examples, T tokens, N training texts or tokens, O outputs, D hidden size.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from typing_extensions import override

from electra.artifacts.model_files import Pooling
from electra.data.corpus.tokenizer import Tokenizer
from electra.finetuning.heads.linear import Linear
from electra.finetuning.heads.parts.contract import Head, HeadModule, HeadShape, TrainingData
from electra.finetuning.task import Task
from electra.finetuning.windows.features import NO_TARGET, Ids, LabelledBatch, batch_of
from electra.foundation.arrays import Floats
from electra.foundation.errors import ConfigError
from electra.foundation.progress import advance, expect
from electra.model.encoder import Encoder
from electra.model.passes import PaddedBatch, map_rows, pad_rows
from electra.model.sizes import EncoderConfig

FOLDS = 3
SELECTION_ROWS = 3000  # a random sample of at most this many rows decides on the strength; the fit uses all
STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0)  # candidates for the inverse of the penalty on squared weights
CERTAIN = 20.0  # the logit of a label that every training example has
MANY_LABELS = 200  # more are too many for a quick logistic regression
QUICK_EXAMPLES, QUICK_ROWS = 4_000, 20_000  # the examples and states that a quick fit reads
QUICK_SIZE = 50_000  # states times labels above which a quick fit does not choose its penalty


class PairClassifier(Head):
    """A linear layer on |u - v| and u * v of the vectors of two texts, which are encoded separately."""

    not_in_graphs = "the head frozen encodes the two texts of a pair separately; an ONNX graph has one input"

    def __init__(self, config: EncoderConfig, num_outputs: int, pooling: Pooling = "mean") -> None:
        super().__init__(config, num_outputs, pooling)
        self.output = nn.Linear(2 * config.hidden_size, num_outputs)

    @override
    def encode(self, encoder: Encoder, batch: LabelledBatch) -> Tensor:
        """Returns |u - v| and u * v [B, 2 D]."""
        pairs = batch.input_ids.cpu().numpy()
        is_real = pairs >= 0 if batch.document_ids is None else (batch.document_ids >= 0).cpu().numpy()
        texts = [text for ids, real in zip(pairs, is_real, strict=True) for text in split_pair(ids[real])]
        rows = pad_rows(np.arange(len(texts)), texts, batch.input_ids.device, 0)
        text_batch = LabelledBatch(
            rows.index, rows.input_ids, torch.zeros_like(rows.input_ids), rows.document_ids, None
        )
        vectors = self.pool(super().encode(encoder, text_batch), text_batch)
        u_BD, v_BD = vectors[::2], vectors[1::2]
        return torch.cat([(u_BD - v_BD).abs(), u_BD * v_BD], dim=-1)

    @override
    def forward(self, features_BX: Tensor, batch: LabelledBatch) -> Tensor:
        return torch.as_tensor(self.output(self.drop(features_BX)))


def check_pairs(tokenizer: Tokenizer) -> None:
    """Checks that `split_pair` restores single texts from pairs."""
    first, second = (np.array(tokenizer.encode(text).ids) for text in ("a", "b c"))
    pair = np.array(tokenizer.encode("a", "b c").ids)
    if all(map(np.array_equal, split_pair(pair), (first, second))):
        return
    problem = "the head frozen cannot find the two texts of a pair in the tokens of this model's tokenizer"
    raise ConfigError(problem, key="head", fix="Use another `head`")


def split_pair(ids: Ids) -> tuple[Ids, Ids]:
    """Splits [CLS] a [SEP] b [SEP] (RoBERTa: two [SEP] between) into [CLS] a [SEP] and [CLS] b [SEP]."""
    end = int(np.flatnonzero(ids == ids[-1])[0]) + 1
    second = ids[end:]
    if len(second) > 1 and second[0] == ids[-1]:
        second = second[1:]
    return ids[:end], np.concatenate([ids[:1], second])


class Frozen(Linear):
    """Builds a linear layer and fits it to the states of an encoder that is not trained."""

    name = "frozen"
    kinds = ("classifier", "tagger")
    dropout = 0.0
    epochs = 0.0
    pooling = "mean"
    separates_pairs = True

    @override
    def build(self, shape: HeadShape) -> Head:
        if shape.separate_texts:
            return PairClassifier(shape.config, shape.num_outputs, shape.pooling)
        return super().build(shape)

    @override
    def start(self, head: HeadModule, encoder: Encoder, data: TrainingData) -> None:
        assert isinstance(head, Head)
        fit_states(head, encoder, data)


@torch.no_grad()
def fit_states(
    head: Head, encoder: Encoder, data: TrainingData, precision: str = "fp32", quick: bool = False
) -> None:
    """Fits the last layer of a head, which is linear, to the encoder's states.

    The encoder runs in `precision`. If `quick`, at most QUICK_EXAMPLES examples are read (see `fit_linear`).
    """
    chosen = np.arange(len(data.windows))
    if quick and len(chosen) > QUICK_EXAMPLES:
        chosen = np.sort(np.random.default_rng(0).permutation(len(chosen))[:QUICK_EXAMPLES])
    x_ND, targets, groups = read_states(head, encoder, data, chosen, precision)
    mean_D, scale = x_ND.mean(0), max(float(x_ND.std()), 1e-12)
    weight_OD, bias_O = fit_linear((x_ND - mean_D) / scale, targets, data.task, groups, quick)
    weight_OD = weight_OD / scale
    head.output.weight.copy_(torch.from_numpy(weight_OD))
    head.output.bias.copy_(torch.from_numpy(bias_O - weight_OD @ mean_D))


def read_states(
    head: Head, encoder: Encoder, data: TrainingData, chosen: Ids, precision: str = "fp32"
) -> tuple[Floats, npt.NDArray[Any], Ids]:
    """Returns what the last layer reads of the chosen windows [N, D], with targets and examples [N]."""
    windows = data.windows
    assert windows.targets is not None, "training data has answers"
    if isinstance(head, PairClassifier):
        check_pairs(data.tokenizer)
    encoder.eval()
    head.eval()

    def compute_states(rows: PaddedBatch) -> list[Tensor]:
        batch = batch_of(windows, replace(rows, index=chosen[rows.index]))
        encoded = head.encode(encoder, batch).float()
        advance(len(rows.index))
        if isinstance(head, PairClassifier):
            return list(encoded[:, None].cpu())
        if not head.per_token:
            return list(head.pool(encoded, batch)[:, None].cpu())
        assert batch.targets is not None
        pairs = zip(encoded, batch.targets, strict=True)
        return [hidden_TD[targets_T != NO_TARGET].cpu() for hidden_TD, targets_T in pairs]

    inputs = [windows.input_ids[i] for i in chosen]
    expect(len(inputs))
    states = list(map_rows(inputs, compute_states, data.device, precision=precision))
    x_ND = torch.cat(states).double().numpy()
    answers: list[Any] = [np.asarray(windows.targets[i]) for i in chosen]
    if head.per_token:
        targets = np.concatenate([target[target != NO_TARGET] for target in answers])
    else:
        targets = np.stack(answers)
    groups = np.repeat(windows.example[chosen], [len(example_states) for example_states in states])
    return x_ND, targets, groups


def fit_linear(
    x_ND: Floats, targets: npt.NDArray[Any], task: Task, groups: Ids, quick: bool = False
) -> tuple[Floats, Floats]:
    """Returns the weights [O, D] and biases [O] of a linear model of numbers, classes or labels.

    `groups` are the rows' examples [N]. If `quick`, many rows or classes get a fixed penalty, few iterations
    and at most QUICK_ROWS rows.
    """
    from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier

    weight_OD, bias_O = np.zeros((task.num_outputs, x_ND.shape[1])), np.zeros(task.num_outputs)
    strengths = [{"C": strength} for strength in STRENGTHS]
    if targets.ndim == 1 and targets.dtype.kind == "f":
        penalties = [{"alpha": 1 / strength} for strength in STRENGTHS]
        ridge = fit_best(Ridge(), penalties, x_ND, targets.astype(np.float64), negative_error, groups)
        return ridge.coef_[None], np.array([ridge.intercept_])
    weights: Any = "balanced" if task.balanced else None
    model: Any = LogisticRegression(max_iter=200, class_weight=weights)
    if quick and len(targets) * task.num_outputs > QUICK_SIZE:
        rows = np.random.default_rng(0).permutation(len(targets))[:QUICK_ROWS]
        x_ND, targets = x_ND[rows].astype(np.float32), targets[rows]  # twice as fast
        groups, strengths = groups[rows], [{"C": 0.1}]
        model = LogisticRegression(max_iter=50, class_weight=weights)
    if targets.ndim == 1 and len(found := np.unique(targets)) == 1:  # a part of the data, or a sample
        bias_O[found] = CERTAIN
        return weight_OD, bias_O
    if targets.ndim > 1:
        for label, of_label in enumerate(targets.T.astype(np.int64)):
            if len(set(of_label)) > 1:
                fitted = fit_best(model, strengths, x_ND, of_label, log_likelihood, groups)
                weight_OD[label], bias_O[label] = fitted.coef_[0], fitted.intercept_[0]
            else:  # a label that all examples have, or none
                bias_O[label] = CERTAIN if of_label[0] else -CERTAIN
        return weight_OD, bias_O
    if quick and task.num_outputs > MANY_LABELS:
        fitted = RidgeClassifier(10.0, class_weight=weights).fit(x_ND, targets)
    else:
        fitted = fit_best(model, strengths, x_ND, targets, log_likelihood, groups)
    weights, biases = fitted.coef_, fitted.intercept_
    if len(fitted.classes_) == 2:  # one logit, of the second class: half of it for each
        weights, biases = np.vstack([-weights, weights]) / 2, np.array([-1, 1]) * biases / 2
    bias_O[:] = biases.min() - CERTAIN  # of labels without an example
    weight_OD[fitted.classes_], bias_O[fitted.classes_] = weights, biases
    return weight_OD, bias_O


def fit_best(  # noqa: PLR0917
    model: Any,
    candidates: Sequence[Mapping[str, Any]],
    x: Any,
    targets: npt.NDArray[Any],
    goodness: Callable[[npt.NDArray[Any], npt.NDArray[Any]], float],
    groups: npt.NDArray[np.int64] | None = None,
) -> Any:
    """Returns the model, fitted to all rows with the best of the candidate parameters.

    They are compared by the mean `goodness` of held-out predictions (numbers, or probabilities of the classes
    that occur) in fixed folds; rows of a group are held out together. If there are too few rows of all
    classes but one, the middle candidate is used. `x` is [N, K], dense or sparse; targets are numbers or
    classes [N], or 0 and 1 for each label [N, labels].
    """
    from sklearn.base import clone
    from sklearn.model_selection import KFold, StratifiedGroupKFold, StratifiedKFold, cross_val_predict
    from threadpoolctl import threadpool_limits

    rows = np.sort(np.random.default_rng(0).permutation(len(targets))[:SELECTION_ROWS])
    some_x, some = x[rows], targets[rows]
    some_groups = None if groups is None else groups[rows]
    folds: Any = KFold
    if some.ndim == 1 and some.dtype.kind == "i":
        is_grouped = some_groups is not None and len(np.unique(some_groups)) < len(rows)
        folds = StratifiedGroupKFold if is_grouped else StratifiedKFold
    options = {"cv": folds(FOLDS, shuffle=True, random_state=0), "groups": some_groups}
    options["method"] = "predict" if some.dtype.kind == "f" else "predict_proba"
    scores = []
    with threadpool_limits(1, "blas"), warnings.catch_warnings():  # so small that threads only wait
        warnings.simplefilter("ignore")  # few rows of a class, or a fit that has not quite converged
        try:
            for each in candidates if len(candidates) > 1 else ():
                held_out = cross_val_predict(clone(model).set_params(**each), some_x, some, **options)
                scores.append(goodness(some, held_out))
            best = candidates[int(np.argmax(scores))] if scores else candidates[0]
        except ValueError:  # a fold with one class alone, or fewer rows than folds
            best = candidates[len(candidates) // 2]
        return clone(model).set_params(**best).fit(x, targets)


def log_likelihood(targets: npt.NDArray[Any], probabilities: npt.NDArray[Any]) -> float:
    """Returns the mean log-likelihood of classes [N]."""
    chosen = probabilities[np.arange(len(targets)), np.unique(targets, return_inverse=True)[1]]
    return float(np.log(np.maximum(chosen, 1e-9)).mean())


def negative_error(targets: npt.NDArray[Any], numbers: npt.NDArray[Any]) -> float:
    """Returns the mean squared error with a minus sign."""
    return -float(np.square(targets - numbers).mean())


HEAD = Frozen()
