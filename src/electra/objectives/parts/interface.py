"""The contract between an objective and the training loop.

An objective (1) corrupts a batch, drawing every random number from keys of the examples, on the host and before any network runs;
(2) computes losses as sums. The counts that divide them come with the corrupted batch, because the loop must know the global
denominators, over processes and accumulated micro-batches, before the first backward pass: means of means are never taken.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import torch
from torch import Tensor, nn

from electra.data.batches import Batch
from electra.model import flops
from electra.model.pair import Pair
from electra.model.sizes import EncoderConfig


@dataclass(frozen=True)
class Corrupted:
    """A batch made ready for the networks. B rows of T tokens; M masked slots over the whole batch."""

    input_ids: Tensor  # [B, T] the original tokens
    masked_ids: Tensor  # [B, T] what the generator reads
    masked_positions: Tensor  # [M] index of each masked slot in the flattened batch
    targets: Tensor  # [M] the original token there
    uniforms: Tensor  # [M] float64 in [0, 1): one draw for each sample
    position_ids: Tensor | None  # [B, T]; None: 0, 1, 2, ... in every row
    piece_ids: Tensor | None  # [B, T]; None: every row is one piece without padding
    counts: dict[str, int]  # how many terms each loss sums

    def to(self, device: torch.device) -> Self:
        if device.type == "cpu":
            return self
        tensors = {f.name: getattr(self, f.name) for f in fields(self) if isinstance(getattr(self, f.name), Tensor)}
        return replace(self, **{name: tensor.to(device, non_blocking=True) for name, tensor in tensors.items()})

    def real(self) -> Tensor:
        """[B, T] True at tokens, False at padding."""
        return torch.ones_like(self.input_ids, dtype=torch.bool) if self.piece_ids is None else self.piece_ids >= 0


@dataclass
class Outcome:
    """What one pass over a corrupted batch gives."""

    losses: dict[str, Tensor]  # summed over their terms, differentiable
    observed: dict[str, Tensor] = field(default_factory=dict)  # detached, for metrics


class Shapes(NamedTuple):
    """The networks an objective trains."""

    generator: EncoderConfig | None = None
    discriminator: EncoderConfig | None = None
    sampler: EncoderConfig | None = None

    @property
    def full(self) -> EncoderConfig:
        """The network that the training is for."""
        config = self.discriminator or self.generator
        assert config is not None
        return config


class Objective(ABC):
    """Subclass in one file, beside a frozen `Config`. The class docstring cites the source and states departures.

    `networks` says what is trained:
      pair       a small generator and a discriminator of the full size;
      generator  one masked language model of the full size;
      corrector  a masked language model of the full size (`pair.generator`) that reads what a small one (`pair.sampler`) wrote.
    """

    networks: ClassVar[Literal["pair", "generator", "corrector"]]
    source: ClassVar[str]

    def __init__(self, config: Any, *, vocab_size: int, specials: dict[str, int]) -> None:
        self.config, self.vocab_size, self.specials = config, vocab_size, specials

    @property
    @abstractmethod
    def weights(self) -> dict[str, float]:
        """Each loss and its weight in the total: total = sum over losses of weight * sum / count."""

    def heads(self, shapes: Shapes) -> Mapping[str, nn.Module]:
        """Small modules of the objective's own: `pair.heads[name]` in `forward`. Saved in checkpoints, never exported."""
        return {}

    def connect(self, pair: Pair) -> None:  # noqa: B027
        """Tie weights between the networks and the heads, once, after they have been filled."""

    def begin_update(self, pair: Pair, step: int, total_steps: int) -> None:  # noqa: B027
        """Called before every update: what happens between two stages of a training. Must depend on `step` alone."""

    def sequence_flops(self, shapes: Shapes, length: int) -> float:
        """Training one sequence, averaged over the training (paper's conventions: model/flops.py)."""
        first = getattr(self.config, "mask_fraction", 0.15)
        final = getattr(self.config, "final_mask_fraction", None)
        masked = first if final is None else (first + final) / 2
        return flops.sequence_flops(shapes.generator, shapes.discriminator, length, sampler=shapes.sampler, masked_fraction=masked)

    @abstractmethod
    def corrupt(self, batch: Batch, seed: int, progress: float) -> Corrupted:
        """Draw the corruption of each example from its own key. `progress` runs from 0 to 1 over the training."""

    @abstractmethod
    def forward(self, pair: Pair, corrupted: Corrupted) -> Outcome:
        """Summed losses, with the names of `weights`, and what metrics need."""

    def for_evaluation(self, mask_fraction: float) -> Self:
        """The same objective with a fixed mask rate, so that held-out numbers of different recipes can be compared."""
        config = replace(self.config, mask_fraction=mask_fraction, final_mask_fraction=None)
        return type(self)(config, vocab_size=self.vocab_size, specials=self.specials)
