"""The discriminator's side of replaced token detection, for objectives that add to it."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor
from torch.nn import functional as F

from electra.model.encoder import PLAIN, Variation
from electra.model.pair import Discriminator
from electra.objectives.parts.interface import Corrupted


class Judged(NamedTuple):
    """What the discriminator says of a text with replacements. N: all positions, flattened."""

    hidden: Tensor  # [N, D]
    logits: Tensor  # [N] log-odds that the token was replaced
    replaced: Tensor  # [N] whether it was
    real: Tensor  # [N] False at padding

    def losses(self) -> Tensor:
        """The cross-entropy of each position [N]."""
        return F.binary_cross_entropy_with_logits(self.logits, self.replaced.float(), reduction="none")

    def loss(self) -> Tensor:
        return self.losses()[self.real].sum()

    def observed(self) -> dict[str, Tensor]:
        return {"replaced_logits": self.logits.detach()[self.real], "replaced": self.replaced[self.real]}


def judge(
    discriminator: Discriminator, corrupted: Corrupted, ids: Tensor, variation: Variation = PLAIN
) -> Judged:
    """Read the text `ids` [B, T]."""
    hidden = discriminator.encoder(ids, corrupted.position_ids, corrupted.piece_ids, variation=variation)
    logits = discriminator.logits(hidden, corrupted.position_ids).float().flatten()
    replaced = (ids != corrupted.input_ids).flatten()
    return Judged(hidden.flatten(0, 1), logits, replaced, corrupted.real().flatten())
