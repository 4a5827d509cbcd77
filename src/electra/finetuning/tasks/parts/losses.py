"""The cross-entropy of texts or tokens as (sum, divisor), with or without class weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor
from torch.nn import functional as F

from electra.finetuning.windows.features import NO_TARGET


def cross_entropy(
    logits_NC: Tensor, targets_N: Tensor, weights: Sequence[float] = ()
) -> tuple[Tensor, float]:
    """Returns the sum of the losses, and the number by which to divide it for the mean.

    The divisor is the number of targets or, with class weights, the sum of the targets' weights, as in the
    mean that torch computes.

    Args:
        logits_NC: the logits.
        targets_N: class indices [N], of which NO_TARGET is ignored.
        weights: the weight of each class; () for equal weights.
    """
    logits_NC = logits_NC.float()
    labelled_N = targets_N != NO_TARGET
    if not weights:
        loss = F.cross_entropy(logits_NC, targets_N, ignore_index=NO_TARGET, reduction="sum")
        return loss, int(labelled_N.sum())
    weights_C = logits_NC.new_tensor(weights)
    loss = F.cross_entropy(logits_NC, targets_N, weights_C, ignore_index=NO_TARGET, reduction="sum")
    return loss, float(weights_C[targets_N[labelled_N]].sum())


def balanced_weights(classes: Sequence[int], num_classes: int) -> tuple[float, ...]:
    """Returns scikit-learn's "balanced" weight of each class: examples / (classes * examples of the class).

    A class without examples has the weight 1.
    """
    counts = np.bincount(classes, minlength=num_classes)
    return tuple(float(len(classes) / (num_classes * count)) if count else 1.0 for count in counts)
