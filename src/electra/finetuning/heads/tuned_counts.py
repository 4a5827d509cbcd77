"""The head `tuned_counts`: the head `counts`, trained further together with the encoder.

Training begins with the weights of the linear fit, so it does not first undo the encoder (Kumar et al. 2022).
The counted features alone tell most training words apart, which would leave no error for the network to learn
from; so they are hidden from half of the words of each batch. For texts, the standard head was as good.

Shapes: B sentences, T tokens, N words, O outputs, D hidden size.
"""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from electra.finetuning.heads.counts import CountedHead, CountsAndStates
from electra.finetuning.heads.parts.contract import HeadFactory, HeadModule, HeadShape, TrainingData
from electra.finetuning.windows.features import LabelledBatch
from electra.model.dropout import dropout
from electra.model.encoder import Encoder

HIDDEN = 0.5  # of the words, whose counted features a step does not see
STATES_DROPOUT = 0.3  # of the states that the last layer reads


class TunedCountedHead(CountedHead):
    """The head `counts` with dropout of states, and of all counted features of a word."""

    @override
    def forward(self, encoded: Tensor, batch: LabelledBatch) -> Tensor:
        return super().forward(dropout(encoded, STATES_DROPOUT, self.training), batch)

    @override
    def count_logits(self, batch: LabelledBatch) -> Tensor:
        logits_NO = super().count_logits(batch)
        if self.training:
            logits_NO = logits_NO * (torch.rand(len(logits_NO), 1, device=logits_NO.device) >= HIDDEN)
        return logits_NO


class TunedCounts(HeadFactory):
    """Builds the head and fits it, before it is trained."""

    name, kinds, epochs = "tuned_counts", ("tagger",), 10.0

    @override
    def build(self, shape: HeadShape) -> HeadModule:
        return TunedCountedHead(shape)

    @override
    def start(self, head: HeadModule, encoder: Encoder, data: TrainingData) -> None:
        CountsAndStates().start(head, encoder, data)


HEAD = TunedCounts()
