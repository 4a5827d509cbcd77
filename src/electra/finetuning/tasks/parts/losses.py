"""Cross-entropy as (sum, count), with or without class weights, for answers of a text and of its tokens
alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor
from torch.nn import functional as F

from electra.finetuning.windows.features import NO_TARGET


def cross_entropy(
    logits_NC: Tensor, targets_N: Tensor, weights: Sequence[float] = ()
) -> tuple[Tensor, float]:
    """Positions without a target do not count. With weights, count is the sum of the targets' weights, as in
    torch's own mean.
    """
    logits_NC = logits_NC.float()
    counted = targets_N != NO_TARGET
    if not weights:
        return F.cross_entropy(logits_NC, targets_N, ignore_index=NO_TARGET, reduction="sum"), int(
            counted.sum()
        )
    weights_C = logits_NC.new_tensor(weights)
    loss = F.cross_entropy(logits_NC, targets_N, weights_C, ignore_index=NO_TARGET, reduction="sum")
    return loss, float(weights_C[targets_N[counted]].sum())


def balanced_weights(classes: Sequence[int], num_classes: int) -> tuple[float, ...]:
    """examples / (classes * examples of the class), scikit-learn's "balanced"; 1 for a class without
    examples.
    """
    counts = np.bincount(classes, minlength=num_classes)
    return tuple(float(len(classes) / (num_classes * count)) if count else 1.0 for count in counts)
