"""Hybrid heads, `bag` and `compare`: the logits of the standard head plus those of a linear model.

The linear model reads dense features of each text or pair, some of which depend on the encoder, and the terms
that occur in the text or pair (term_model.py). It is fitted first, with the pre-trained encoder, while the
last layer of the standard head is set to zero. Then both are trained together with the encoder (Kumar et al.
2022: linear probing, then fine-tuning; Cheng et al. 2016: wide and deep), except for the weights of the
terms. With `train_separately`, the network is trained alone, and the linear model's logits are added only in
inference. Shapes: B texts or pairs, N training texts or pairs, T tokens, D hidden size, V vocabulary, E
embedding size, K features.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from electra.finetuning.heads.parts.contract import HeadFactory, HeadModule, TrainingData
from electra.finetuning.heads.parts.linear_fit import HStack, Loss, fit_by_folds
from electra.finetuning.heads.parts.term_model import TermModel, Terms
from electra.finetuning.settings import ResolvedSettings
from electra.finetuning.windows.features import Batch, Ids, batch_of
from electra.foundation.arrays import Floats
from electra.model.encoder import Encoder
from electra.model.passes import PaddedBatch, map_rows


class HybridHead(HeadModule):
    """The standard head plus a linear model of features and terms; see the module's docstring.

    The attributes `usual` (the standard head), `wide` (the weights of the features) and `counted` (the terms)
    keep these names because saved weights use them and initial weights depend on them.
    """

    reads_table = True
    not_in_graphs = (
        "the heads compare and bag also read token ids, which the ONNX graph does not pass to the head"
    )
    train_separately = False
    strengths: ClassVar[tuple[float, ...]]  # candidates for the inverse of the penalty on squared weights

    def __init__(self, standard: nn.Module, num_features: int, num_outputs: int) -> None:
        super().__init__()
        self.usual = standard
        self.wide = nn.Linear(num_features, num_outputs)
        self.counted = TermModel(num_outputs)

    @abstractmethod
    def compute_features(self, hidden_BTD: Tensor, batch: Batch, table_VE: Tensor) -> Tensor:
        """Returns the dense features of each text or pair [B, K], in fp32."""

    @abstractmethod
    def extract_terms(self, batch: Batch) -> list[Terms]:
        """Returns the terms of each text or pair."""

    @abstractmethod
    def feature_scale(self, features_NK: Floats) -> Floats:
        """Returns the number by which the fit divides each feature [K]."""

    def fit_statistics(self, windows: Iterable[Ids], separators: Iterable[int]) -> None:
        """Stores other statistics of the training texts before the fit, if the head needs any.

        Args:
            windows: the token ids of each training window.
            separators: the ids of the special tokens around and between texts.
        """

    def forward(self, hidden_BTD: Tensor, batch: Batch, table_VE: Tensor) -> Tensor:
        """Returns logits [B, outputs]; in training, the terms contribute their held-out logits."""
        standard_logits: Tensor = self.usual(hidden_BTD, batch)
        features_BK = self.compute_features(hidden_BTD, batch, table_VE)
        dense_logits = F.linear(features_BK, self.wide.weight.float(), self.wide.bias.float())
        sparse_logits = (
            self.counted.held_out_logits(batch.index)
            if self.training
            else self.counted(self.extract_terms(batch))
        )
        linear_weight = 0.0 if self.training and self.train_separately else 1.0
        return standard_logits.float() + linear_weight * (dense_logits + sparse_logits)

    def fit(
        self, features_NK: Tensor, terms: Sequence[Terms], targets: Tensor, loss: Loss, groups: Ids
    ) -> None:
        """Fits the linear model to the training texts and zeroes the last layer of the standard head.

        Args:
            features_NK: the dense features of each text.
            terms: the terms of each text.
            targets: the targets of the loss [N] or [N, outputs].
            loss: the task's loss.
            groups: the index of each text's example [N]; texts of an example share a fold.
        """
        x_NK = features_NK.cpu().double().numpy()
        K = x_NK.shape[1]
        centre_K, scale_K = x_NK.mean(0), self.feature_scale(x_NK)
        x_NK = (x_NK - centre_K) / scale_K
        inputs = HStack(x_NK, self.counted.fit_vocabulary(terms))
        weights, held_out_logits = fit_by_folds(
            inputs, targets, loss, len(self.wide.bias), self.strengths, groups=groups
        )
        dense_weights, bias = weights[:, :K], weights[:, -1]
        # The dense part is subtracted because `forward` computes it at each step.
        self.counted.set_weights(weights[:, K:-1], held_out_logits - (x_NK @ dense_weights.T + bias))
        with torch.no_grad():
            self.wide.weight.copy_(torch.from_numpy(dense_weights / scale_K))
            self.wide.bias.copy_(torch.from_numpy(bias - (dense_weights / scale_K) @ centre_K))
            for name in ("output.weight", "output.bias"):
                self.usual.get_parameter(name).zero_()

    @override
    def rescale(self, factor: float, offset: float) -> None:
        for part in (self.usual.get_submodule("output"), self.wide):
            part.get_parameter("weight").mul_(factor)
            part.get_parameter("bias").mul_(factor)
        self.counted.weight.mul_(factor)
        self.wide.bias.add_(offset)


class HybridFactory(HeadFactory):
    """Builds a hybrid head and fits its linear model before training."""

    kinds = ("classifier",)
    options = frozenset({"train_separately"})
    # The linear model is fitted to states without dropout. Dropout would shift all logits, training would
    # correct the shift, and inference, without dropout, would be biased in the opposite direction.
    dropout = 0.0

    @override
    def configure(self, module: HeadModule, settings: ResolvedSettings) -> None:
        assert isinstance(module, HybridHead)
        module.train_separately = settings.train_separately

    @torch.no_grad()
    def start(self, head: HeadModule, encoder: Encoder, data: TrainingData) -> None:
        """Fits the linear model to the states of the encoder, which has its initial weights."""
        windows, specials = data.windows, data.tokenizer.specials
        assert isinstance(head, HybridHead)
        assert windows.targets is not None, "training data has answers"
        head.fit_statistics(windows.input_ids, (specials.cls, specials.sep))
        head.eval()
        encoder.eval()

        def read_batch(rows: PaddedBatch) -> list[Any]:
            batch = batch_of(windows, rows)
            hidden_BTD = head.encode(encoder, batch)
            table_VE = encoder.token_table()
            features_BK = head.compute_features(hidden_BTD, batch, table_VE)
            return list(zip(features_BK, head.extract_terms(batch), strict=True))

        features, terms = zip(
            *map_rows(windows.input_ids, read_batch, data.device, pad=specials.pad), strict=True
        )
        targets = torch.from_numpy(np.stack(windows.targets)).to(data.device)
        head.fit(torch.stack(features), terms, targets, data.task.loss, windows.example)
