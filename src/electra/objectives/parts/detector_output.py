"""The discriminator's part of replaced token detection, for objectives that extend it."""

from typing import NamedTuple

from torch import Tensor
from torch.nn import functional as F

from electra.model.encoder import PLAIN, Variation
from electra.model.pair import Discriminator
from electra.objectives.parts.interface import CorruptedBatch


class DetectorOutput(NamedTuple):
    """The discriminator's output for a text with replacements, over all N = B x T flattened positions."""

    hidden: Tensor  # [N, D] last states
    logits: Tensor  # [N] float32 log-odds that the token was replaced
    replaced: Tensor  # [N] bool: the token differs from the original
    real: Tensor  # [N] bool: False at padding

    def losses(self) -> Tensor:
        """Returns the binary cross-entropy [N] at each position, including padding."""
        return F.binary_cross_entropy_with_logits(self.logits, self.replaced.float(), reduction="none")

    def loss(self) -> Tensor:
        """Returns the binary cross-entropy summed over the real tokens."""
        return self.losses()[self.real].sum()

    def observed(self) -> dict[str, Tensor]:
        """Returns the detached entries of `Outcome.observed` that the detection metrics read."""
        return {"replaced_logits": self.logits.detach()[self.real], "replaced": self.replaced[self.real]}


def detect(
    discriminator: Discriminator, corrupted: CorruptedBatch, ids: Tensor, variation: Variation = PLAIN
) -> DetectorOutput:
    """Runs the discriminator on `ids` [B, T], the batch with some tokens replaced."""
    hidden = corrupted.encode(discriminator.encoder, ids, variation=variation)
    logits = discriminator.logits(hidden).float().flatten()
    replaced = (ids != corrupted.input_ids).flatten()
    return DetectorOutput(hidden.flatten(0, 1), logits, replaced, corrupted.is_token().flatten())
