"""Attention, masks and rotary positions, shared by the encoders.

Shapes: B batch, T tokens, H heads, K head size.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from electra.model.dropout import dropout as dropped

# Up to this length, two plain matrix products beat the fused CPU kernel, whose backward pass is slow.
EXPLICIT_LENGTH = 256


def attention_mask(document_ids_BT: Tensor | None) -> Tensor | None:
    """Returns bool [B, 1, T, T], true where attention is allowed: between tokens with the same document id.

    None means that nothing is masked, both as an argument and as the result. Padding (document -1) attends to
    padding, so no row of the softmax is empty.
    """
    if document_ids_BT is None:
        return None
    return (document_ids_BT[:, None, :, None] == document_ids_BT[:, None, None, :]).detach()


def windowed_mask(mask_B1TT: Tensor | None, window: int, length: int, device: torch.device) -> Tensor | None:
    """Limits attention to `window` tokens to either side.

    Returns bool [B or 1, 1, T, T], or the mask unchanged (it may be None) if the window covers all tokens.
    """
    if length <= window + 1:
        return mask_B1TT
    position_T = torch.arange(length, device=device)
    near_TT = (position_T[:, None] - position_T[None, :]).abs() <= window
    return near_TT[None, None] if mask_B1TT is None else mask_B1TT & near_TT


def attend(q_BHTK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor, mask_B1TT: Tensor | None, dropout: float) -> Tensor:
    """Returns scaled dot-product attention [B, H, T, K]. `dropout` must be 0 outside training.

    `mask_B1TT` is true where attention is allowed; None: everywhere.
    """
    if q_BHTK.device.type == "cpu" and (q_BHTK.shape[2] <= EXPLICIT_LENGTH or dropout > 0):
        scores_BHTT = (q_BHTK.contiguous() * q_BHTK.shape[-1] ** -0.5) @ k_BHTK.transpose(-1, -2)
        if mask_B1TT is not None:  # filling takes longer, and again in the backward pass
            scores_BHTT += torch.where(mask_B1TT, 0.0, -torch.inf).to(scores_BHTT.dtype)
        weights_BHTT = dropped(scores_BHTT.softmax(-1), dropout, dropout > 0)
        return weights_BHTT @ v_BHTK
    return F.scaled_dot_product_attention(q_BHTK, k_BHTK, v_BHTK, attn_mask=mask_B1TT, dropout_p=dropout)


def rotary_table(num_positions: int, head_size: int, theta: float) -> tuple[Tensor, Tensor]:
    """Returns the cosines and sines [positions, K] of the K / 2 rotary angles, repeated (Su et al. 2021)."""
    # On the CPU even for a model on the meta device, where arange imports the compiler, which takes seconds.
    frequencies = theta ** (-torch.arange(0, head_size, 2, dtype=torch.float32, device="cpu") / head_size)
    angles = torch.arange(num_positions, dtype=torch.float32, device="cpu")[:, None] * frequencies
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def rotate(x_BHTK: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates dimensions i and i + K / 2 by their angle. `cos` and `sin` broadcast to [B, H, T, K]."""
    first_half, second_half = x_BHTK.chunk(2, dim=-1)
    return x_BHTK * cos + torch.cat([-second_half, first_half], dim=-1) * sin
