"""The generator's output layer: loss and sample at the masked slots in one pass over the vocabulary, in chunks.

The logits [M, V] are never all alive: each chunk of slots computes its logits, its loss, its sample and its gradients, and is
dropped. No fused library kernel fits, since the generator must sample as well as learn. Softmax, loss and sampling are float32.
Shapes: M masked slots, E embedding, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from electra.model.pair import Generator

CHUNK_ELEMENTS = 1 << 23  # logits alive at once: 32 MiB in float32
BLOCK = 128  # tokens in a block of the two-level inverse CDF


def sample(probabilities_MV: Tensor, uniforms_M: Tensor) -> Tensor:
    """Draw one token for each row by inverse CDF. Rows of `probabilities` [M, V] need not be normalised.

    Two levels: first a block of the vocabulary, by float64 sums of the blocks, then a token inside it. So a float32 running sum
    over the whole vocabulary, whose rounding would favour some tokens, is never needed, and one uniform number a row suffices.
    """
    M, V = probabilities_MV.shape
    padded = F.pad(probabilities_MV, (0, -V % BLOCK)).view(M, -1, BLOCK)
    blocks = padded.sum(-1, dtype=torch.float64).cumsum(-1)
    aim = uniforms_M.to(torch.float64) * blocks[:, -1]
    block = torch.searchsorted(blocks, aim[:, None], right=True).clamp_(max=blocks.shape[1] - 1)
    before = torch.where(block > 0, blocks.gather(1, (block - 1).clamp_(min=0)), 0.0)
    inside = padded.gather(1, block[:, :, None].expand(-1, -1, BLOCK)).squeeze(1).to(torch.float64)
    running = inside.cumsum(-1)
    offset = torch.searchsorted(running, aim[:, None] - before, right=True)
    # Rounding may step past the end of the block: fall back to its last token of non-zero probability.
    last = BLOCK - 1 - (inside.flip(-1) > 0).to(torch.int8).argmax(-1, keepdim=True)
    # Only logits that are not finite lead past the vocabulary; the loop tells of those when it sees the gradient.
    return (block * BLOCK + torch.minimum(offset, last)).squeeze(1).clamp_(max=V - 1)


class _LossAndSample(torch.autograd.Function):
    """Forward computes the gradients too: they are linear in the loss's own gradient, which is one number."""

    @staticmethod
    def forward(  # type: ignore[override]  # noqa: PLR0917
        ctx: Any, hidden_ME: Tensor, table_VE: Tensor, bias_V: Tensor, targets_M: Tensor, uniforms_M: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        needs_gradient = any(ctx.needs_input_grad[:3])
        device = hidden_ME.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden_ME.dtype
        M, V = hidden_ME.shape[0], table_VE.shape[0]
        hidden, table = hidden_ME.to(dtype), table_VE.to(dtype)
        loss = torch.zeros((), dtype=torch.float32, device=hidden.device)
        sampled, guesses = torch.empty_like(targets_M), torch.empty_like(targets_M)
        grad_hidden = torch.empty_like(hidden) if needs_gradient else None
        grad_table = torch.zeros(table_VE.shape, dtype=torch.float32, device=hidden.device) if needs_gradient else None
        grad_bias = torch.zeros_like(bias_V, dtype=torch.float32) if needs_gradient else None
        with torch.autocast(device, enabled=False):
            num_rows = max(1, CHUNK_ELEMENTS // V)
            for start in range(0, M, num_rows):
                part = slice(start, start + num_rows)
                logits = F.linear(hidden[part], table).float().add_(bias_V)
                target = targets_M[part, None]
                maximum, guesses[part] = logits.max(-1)
                at_target = logits.gather(1, target).squeeze(1)
                tempered = ((logits - maximum[:, None]) / temperature).exp_() if temperature != 1.0 else None
                exponentials = logits.sub_(maximum[:, None]).exp_()
                total = exponentials.sum(-1)
                loss += (total.log() + maximum - at_target).sum()
                sampled[part] = sample(exponentials if tempered is None else tempered, uniforms_M[part])
                if grad_hidden is not None and grad_table is not None and grad_bias is not None:
                    grad_logits = exponentials.div_(total[:, None])
                    grad_logits.scatter_add_(1, target, torch.full_like(target, -1, dtype=torch.float32))
                    grad_bias += grad_logits.sum(0)
                    grad_logits = grad_logits.to(dtype)
                    grad_hidden[part] = grad_logits @ table
                    grad_table += grad_logits.t() @ hidden[part]
        if grad_hidden is not None and grad_table is not None and grad_bias is not None:
            ctx.save_for_backward(grad_hidden.to(hidden_ME.dtype), grad_table.to(table_VE.dtype), grad_bias)
        ctx.mark_non_differentiable(sampled, guesses)
        return loss, sampled, guesses

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        grad_hidden, grad_table, grad_bias = ctx.saved_tensors
        return grad_hidden * grads[0], grad_table * grads[0], grad_bias * grads[0], None, None, None


def loss_and_sample(
    generator: Generator, hidden_MD: Tensor, targets_M: Tensor, uniforms_M: Tensor, temperature: float = 1.0
) -> tuple[Tensor, Tensor, Tensor]:
    """The masked-language-model loss (summed), a sample and the best guess at each masked slot, from its hidden state [M, D].

    The sample follows softmax(logits / temperature) exactly, and carries no gradient (paper section 3.1).
    """
    head = generator.head
    hidden_ME = head.norm(F.gelu(head.dense(hidden_MD)))
    outcome: tuple[Tensor, Tensor, Tensor] = _LossAndSample.apply(  # type: ignore[no-untyped-call]
        hidden_ME, generator.encoder.token_table(), head.bias, targets_M, uniforms_M, temperature
    )
    return outcome
