"""How much goes through an encoder at once where nothing is learned.

On a CPU small passes are the fast ones: the activations of a layer stay in its caches, and texts sorted by
length need less padding. Measured on 4 x 128 and 4 x 256 networks (one AVX-512 thread, fp32): 256 to 2,048
positions are within a few percent of each other, 4,096 take 1.1 times as long for each, 8,192 take 1.2 times,
padding not counted. A GPU wants to be filled.
"""

from __future__ import annotations

import torch


def positions_at_once(device: torch.device | str) -> int:
    """Positions in one forward pass, padding included."""
    return 1024 if torch.device(device).type == "cpu" else 16384
