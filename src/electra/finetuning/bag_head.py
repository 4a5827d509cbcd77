"""The head `bag`, for single texts: the usual one, plus a linear answer on which words are there.

With some thousand labelled texts a bag of words is hard to beat for a network of a few million parameters,
which has to find out from the same labels which words matter. Here that is given, and the network learns
what is left: word order, negation, words that the training texts lack.

The terms (term_answer.py) are the tokens and the pairs of neighbouring tokens. The mean of the encoder's
states stands beside them, so that words which the training texts lack count by those they are like. The
linear answer is fitted first, on the pre-trained encoder as it is, and the usual head starts at zero: then
both are tuned with the encoder. The terms' part stays. Shapes: B texts, N training texts, T tokens, D hidden.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from electra.finetuning.features import Batch, Ids, Windows
from electra.finetuning.linear_fit import Beside, Loss, fit_by_folds
from electra.finetuning.term_answer import TermAnswer, Terms, once

STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0)  # of the fit: the inverse of the penalty on squared weights
LEAST_DEVIATION = 0.3  # as a share of the states' root mean square
VECTOR = 0.3  # in the fit, the root mean square length of a text's mean state; its terms have length 1


class BagHead(nn.Module):
    per_token = False

    def __init__(self, usual: nn.Module, vocab_size: int, hidden_size: int, num_outputs: int) -> None:
        super().__init__()
        self.usual, self.vocab_size = usual, vocab_size
        self.wide = nn.Linear(hidden_size, num_outputs)
        self.counted = TermAnswer(num_outputs)

    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        usual: Tensor = self.usual(hidden_BTD, batch)
        of_means = F.linear(self.means(hidden_BTD, batch), self.wide.weight.float(), self.wide.bias.float())
        if self.training:
            return usual.float() + of_means + self.counted.held_out_of(batch.index)
        rows = batch.input_ids.cpu().numpy()
        lengths = [len(row) for row in rows]
        if batch.piece_ids is not None:
            lengths = (batch.piece_ids >= 0).sum(1).tolist()
        texts = [row[:length] for row, length in zip(rows, lengths, strict=True)]
        counted: Tensor = self.counted([self.terms(ids) for ids in texts])
        return usual.float() + of_means + counted

    @staticmethod
    def means(hidden_BTD: Tensor, batch: Batch) -> Tensor:
        """The mean state of each text [B, D], in fp32."""
        if batch.piece_ids is None:
            return hidden_BTD.float().mean(1)
        real_BT1 = (batch.piece_ids >= 0).unsqueeze(-1).float()
        return (hidden_BTD.float() * real_BT1).sum(1) / real_BT1.sum(1)

    def terms(self, ids: Ids) -> Terms:
        """The tokens, and the pairs of neighbours."""
        return once(np.concatenate([ids, (ids[:-1] + 1) * self.vocab_size + ids[1:]]).astype(np.int64))

    def fit(self, windows: Windows, means_ND: Tensor, loss: Loss) -> None:
        """Choose terms and strength, and fit, to the training texts; the usual head adds nothing yet."""
        assert windows.targets is not None, "training data have answers"
        means = means_ND.double().cpu().numpy()
        D = means.shape[1]
        # Deviations far below the states' own size are no scale: tuning moves the states by more than that.
        least = LEAST_DEVIATION * np.sqrt(np.square(means).mean()) + 1e-6
        centre, scale = means.mean(0), means.std(0).clip(least) * (D**0.5 / VECTOR)
        means = (means - centre) / scale
        both = Beside(means, self.counted.learn([self.terms(ids) for ids in windows.input_ids]))
        targets = torch.from_numpy(np.stack(windows.targets))
        outputs = len(self.wide.bias)
        answer, held_out = fit_by_folds(both, targets, loss, outputs, STRENGTHS, groups=windows.example)
        ours, bias = answer[:, :D], answer[:, -1]
        # What the folds without a text say of it, less what is said of it again at each step.
        self.counted.answer_by(answer[:, D:-1], held_out - (means @ ours.T + bias))
        with torch.no_grad():
            self.wide.weight.copy_(torch.from_numpy(ours / scale))
            self.wide.bias.copy_(torch.from_numpy(bias - (ours / scale) @ centre))
            for name in ("output.weight", "output.bias"):
                self.usual.get_parameter(name).zero_()

    def rescale(self, factor: float, offset: float) -> None:
        """Answer in another unit: the outputs times `factor`, plus `offset`."""
        for part in (self.usual.get_submodule("output"), self.wide):
            part.get_parameter("weight").mul_(factor)
            part.get_parameter("bias").mul_(factor)
        self.counted.weight.mul_(factor)
        self.wide.bias.add_(offset)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Older heads have their terms under names of their own, and give the mean state no weight."""
        if (bias := state.pop(f"{prefix}bias", None)) is not None:
            state[f"{prefix}wide.weight"] = torch.zeros_like(self.wide.weight)
            state[f"{prefix}wide.bias"] = bias
        for old, new in (("terms", "known"), ("rarity", "rarity"), ("weight", "weight")):
            if prefix + old in state:
                state[f"{prefix}counted.{new}"] = state.pop(prefix + old)
        super()._load_from_state_dict(state, prefix, *rest)
