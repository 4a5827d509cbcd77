"""The question answering head of the ELECTRA paper (appendix; after Yang et al. 2019).

The end of an answer is conditioned on its start, and a separate classifier predicts whether there is an
answer.

    start       a linear layer on the state of each token of the context and of [CLS], softmax
    end         dense(512) on the states of the start and of each token, concatenated; gelu; a linear layer;
                softmax
    no answer   dense(512) on the state of [CLS] and the mean of the states weighted by the start
                probabilities, concatenated; gelu; a linear layer

In training, the end is conditioned on the gold start; in inference, on each of the 20 most probable starts
(the beam). The output has a row for each window, in fp32:

    0-2                  -log P(gold start), -log P(gold end | gold start), log-odds of "no answer"; the first
                         two are 0 without targets
    then, in inference   the beam: BEAM values of log P(start), the positions of these starts, BEAM x BEAM
                         values of log P(end | start), and the positions of these ends

Shapes: B windows, T tokens, D hidden size, K starts, W the width of the dense layers.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from electra.finetuning.heads.parts.contract import Head, HeadFactory, HeadShape
from electra.finetuning.tasks.parts.answer_spans import END, START, QuestionAnswering
from electra.finetuning.tasks.parts.task import Task
from electra.finetuning.windows.features import Batch
from electra.finetuning.windows.span_search import BEAM
from electra.model.sizes import EncoderConfig

WIDTH = 512  # the width of the two dense layers, whatever the encoder's width
MASKED = -1e4  # the logit of a token that cannot be part of an answer


class JointHead(Head):
    """Predicts start, end and answerability jointly; the module's docstring describes the output."""

    not_in_graphs = "the joint head's beam search cannot be exported to an ONNX graph"

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config, 1)  # `output` gives the start logits
        self.end_dense, self.end = nn.Linear(2 * config.hidden_size, WIDTH), nn.Linear(WIDTH, 1)
        self.null_dense, self.null = nn.Linear(2 * config.hidden_size, WIDTH), nn.Linear(WIDTH, 1)

    @override
    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        allowed_BT = self.allowed(batch)
        starts_BT = (
            self.output(hidden_BTD).squeeze(-1).float().masked_fill(~allowed_BT, MASKED).log_softmax(-1)
        )
        weighted_BD = (starts_BT.exp().unsqueeze(-1) * hidden_BTD.float()).sum(1).to(hidden_BTD.dtype)
        null_B = (
            self.null(F.gelu(self.null_dense(torch.cat([hidden_BTD[:, 0], weighted_BD], -1))))
            .squeeze(-1)
            .float()
        )
        row = torch.stack([*self.losses(hidden_BTD, starts_BT, allowed_BT, batch.targets), null_B], -1)
        return row if self.training else torch.cat([row, self.beam(hidden_BTD, starts_BT, allowed_BT)], -1)

    @staticmethod
    def allowed(batch: Batch) -> Tensor:
        """Returns the mask [B, T] of tokens that can start or end an answer: [CLS] and the second text.

        If the tokenizer does not distinguish texts by token type, these are all tokens except padding.
        """
        second_BT = batch.token_type_ids == 1
        second_BT = second_BT | ~second_BT.any(-1, keepdim=True)
        if batch.document_ids is not None:
            second_BT = second_BT & (batch.document_ids >= 0)
        return F.pad(second_BT[:, 1:], (1, 0), value=True)

    def ends(self, hidden_BTD: Tensor, start_states_BKD: Tensor, allowed_BT: Tensor) -> Tensor:
        """Returns log P(end | start) [B, K, T] for K starts.

        The dense layer on two concatenated states is computed as the sum of two layers, on one state each.
        """
        start_weight, end_weight = self.end_dense.weight.chunk(2, -1)
        dense_BKTW = F.linear(start_states_BKD, start_weight).unsqueeze(2) + F.linear(
            hidden_BTD, end_weight, self.end_dense.bias
        ).unsqueeze(1)
        logits_BKT: Tensor = self.end(F.gelu(dense_BKTW)).squeeze(-1).float()
        return logits_BKT.masked_fill(~allowed_BT.unsqueeze(1), MASKED).log_softmax(-1)

    def losses(
        self, hidden_BTD: Tensor, starts_BT: Tensor, allowed_BT: Tensor, targets_BT: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Returns -log P(gold start) [B] and -log P(gold end | gold start) [B]; zeros without targets.

        `starts_BT` is log P(start) of each token.
        """
        if targets_BT is None:
            return starts_BT.new_zeros(len(starts_BT)), starts_BT.new_zeros(len(starts_BT))
        bits_BT, rows = targets_BT.clamp(min=0), torch.arange(len(starts_BT), device=starts_BT.device)
        start_B, end_B = (bits_BT & START).argmax(1), (bits_BT & END).argmax(1)
        ends_BT = self.ends(hidden_BTD, hidden_BTD[rows, start_B].unsqueeze(1), allowed_BT).squeeze(1)
        return -starts_BT[rows, start_B], -ends_BT[rows, end_B]

    def beam(self, hidden_BTD: Tensor, starts_BT: Tensor, allowed_BT: Tensor) -> Tensor:
        """Returns the beam, a row for each window, in the format of the module's docstring."""
        num_missing = max(0, BEAM - starts_BT.shape[1])  # pads windows that have fewer tokens than the beam
        starts_BK, positions_BK = F.pad(starts_BT, (0, num_missing), value=MASKED).topk(BEAM, -1)
        rows = torch.arange(len(starts_BT), device=starts_BT.device).unsqueeze(-1)
        start_states_BKD = F.pad(hidden_BTD, (0, 0, 0, num_missing))[rows, positions_BK]
        ends_BKT = F.pad(self.ends(hidden_BTD, start_states_BKD, allowed_BT), (0, num_missing), value=MASKED)
        ends_BKK, end_positions_BKK = ends_BKT.topk(BEAM, -1)
        return torch.cat(
            [starts_BK, positions_BK.float(), ends_BKK.flatten(1), end_positions_BKK.flatten(1).float()], -1
        )


class Joint(HeadFactory):
    """Builds `JointHead`."""

    name = "joint"
    kinds = ("reader",)
    purpose = "for questions about texts"
    instead = "Use it with `task` squad, squad2 or qa"

    @override
    def build(self, shape: HeadShape) -> Head:
        return JointHead(shape.config)

    @override
    def adapted(self, task: Task) -> Task:
        return replace(task, joint=True) if isinstance(task, QuestionAnswering) else task


HEAD = Joint()
