"""The head `frozen`: the encoder is not trained; a linear model is fitted to its states in seconds.

A text is represented by the mean of its tokens' states, a token by its own state. The texts of a pair are
encoded separately, and the pair is represented by |u - v| and u * v of their vectors u and v (InferSent,
Conneau et al. 2017), because an encoder that is not trained for it does not compare two texts in one input.
Long pairs are truncated as for the other heads, the longer text first. The penalty on the weights is chosen
by cross-validation on the training examples (linear_fit.py). With few labels this often scores higher than a
trained encoder. A token's own state in the last layer is what transformers' taggers and ONNX graphs read.

Shapes: B examples, T tokens, N training texts or tokens, O outputs, D hidden size.
"""

from dataclasses import dataclass, replace
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
from electra.finetuning.linear_fit import Problem, fit, tuned
from electra.finetuning.windows.features import NO_TARGET, Ids, LabelledBatch, Windows, batch_of
from electra.foundation.arrays import Vectors
from electra.foundation.errors import ConfigError
from electra.foundation.progress import advance, expect
from electra.model.encoder import Encoder
from electra.model.passes import PaddedBatch, map_rows, pad_rows
from electra.model.sizes import EncoderConfig


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
    head: Head, encoder: Encoder, data: TrainingData, precision: str = "fp32", limit: int | None = None
) -> None:
    """Fits the last layer of a head, which is linear, to the encoder's states of at most `limit` examples.

    The encoder runs in `precision`.
    """
    rows = read_rows(head, encoder, data, precision, limit)
    fitted = fit(tuned(Problem(data.task, [rows.states], rows.targets), rows.folds))
    head.output.weight.copy_(torch.from_numpy(fitted.weights[0].T))
    head.output.bias.copy_(torch.from_numpy(fitted.bias))


@dataclass(frozen=True)
class TrainingRows:
    """What a linear head is fitted to: a row for each text or pair, or for each word with a tag."""

    states: Vectors  # [N, D]
    targets: npt.NDArray[Any]  # [N], or [N, O] with several labels
    folds: Ids  # [N]

    def by_window(self, outputs_NO: Vectors, windows: Windows) -> list[Vectors]:
        """Returns outputs of the rows of all windows as those of a head: 0 for tokens without a tag."""
        if not windows.token_targets:
            return list(outputs_NO)
        are_rows = [target != NO_TARGET for target in windows.targets or ()]
        found = np.zeros((sum(map(len, are_rows)), outputs_NO.shape[1]), np.float32)
        found[np.concatenate(are_rows)] = outputs_NO
        return np.split(found, np.cumsum([*map(len, are_rows)])[:-1])


@torch.no_grad()
def read_rows(
    head: Head, encoder: Encoder, data: TrainingData, precision: str = "fp32", limit: int | None = None
) -> TrainingRows:
    """Returns what the last layer of a head reads of the training windows, at most `limit`, with answers."""
    windows = data.windows
    chosen = np.sort(np.random.default_rng(0).permutation(len(windows))[:limit])
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
    answers: list[Any] = [np.asarray(windows.targets[i]) for i in chosen]
    if head.per_token:
        targets = np.concatenate([target[target != NO_TARGET] for target in answers])
    else:
        targets = np.stack(answers)
    folds = np.repeat(data.folds()[windows.example[chosen]], [*map(len, states)])
    return TrainingRows(torch.cat(states).numpy(), targets, folds)


HEAD = Frozen()
