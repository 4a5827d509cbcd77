"""The contract between an objective and the training loop.

An objective (1) corrupts a batch, drawing every random number from keys of the examples, on the host and
before any network runs; (2) computes losses as sums. The counts that divide them come with the corrupted
batch, because the loop must know the global denominators, over processes and accumulated micro-batches,
before the first backward pass: means of means are never taken.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import torch
from torch import Tensor, nn

from electra.artifacts.networks import Head
from electra.data.batches import Batch
from electra.model import flops
from electra.model.networks import Network, Networks
from electra.model.pair import Generator, Pair
from electra.model.precision import to_device
from electra.model.sizes import EncoderConfig
from electra.objectives.parts.corpus_counts import CorpusCounts


@dataclass(frozen=True)
class Corrupted:
    """A batch made ready for the networks. B rows of T tokens; M masked slots over the whole batch."""

    input_ids: Tensor  # [B, T] the original tokens
    masked_ids: Tensor  # [B, T] what the generator reads
    masked_positions: Tensor  # [M] index of each masked slot in the flattened batch
    targets: Tensor  # [M] the original token there
    uniforms: Tensor  # [M] float64 in [0, 1): a draw for each sample, on the host for devices without float64
    position_ids: Tensor | None  # [B, T]; None: 0, 1, 2, ... in every row
    piece_ids: Tensor | None  # [B, T]; None: every row is one piece without padding
    counts: dict[str, int]  # how many terms each loss sums
    progress: float = 1.0  # where in the training it was drawn, for objectives that move on a schedule

    def to(self, device: torch.device) -> Self:
        if device.type == "cpu":
            return self
        tensors: dict[str, Any] = {
            name: to_device(value, device) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return replace(self, **tensors)

    def rows(self, kept: Tensor) -> Corrupted:
        """The rows `kept` [B] alone; the counts stay."""
        T = self.input_ids.shape[1]
        at = kept[self.masked_positions // T]
        moved = (kept.cumsum(0) - 1)[self.masked_positions[at] // T]
        return Corrupted(
            input_ids=self.input_ids[kept],
            masked_ids=self.masked_ids[kept],
            masked_positions=moved * T + self.masked_positions[at] % T,
            targets=self.targets[at],
            uniforms=self.uniforms[at.to(self.uniforms.device)],
            position_ids=None if self.position_ids is None else self.position_ids[kept],
            piece_ids=None if self.piece_ids is None else self.piece_ids[kept],
            counts=self.counts,
            progress=self.progress,
        )

    def real(self) -> Tensor:
        """[B, T] True at tokens, False at padding."""
        return (
            torch.ones_like(self.input_ids, dtype=torch.bool)
            if self.piece_ids is None
            else self.piece_ids >= 0
        )


@dataclass
class Outcome:
    """What one pass over a corrupted batch gives."""

    losses: dict[str, Tensor]  # summed over their terms, differentiable
    observed: dict[str, Tensor] = field(default_factory=dict)  # detached, for metrics


Shapes = Networks  # what objectives written for the last release call it


@runtime_checkable
class OwnOutput(Protocol):
    """An objective whose discriminator gives something other than log-odds of "replaced" says what."""

    output: str


class Objective(ABC):
    """Subclass in one file, beside a frozen `Config`. The class docstring cites the source and states
    departures.

    main:      what the main network is: a discriminator, or a masked language model ("generator").
    auxiliary: whether a small masked language model is trained as well, which writes what the main one reads.
    """

    main: Head = "discriminator"
    auxiliary: bool = True
    source: ClassVar[str]
    mean_progress: float = 0.5  # `progress`, averaged over the training
    feedback: ClassVar[bool] = False  # whether the full-size network's loss teaches the small generator too

    def __init__(
        self,
        config: Any,
        *,
        vocab_size: int,
        specials: dict[str, int],
        statistics: CorpusCounts | None = None,
    ) -> None:
        self.config, self.vocab_size, self.specials, self.statistics = (
            config,
            vocab_size,
            specials,
            statistics,
        )

    @property
    @abstractmethod
    def weights(self) -> dict[str, float]:
        """Each loss and its weight in the total: total = sum over losses of weight * sum / count."""

    @property
    def needs(self) -> Mapping[str, Any]:
        """Settings of the recipe's [model] that this objective cannot do without."""
        return {}

    def stage(self, step: int, total_steps: int) -> tuple[int, int]:
        """First step and end of the stage of `step`; in each stage the learning rate rises and falls once."""
        return 0, total_steps

    def phase(self, step: int, total_steps: int) -> tuple[int, int]:
        """First step and end of the stretch around `step` in which every update does, and costs, the same."""
        return self.stage(step, total_steps)

    def others(self, main: EncoderConfig) -> Sequence[Network]:
        """Networks beside the main and the auxiliary one: `pair.named[name]` in `forward`, or where they are
        frozen `pair.frozen[name]`. main: the shape of the main one.
        """
        return ()

    def heads(self, networks: Networks) -> Mapping[str, nn.Module]:
        """Small modules of its own: `pair.heads[name]` in `forward`; in checkpoints, never exported."""
        return {}

    def connect(self, pair: Pair) -> None:  # noqa: B027
        """Tie weights between the networks and the heads, once, after they have been filled."""

    def begin_update(self, pair: Pair, step: int, total_steps: int) -> None:  # noqa: B027
        """Called before every update, for what happens between stages; may depend on `step` alone."""

    def language_model(self, pair: Pair) -> Generator | None:
        """The full-size network that names masked tokens, if the objective trains one."""
        return pair.main if isinstance(pair.main, Generator) else None

    @property
    def masked_share(self) -> float:
        """The share of positions that is masked, averaged over the training."""
        first: float = getattr(self.config, "mask_fraction", 0.15)
        final: float | None = getattr(self.config, "final_mask_fraction", None)
        return first if final is None else first + (final - first) * self.mean_progress

    def sequence_flops(self, networks: Networks, length: int) -> float:
        """Training one sequence, averaged over the training (paper's conventions: model/flops.py)."""
        masked, small = self.masked_share, networks.auxiliary
        total = flops.training_flops(networks, length, masked_fraction=masked)
        if small is not None and not getattr(
            self.config, "sampling_dropout", True
        ):  # one more pass forward: half of its training
            total += flops.sequence_flops(small, None, length, masked_fraction=masked) / 2
        return total

    @abstractmethod
    def corrupt(self, batch: Batch, seed: int, progress: float) -> Corrupted:
        """Draw the corruption of each example from its own key; `progress` of the training: 0 to 1."""

    @abstractmethod
    def forward(self, pair: Pair, corrupted: Corrupted) -> Outcome:
        """Summed losses, with the names of `weights`, and what metrics need."""

    def for_evaluation(self, mask_fraction: float) -> Self:
        """The same objective at a fixed mask rate, to compare different recipes. Options that say at what
        they are `evaluated` (`config.option`) are set to that.
        """
        other = copy(self)
        told = {f.name: f.metadata for f in fields(self.config)}
        fixed = {name: more["evaluated"] for name, more in told.items() if "evaluated" in more}
        fixed |= {"mask_fraction": mask_fraction, "final_mask_fraction": None}
        other.config = replace(self.config, **{name: value for name, value in fixed.items() if name in told})
        return other
