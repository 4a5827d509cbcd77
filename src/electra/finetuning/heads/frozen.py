"""The head `frozen`: the encoder is not trained; a linear model is fitted to its states in seconds.

A text is represented by the mean of its tokens' states, a token by its own state. The penalty on the weights
is chosen by cross-validation on the training examples. With few labels this often scores higher than a
trained encoder. Shapes: B texts, T tokens, N training texts or tokens, O outputs, D hidden size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from electra.finetuning.heads.linear import CLASSES
from electra.finetuning.heads.parts.contract import Head, HeadFactory, HeadModule, HeadShape, TrainingData
from electra.finetuning.heads.parts.linear_fit import fit_by_folds
from electra.finetuning.tasks.parts.task import HeadKind
from electra.finetuning.windows.features import NO_TARGET, batch_of
from electra.model.encoder import Encoder
from electra.model.passes import PaddedBatch, map_rows
from electra.model.sizes import Architecture

STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)  # the inverse of the penalty on squared weights


class Frozen(HeadFactory):
    """Builds a linear layer and fits it to the states of an encoder that is not trained."""

    name = "frozen"
    kinds = ("classifier", "tagger")
    purpose = "for labels of texts and of tokens"
    instead = "Question answering needs a trained encoder: leave `head` out"
    dropout = 0.0
    epochs = 0.0
    pooling = "mean"

    def build(self, shape: HeadShape) -> Head:
        """Returns a linear layer, as the head `linear` does."""
        return CLASSES[shape.kind](shape.config, shape.num_outputs, shape.pooling)

    def has_class(self, kind: HeadKind, architecture: Architecture) -> bool:
        """Whether transformers has a class with this head, as for the head `linear`."""
        return architecture != "modern" and kind != "classifier"

    @torch.no_grad()
    def start(self, head: HeadModule, encoder: Encoder, data: TrainingData) -> None:
        """Fits the linear model to the training examples."""
        windows = data.windows
        assert isinstance(head, Head)
        assert windows.targets is not None, "training data has answers"
        encoder.eval()

        def compute_states(rows: PaddedBatch) -> list[Tensor]:
            batch = batch_of(windows, rows)
            hidden_BTD = encoder(
                batch.input_ids, document_ids=batch.document_ids, token_type_ids=batch.token_type_ids
            ).float()
            if not head.per_token:
                return list(head.pool(hidden_BTD, batch)[:, None].cpu())
            assert batch.targets is not None
            pairs = zip(hidden_BTD, batch.targets, strict=True)
            return [hidden_TD[targets_T != NO_TARGET].cpu() for hidden_TD, targets_T in pairs]

        states = list(map_rows(windows.input_ids, compute_states, data.device))
        x_ND = torch.cat(states).double().numpy()
        answers: list[Any] = [np.asarray(target) for target in windows.targets]
        loss = data.task.loss
        if head.per_token:
            loss = lambda logits, targets: data.task.loss(logits[None], targets[None])  # noqa: E731
            answers = [target[target != NO_TARGET] for target in answers]
            targets = torch.from_numpy(np.concatenate(answers))
        else:
            targets = torch.from_numpy(np.stack(answers))
        mean_D, scale = x_ND.mean(0), max(float(x_ND.std()), 1e-12)
        groups = np.repeat(windows.example, [len(example_states) for example_states in states])
        weights_and_bias, _ = fit_by_folds(
            (x_ND - mean_D) / scale, targets, loss, len(head.output.bias), STRENGTHS, groups=groups
        )
        weight_OD = weights_and_bias[:, :-1] / scale
        head.output.weight.copy_(torch.from_numpy(weight_OD))
        head.output.bias.copy_(torch.from_numpy(weights_and_bias[:, -1] - weight_OD @ mean_D))


HEAD = Frozen()
