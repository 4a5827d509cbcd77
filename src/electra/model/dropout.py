"""Dropout that is cheap on a CPU: 16 random bits per element, where torch draws a double."""

import torch
from torch import Tensor
from torch.nn import functional as F

_LEVELS = 1 << 16
_LANES = 4  # elements per draw of 64 bits


def dropout(x: Tensor, rate: float, training: bool) -> Tensor:
    """Zeroes a fraction `rate` of the elements of `x`, and scales the others up to preserve the mean.

    Returns `x` itself outside training or if `rate` is 0. On a CPU, `rate` is rounded to the nearest
    65,536th, and the scale matches the rounded rate.
    """
    if not training or rate == 0.0:
        return x
    return F.dropout(x, rate) if x.device.type != "cpu" else x * _factors(x, rate)


def _factors(x: Tensor, rate: float) -> Tensor:
    dropped_levels, count = min(max(1, round(rate * _LEVELS)), _LEVELS - 1), x.numel()
    compiling, scale = torch.compiler.is_compiling(), _LEVELS / (_LEVELS - dropped_levels)
    bits = torch.ops.electra.random_bits(count) if compiling else _draw(count)
    last = dropped_levels - _LEVELS // 2 - 1  # of the levels that are dropped
    kept = bits.clamp_(last, last + 1).sub_(last).view(x.shape)  # 0 or 1; torch converts bools slowly
    if x.dtype == torch.bfloat16 and not compiling:  # writes the bits of a bfloat16
        return kept.mul_(int(torch.tensor(scale, dtype=x.dtype).view(torch.int16))).view(x.dtype)
    return kept.to(x.dtype).mul_(scale)


def _draw(count: int) -> Tensor:
    """Draws int16 [count] uniformly from torch's CPU generator."""
    lanes = torch.empty(-(-count // _LANES), dtype=torch.int64).random_(-(1 << 63), None)
    return lanes.view(torch.int16)[:count]


# Opaque to the compiler, so that compiled and plain layers draw the same numbers from the same generator.
_random_bits = torch.library.custom_op("electra::random_bits", _draw, mutates_args=())
_random_bits.register_fake(lambda count: torch.empty(count, dtype=torch.int16))
