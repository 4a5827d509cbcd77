"""What the heads `bag` (bag_head.py) and `compare` (compare_head.py) share: the usual head, plus a linear
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
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from electra.finetuning.features import Batch, Ids
from electra.finetuning.linear_fit import Beside, Loss, fit_by_folds
from electra.finetuning.term_answer import TermAnswer, Terms
from electra.foundation.arrays import Floats


class CountingHead(nn.Module):
    per_token = False
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
        """Answer in another unit: the outputs times `factor`, plus `offset`."""
        for part in (self.usual.get_submodule("output"), self.wide):
            part.get_parameter("weight").mul_(factor)
            part.get_parameter("bias").mul_(factor)
        self.counted.weight.mul_(factor)
        self.wide.bias.add_(offset)
