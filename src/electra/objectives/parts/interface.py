"""The contract between an objective and the training loop.

An objective first corrupts a batch, on the host and before any network runs; every random number is derived
from the key of an example (`foundation.seeds`). Then it computes losses as sums. The counts that divide the
sums come with the corrupted batch, because the loop adds them up over processes and accumulated micro-batches
before the first backward pass. So no mean of means is ever taken.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from electra.artifacts.model_files import Pooling
from electra.artifacts.network_names import Head
from electra.data.corpus.batches import Batch
from electra.data.corpus.store import TokenStore
from electra.model import flops
from electra.model.encoder import Encoder
from electra.model.networks import Network, Networks
from electra.model.pair import Generator, Pair
from electra.model.precision import to_device
from electra.model.sizes import EncoderConfig


@dataclass(frozen=True)
class CorruptedBatch:
    """A batch ready for the networks: B rows of T tokens, with M masked slots over the whole batch."""

    input_ids: Tensor  # [B, T] original tokens
    masked_ids: Tensor  # [B, T] input of the generator, or of a masked language model
    masked_positions: Tensor  # [M] index of each masked slot in the flattened batch
    targets: Tensor  # [M] original token of each slot
    uniforms: Tensor  # [M] float64 in [0, 1), one per sample; stays on the host if the device lacks float64
    position_ids: Tensor | None  # [B, T]; None: 0, 1, 2, ... in every row
    document_ids: Tensor | None  # [B, T] document within the row, -1 at padding; None: one document per row
    counts: dict[str, int]  # loss -> number of terms in its sum
    progress: float = 1.0  # fraction of training done, 0 to 1, for objectives with a schedule
    is_slot: Tensor | None = None  # [M] False where a slot only fills the batch up; None: all are slots

    def filled_up(self, slots: int) -> Self:
        """Returns the batch with exactly `slots` slots; the added ones mask nothing and have no loss."""
        M, masked = len(self.targets), self.masked_positions.tolist()
        unmasked = next((i for i, position in enumerate(masked) if i != position), M)
        target = int(self.input_ids.flatten()[unmasked])
        fill = {"masked_positions": unmasked, "targets": target, "uniforms": 0}
        values, missing = vars(self), (0, slots - M)
        filled: dict[str, Any] = {name: F.pad(values[name], missing, value=x) for name, x in fill.items()}
        return replace(self, **filled, is_slot=torch.arange(slots) < M)

    def to(self, device: torch.device) -> Self:
        """Returns the batch with its tensors on `device`."""
        if device.type == "cpu":
            return self
        tensors: dict[str, Any] = {
            name: to_device(value, device) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return replace(self, **tensors)

    def rows(self, selected: Tensor) -> "CorruptedBatch":
        """Returns a plain CorruptedBatch of the rows where `selected` [B] is True; `counts` are unchanged."""
        T = self.input_ids.shape[1]
        in_selected = selected[self.masked_positions // T]
        new_rows = (selected.cumsum(0) - 1)[self.masked_positions[in_selected] // T]
        return CorruptedBatch(
            input_ids=self.input_ids[selected],
            masked_ids=self.masked_ids[selected],
            masked_positions=new_rows * T + self.masked_positions[in_selected] % T,
            targets=self.targets[in_selected],
            uniforms=self.uniforms[in_selected.to(self.uniforms.device)],
            position_ids=None if self.position_ids is None else self.position_ids[selected],
            document_ids=None if self.document_ids is None else self.document_ids[selected],
            counts=self.counts,
            progress=self.progress,
        )

    def encode(self, encoder: Encoder, ids: Tensor, **options: Any) -> Tensor:
        """Returns the last layer's states [B, T, D] for `ids` [B, T], which have the layout of the batch."""
        return encoder(ids, self.position_ids, self.document_ids, **options)  # type: ignore[no-any-return]

    def masked_states(self, network: Generator) -> Tensor:
        """Returns the last layer's states [M, D] of a masked language model at the masked slots."""
        return self.encode(network.encoder, self.masked_ids).flatten(0, 1)[self.masked_positions]

    def is_token(self) -> Tensor:
        """Returns bool [B, T]: True at tokens, False at padding."""
        if self.document_ids is None:
            return torch.ones_like(self.input_ids, dtype=torch.bool)
        return self.document_ids >= 0


@dataclass
class Outcome:
    """The result of one forward pass over a corrupted batch."""

    losses: dict[str, Tensor]  # scalars, summed over their terms, differentiable
    observed: dict[str, Tensor] = field(default_factory=dict)  # detached, for metrics


