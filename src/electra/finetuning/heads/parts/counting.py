"""What the heads `bag` and `compare` share: the usual head, plus a linear
answer on what can be counted: some numbers of each text or pair, in which the encoder may have a part, and
the terms that it has (term_answer.py).

The linear answer is fitted first, on the pre-trained encoder as it is, and the usual head starts at zero:
then both are tuned with the encoder (Kumar et al. 2022: probe, then tune; Cheng et al. 2016: wide and deep).
The terms' part stays. `apart`, the network is trained as without a fitted answer, which is added afterwards.
Shapes: B texts or pairs, N of them in training, T tokens, D hidden, K numbers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from electra.finetuning.heads.parts.contract import HeadFactory, HeadModule, TrainingData
from electra.finetuning.heads.parts.linear_fit import Beside, Loss, fit_by_folds
from electra.finetuning.heads.parts.term_answer import TermAnswer, Terms
from electra.finetuning.settings import ResolvedSettings
from electra.finetuning.windows.features import Batch, Ids, batch_of
from electra.foundation.arrays import Floats
from electra.model.encoder import Encoder
from electra.model.passes import PaddedBatch, map_rows


class CountingHead(HeadModule):
    reads_table = True
    not_in_graphs = "the heads compare and bag read the tokens as well, which our graphs do not pass on"
    apart = False
    strengths: ClassVar[tuple[float, ...]]  # tried in the fit: the inverse of the penalty on squared weights

    def __init__(self, usual: nn.Module, num_numbers: int, num_outputs: int) -> None:
        super().__init__()
        self.usual = usual
        self.wide = nn.Linear(num_numbers, num_outputs)
        self.counted = TermAnswer(num_outputs)

    @abstractmethod
    def numbers(self, hidden_BTD: Tensor, batch: Batch, table_VE: Tensor) -> Tensor:
        """What is counted with the encoder's help, by its states and its token table [B, K], in fp32."""

    @abstractmethod
    def terms(self, batch: Batch) -> list[Terms]: ...

    @abstractmethod
    def scale(self, numbers_NK: Floats) -> Floats:
        """What the training texts' numbers are divided by in the fit [K]."""

    def know(self, windows: Iterable[Ids], between: Iterable[int]) -> None:
        """Whatever else the training texts tell; `between`: the tokens around and between texts."""

    def forward(self, hidden_BTD: Tensor, batch: Batch, table_VE: Tensor) -> Tensor:
        usual: Tensor = self.usual(hidden_BTD, batch)
        numbers_BK = self.numbers(hidden_BTD, batch, table_VE)
        linear = F.linear(numbers_BK, self.wide.weight.float(), self.wide.bias.float())
        counted = self.counted.held_out_of(batch.index) if self.training else self.counted(self.terms(batch))
        fitted = 0.0 if self.training and self.apart else 1.0
        return usual.float() + fitted * (linear + counted)

    def fit(
        self, numbers_NK: Tensor, terms: Sequence[Terms], targets: Tensor, loss: Loss, groups: Ids
    ) -> None:
        """Fit the linear answer to the training texts; the usual head, whose last layer becomes zero, adds
        nothing yet.

        groups: [N] texts of one number are the same example.
        """
        x_NK = numbers_NK.cpu().double().numpy()
        K = x_NK.shape[1]
        centre_K, scale_K = x_NK.mean(0), self.scale(x_NK)
        x_NK = (x_NK - centre_K) / scale_K
        both = Beside(x_NK, self.counted.learn(terms))
        answer, held_out = fit_by_folds(
            both, targets, loss, len(self.wide.bias), self.strengths, groups=groups
        )
        ours, bias = answer[:, :K], answer[:, -1]
        # What the folds without a text say of it, less what is said of it again at each step.
        self.counted.answer_by(answer[:, K:-1], held_out - (x_NK @ ours.T + bias))
        with torch.no_grad():
            self.wide.weight.copy_(torch.from_numpy(ours / scale_K))
            self.wide.bias.copy_(torch.from_numpy(bias - (ours / scale_K) @ centre_K))
            for name in ("output.weight", "output.bias"):
                self.usual.get_parameter(name).zero_()

    def rescale(self, factor: float, offset: float) -> None:
        for part in (self.usual.get_submodule("output"), self.wide):
            part.get_parameter("weight").mul_(factor)
            part.get_parameter("bias").mul_(factor)
        self.counted.weight.mul_(factor)
        self.wide.bias.add_(offset)


class CountingFactory(HeadFactory):
    kinds = ("classifier",)
    options = frozenset({"train_separately"})
    # With dropout, states differ from those that the answer was fitted to: all answers shift, tuning shifts
    # them back, and prediction, without dropout, is off by as much.
    dropout = 0.0

    def configure(self, module: HeadModule, settings: ResolvedSettings) -> None:
        assert isinstance(module, CountingHead)
        module.apart = settings.train_separately

    @torch.no_grad()
    def start(self, head: HeadModule, encoder: Encoder, data: TrainingData) -> None:
        """Fit the linear answer, with the encoder as it is."""
        windows, specials = data.windows, data.tokenizer.specials
        assert isinstance(head, CountingHead)
        assert windows.targets is not None, "training data have answers"
        head.know(windows.input_ids, (specials.cls, specials.sep))
        head.eval()
        encoder.eval()

        def network(rows: PaddedBatch) -> list[Any]:
            batch = batch_of(windows, rows)
            hidden_BTD = encoder(
                batch.input_ids, piece_ids=batch.piece_ids, token_type_ids=batch.token_type_ids
            )
            table_VE = encoder.token_table()
            return list(zip(head.numbers(hidden_BTD, batch, table_VE), head.terms(batch), strict=True))

        numbers, terms = zip(
            *map_rows(windows.input_ids, network, data.device, pad=specials.pad), strict=True
        )
        targets = torch.from_numpy(np.stack(windows.targets)).to(data.device)
        head.fit(torch.stack(numbers), terms, targets, data.task.loss, windows.example)
