"""Replacing masked tokens by samples: the corruption that ELECTRA's successors share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from electra.foundation.config import check_at_least, check_positive, option
from electra.model.pair import Generator
from electra.objectives.parts import masking, vocabulary
from electra.objectives.parts.interface import Corrupted


@dataclass(frozen=True)
class Options(masking.Options):
    """What the `Config` of an objective with a small generator begins with."""

    temperature: float = 1.0
    """Softmax temperature the generator's samples are drawn at."""
    disallow_correct: bool = False
    """Never sample the original token: draw from the other ones, renormalised."""
    sampling_dropout: bool = True
    """The generator samples with its dropout on, as in the published code. False: it samples without, in a
    second forward pass.
    """
    focal_gamma: float = option(0.0, evaluated=0.0)
    """Above 0: the generator's loss is focal, -(1 - p)^gamma log p, so that it is not over-confident (Hao et
    al. 2021).
    """

    def __post_init__(self) -> None:
        check_positive(self, ("temperature",), "objective.")
        check_at_least(self, {"focal_gamma": 0}, "objective.")


class Replaced(NamedTuple):
    """What a small generator made of a corrupted batch."""

    mlm: Tensor  # its summed loss
    ids: Tensor  # [B, T] the text with its samples in it
    sampled: Tensor  # [M]
    guessed: Tensor  # [M] whether no token is more probable to it than the right one

    def observed(self, corrupted: Corrupted) -> dict[str, Tensor]:
        return {"sample_correct": self.sampled == corrupted.targets, "sampled": torch.as_tensor(self.sampled)}


def replace(generator: Generator, corrupted: Corrupted, options: Options) -> Replaced:
    """Train the generator at the masked slots and put its samples there. Samples carry no gradient."""

    def predict() -> tuple[Tensor, Tensor, Tensor]:
        hidden = generator.encoder(corrupted.masked_ids, corrupted.position_ids, corrupted.piece_ids).flatten(
            0, 1
        )
        return vocabulary.loss_and_sample(
            generator,
            hidden[corrupted.masked_positions],
            corrupted.targets,
            corrupted.uniforms,
            options.temperature,
            disallow_correct=options.disallow_correct,
            focal_gamma=options.focal_gamma,
        )

    mlm, sampled, guessed = predict()
    if generator.training and not options.sampling_dropout:
        generator.eval()
        with torch.no_grad():
            _, sampled, guessed = predict()
        generator.train()
    return Replaced(mlm, put(corrupted, sampled), sampled, guessed)


def put(corrupted: Corrupted, sampled_M: Tensor) -> Tensor:
    """The original text [B, T] with `sampled_M` at the masked positions."""
    return (
        corrupted.input_ids.flatten()
        .index_copy(0, corrupted.masked_positions, sampled_M)
        .view_as(corrupted.input_ids)
    )


class Noise:
    """Replacements drawn from one distribution for every slot, exactly, by inverse CDF."""

    def __init__(self, weights_V: npt.NDArray[Any]) -> None:
        upto = np.cumsum(weights_V, dtype=np.float64)  # of counts: whole numbers, so without rounding
        self.upto_V = torch.from_numpy(upto)
        self.before_V = torch.from_numpy(np.concatenate([[0.0], upto[:-1]]))
        self.last = int(np.flatnonzero(weights_V)[-1])

    def draw(self, uniforms_M: Tensor, excluded_M: Tensor | None = None) -> Tensor:
        """One token a slot [M]; never the one excluded there, the others keeping their proportions."""
        upto, before = self.upto_V.to(uniforms_M.device), self.before_V.to(uniforms_M.device)
        excluded_M = None if excluded_M is None else excluded_M.to(uniforms_M.device)
        aim = uniforms_M * upto[-1]
        if excluded_M is not None:  # aim at a line from which the excluded token's stretch has been cut out
            stretch = upto[excluded_M] - before[excluded_M]
            aim = uniforms_M * (upto[-1] - stretch)
            aim = torch.where(aim >= before[excluded_M], aim + stretch, aim)
        # rounding may step past the end
        return torch.searchsorted(upto, aim, right=True).clamp_(max=self.last)
