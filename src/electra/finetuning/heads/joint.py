"""The question answering head of the ELECTRA paper (appendix; after Yang et al. 2019): the end of an answer
is chosen knowing its beginning, and a classifier of its own says whether there is an answer.

    beginning   one matrix on each token of the context and on [CLS], softmax
    end         dense(512) over (the state at the beginning, the token's state), gelu, one matrix, softmax
    no answer   dense(512) over (the state at [CLS], the states weighted by the beginning's probabilities),
                gelu, one matrix

In training the end is learned after the right beginning; otherwise after each of the 20 likeliest ones (the
beam). A row of the output for a window, in fp32:

    0-2                  -log P(right beginning), -log P(right end | right beginning), log-odds of "no
                         answer"; 0 where nothing is right
    then, when reading   the beam: BEAM log P(beginning), their places, BEAM x BEAM log P(end | beginning),
                         their places
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from electra.finetuning.heads.parts.contract import Head, HeadFactory, HeadShape
from electra.finetuning.tasks.parts.answer_spans import END, START, QuestionAnswering
from electra.finetuning.tasks.parts.task import Task
from electra.finetuning.windows.features import Batch
from electra.finetuning.windows.span_search import BEAM
from electra.model.sizes import EncoderConfig

WIDTH = 512  # of the two dense layers, whatever the encoder's
IMPOSSIBLE_PLACE = -1e4  # the logit of a token that cannot be part of an answer


class JointHead(Head):
    not_in_graphs = "the joint head searches while it reads, which a graph cannot"

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config, 1)  # `output` gives the beginning's logits
        self.end_dense, self.end = nn.Linear(2 * config.hidden_size, WIDTH), nn.Linear(WIDTH, 1)
        self.null_dense, self.null = nn.Linear(2 * config.hidden_size, WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        possible_BT = self.possible(batch)
        starts_BT = (
            self.output(hidden_BTD)
            .squeeze(-1)
            .float()
            .masked_fill(~possible_BT, IMPOSSIBLE_PLACE)
            .log_softmax(-1)
        )
        weighted_BD = (starts_BT.exp().unsqueeze(-1) * hidden_BTD.float()).sum(1).to(hidden_BTD.dtype)
        null_B = (
            self.null(F.gelu(self.null_dense(torch.cat([hidden_BTD[:, 0], weighted_BD], -1))))
            .squeeze(-1)
            .float()
        )
        row = torch.stack([*self.losses(hidden_BTD, starts_BT, possible_BT, batch.targets), null_B], -1)
        return row if self.training else torch.cat([row, self.beam(hidden_BTD, starts_BT, possible_BT)], -1)

    @staticmethod
    def possible(batch: Batch) -> Tensor:
        """[CLS] and the second text; every token where the tokenizer does not tell texts apart by type."""
        second_BT = batch.token_type_ids == 1
        second_BT = second_BT | ~second_BT.any(-1, keepdim=True)
        if batch.piece_ids is not None:
            second_BT = second_BT & (batch.piece_ids >= 0)
        return F.pad(second_BT[:, 1:], (1, 0), value=True)

    def ends(self, hidden_BTD: Tensor, beginnings_BKD: Tensor, possible_BT: Tensor) -> Tensor:
        """log P(end | beginning), [B, K, T]. The dense layer over two concatenated states is the sum of one
        over each.
        """
        of_beginning, of_end = self.end_dense.weight.chunk(2, -1)
        dense_BKTW = F.linear(beginnings_BKD, of_beginning).unsqueeze(2) + F.linear(
            hidden_BTD, of_end, self.end_dense.bias
        ).unsqueeze(1)
        logits_BKT: Tensor = self.end(F.gelu(dense_BKTW)).squeeze(-1).float()
        return logits_BKT.masked_fill(~possible_BT.unsqueeze(1), IMPOSSIBLE_PLACE).log_softmax(-1)

    def losses(
        self, hidden_BTD: Tensor, starts_BT: Tensor, possible_BT: Tensor, targets_BT: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        if targets_BT is None:
            return starts_BT.new_zeros(len(starts_BT)), starts_BT.new_zeros(len(starts_BT))
        bits_BT, rows = targets_BT.clamp(min=0), torch.arange(len(starts_BT), device=starts_BT.device)
        start_B, end_B = (bits_BT & START).argmax(1), (bits_BT & END).argmax(1)
        ends_BT = self.ends(hidden_BTD, hidden_BTD[rows, start_B].unsqueeze(1), possible_BT).squeeze(1)
        return -starts_BT[rows, start_B], -ends_BT[rows, end_B]

    def beam(self, hidden_BTD: Tensor, starts_BT: Tensor, possible_BT: Tensor) -> Tensor:
        """The likeliest beginnings and the likeliest ends of each, flat."""
        short = max(0, BEAM - starts_BT.shape[1])  # windows of fewer tokens than the beam are filled up
        starts_BK, places_BK = F.pad(starts_BT, (0, short), value=IMPOSSIBLE_PLACE).topk(BEAM, -1)
        rows = torch.arange(len(starts_BT), device=starts_BT.device).unsqueeze(-1)
        beginnings_BKD = F.pad(hidden_BTD, (0, 0, 0, short))[rows, places_BK]
        ends_BKT = F.pad(
            self.ends(hidden_BTD, beginnings_BKD, possible_BT), (0, short), value=IMPOSSIBLE_PLACE
        )
        ends_BKK, end_places_BKK = ends_BKT.topk(BEAM, -1)
        return torch.cat(
            [starts_BK, places_BK.float(), ends_BKK.flatten(1), end_places_BKK.flatten(1).float()], -1
        )


class Joint(HeadFactory):
    name = "joint"
    kinds = ("reader",)
    purpose = "for questions about texts"
    instead = "Use it with `task` squad, squad2 or qa"

    def build(self, shape: HeadShape) -> Head:
        return JointHead(shape.config)

    def adapted(self, task: Task) -> Task:
        return replace(task, joint=True) if isinstance(task, QuestionAnswering) else task


HEAD = Joint()