class Objective(ABC):
    """The base class of all objectives.

    A module defines an objective by a subclass called `Objective`, whose docstring cites the source and lists
    the departures from it, and a frozen dataclass called `Config` with its options.
    """

    main: Head = "discriminator"  # the main network; "generator" is a masked language model
    auxiliary: bool = True  # whether a small masked language model is trained too, for the main one's input
    source: ClassVar[str]  # the publication, as the documentation shows it
    output: str = ""  # the discriminator's, such as "energy", if not log-odds; recorded with the export
    mean_progress: float = 0.5  # mean of `progress` over the training
    pooling: Pooling = "mean"  # how a teacher's token states become the vector of a text
    after_pooling: Callable[[Tensor], Tensor] | None = None  # from pooled states [N, D] to vectors [N, D']
    feedback: ClassVar[bool] = False  # whether the main network's loss also trains the auxiliary network
    # Whether `forward` gives a batch that is filled up (`CorruptedBatch.filled_up`) the same losses, without
    # reading a value on the host or a shape that depends on one.
    fixed_shapes: bool = False

    def __init__(
        self,
        config: Any,
        *,
        vocab_size: int,
        specials: dict[str, int],
        statistics: TokenStore | None = None,
    ) -> None:
        """Builds an objective from an instance of its `Config`.

        `specials` are ids by name (pad, unk, cls, sep, mask), `statistics` the store of the training text,
        for options that need the counts of its tokens.
        """
        self.config, self.vocab_size, self.specials = config, vocab_size, specials
        self.statistics = statistics

    @property
    @abstractmethod
    def weights(self) -> dict[str, float]:
        """The weight of each loss: total = sum over losses of weight * sum / count."""

    @property
    def required_settings(self) -> Mapping[str, Any]:
        """Settings of the recipe's [model] that this objective requires, such as {"sharing": "none"}."""
        return {}

    @property
    def stages(self) -> Sequence[float]:
        """The fractions of the training at which further stages begin.

        The learning rate rises and falls once in each stage.
        """
        return ()

    @property
    def phases(self) -> Sequence[float]:
        """The fractions of the training at which further phases begin.

        All updates of a phase do the same work and cost the same.
        """
        return self.stages

    def extra_networks(self, main: EncoderConfig) -> Sequence[Network]:
        """Returns further networks, which `forward` finds in `pair.named` or, if frozen, in `pair.frozen`."""
        return ()

    def heads(self, networks: Networks) -> Mapping[str, nn.Module]:
        """Returns further modules, by name, for `pair.heads`; checkpoints contain them, exports do not."""
        return {}

    def tie_weights(self, pair: Pair) -> None:  # noqa: B027
        """Ties weights between the networks and the heads; called once, after the weights are initialised."""

    def begin_update(self, pair: Pair, step: int, progress: float, new_stage: bool) -> None:  # noqa: B027
        """Prepares the networks for the update at `step`, at this fraction of the training.

        What it does may depend only on its arguments: a resumed run calls it only for the remaining steps.
        `new_stage` says whether a stage begins.
        """

    def language_model(self, pair: Pair) -> Generator | None:
        """Returns the full-size network that predicts masked tokens.

        By default, this is the main network if it is a generator, else None.
        """
        return pair.main if isinstance(pair.main, Generator) else None

    @property
    def mean_mask_fraction(self) -> float:
        """The fraction of positions that are masked, averaged over the training."""
        initial: float = getattr(self.config, "mask_fraction", 0.15)
        final: float | None = getattr(self.config, "final_mask_fraction", None)
        return initial if final is None else initial + (final - initial) * self.mean_progress

    def sequence_flops(self, networks: Networks, length: int) -> float:
        """Returns the FLOPs of training on one sequence of `length` tokens, averaged over the training.

        The conventions are the paper's; see model/flops.py.
        """
        return flops.training_flops(networks, length, masked_fraction=self.mean_mask_fraction)

    @abstractmethod
    def corrupt(self, batch: Batch, seed: int, progress: float) -> CorruptedBatch:
        """Returns the corrupted batch, on the host; the corruption of an example depends only on its key.

        `seed` is the run's, `progress` the fraction of the training that is done, 0 to 1.
        """

    @abstractmethod
    def forward(self, pair: Pair, corrupted: CorruptedBatch) -> Outcome:
        """Returns the summed losses, one for each name in `weights`, and the tensors that metrics need."""

    def for_evaluation(self, mask_fraction: float) -> Self:
        """Returns a copy with a fixed mask fraction, so that different recipes can be compared.

        Options that are declared with an `evaluated` value (see `config.option`) take that value.
        """
        fixed_copy = copy(self)
        metadata = {f.name: f.metadata for f in fields(self.config)}
        fixed = {name: extra["evaluated"] for name, extra in metadata.items() if "evaluated" in extra}
        fixed |= {"mask_fraction": mask_fraction, "final_mask_fraction": None}
        fixed = {name: value for name, value in fixed.items() if name in metadata}
        fixed_copy.config = replace(self.config, **fixed)
        return fixed_copy
