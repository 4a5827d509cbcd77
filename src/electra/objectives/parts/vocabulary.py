"""The generator's output layer: loss and samples at the masked slots in one pass over the vocabulary.

The logits [M, V] are never all in memory: logits, loss, samples and gradients are computed for one chunk of
slots after another. No fused library kernel does this, because the generator must sample as well as learn.
Softmax, loss and sampling are float32. A `LossRule` replaces -log p as the loss. Shapes: M masked slots (N:
all positions), m slots of a chunk, E embedding, V vocabulary.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from electra.foundation.machine import DEVICES
from electra.model.pair import Generator
from electra.model.precision import to_float64

CHUNK_ELEMENTS = 1 << 21  # logits in memory at once: 8 MiB in float32, which fits a CPU's caches
BLOCK = 128  # tokens in a block of the two-level inverse CDF


def slots_per_chunk(vocab_size: int, device_type: str) -> int:
    """Returns the number of slots per chunk; larger on a GPU, where each kernel launch costs time."""
    return max(1, CHUNK_ELEMENTS * DEVICES[device_type].chunk // vocab_size)


def block_sums(probabilities_MV: Tensor) -> Tensor:
    """Returns the sum of each block of the vocabulary, float64 [M, blocks]; the sums are taken in float32."""
    M, V = probabilities_MV.shape
    rest = V - V % BLOCK  # index of the first token after the full blocks
    sums = probabilities_MV[:, :rest].view(M, rest // BLOCK, BLOCK).sum(-1)
    if rest < V:
        sums = torch.cat([sums, probabilities_MV[:, rest:].sum(-1, keepdim=True)], dim=1)
    return to_float64(sums)


def sample(probabilities_MV: Tensor, uniforms_M: Tensor, blocks_MN: Tensor | None = None) -> Tensor:
    """Draws a token [M] for each row by inverse CDF.

    There are two levels: first a block of the vocabulary is drawn, by float64 cumulative sums of the blocks,
    then a token of the block. This avoids a float32 cumulative sum over the vocabulary, whose rounding would
    favour some tokens, and needs only one random number in [0, 1) per row. The probabilities need not be
    normalised; `blocks_MN` is the result of `block_sums`, if it is known already.
    """
    V = probabilities_MV.shape[1]
    cumulative = (block_sums(probabilities_MV) if blocks_MN is None else blocks_MN).cumsum(-1)
    point = uniforms_M.to(cumulative.device, torch.float64) * cumulative[:, -1]
    block = torch.searchsorted(cumulative, point[:, None], right=True).clamp_(max=cumulative.shape[1] - 1)
    before = torch.where(block > 0, cumulative.gather(1, (block - 1).clamp_(min=0)), 0.0)
    tokens = block * BLOCK + torch.arange(BLOCK, device=block.device)
    in_block = probabilities_MV.gather(1, tokens.clamp(max=V - 1).to(probabilities_MV.device))
    in_block = to_float64(in_block).masked_fill_(tokens >= V, 0)
    offset = torch.searchsorted(in_block.cumsum(-1), point[:, None] - before, right=True)
    # Rounding may step past the end of the block; then its last token of non-zero probability is drawn.
    last_offset = BLOCK - 1 - (in_block.flip(-1) > 0).to(torch.int8).argmax(-1, keepdim=True)
    # Only logits that are not finite lead past the vocabulary. The training loop reports them when it checks
    # the gradient.
    drawn: Tensor = (block * BLOCK + torch.minimum(offset, last_offset)).squeeze(1).clamp_(max=V - 1)
    return drawn.to(probabilities_MV.device)


class Sampling(NamedTuple):
    """How samples are drawn from the logits."""

    temperature: float = 1.0
    disallow_correct: bool = False


# A loss other than -log p: a function of log-probabilities [m] and any extras [m] that returns losses [m].
LossRule = Callable[..., Tensor]


class _LossAndSample(torch.autograd.Function):
    """Computes loss, samples and gradients in the forward pass; the backward pass only scales them."""

    @staticmethod
    def forward(  # noqa: PLR0917
        ctx: Any,
        hidden_ME: Tensor,
        table_VE: Tensor,
        bias_V: Tensor,
        targets_M: Tensor,
        uniforms_M: Tensor | None,
        sampling: Sampling,
        rule: LossRule | None,
        is_grad_enabled: bool,
        *extras_M: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        # needs_input_grad is set for trainable weights even under no_grad
        needs_gradient = is_grad_enabled and any(ctx.needs_input_grad)
        device = hidden_ME.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden_ME.dtype
        M, V = hidden_ME.shape[0], table_VE.shape[0]
        hidden, table = hidden_ME.to(dtype), table_VE.to(dtype)
        loss = torch.zeros((), dtype=torch.float32, device=hidden.device)
        sampled = torch.empty_like(targets_M if uniforms_M is not None else targets_M[:0])
        top1_correct = torch.empty_like(targets_M, dtype=torch.bool)
        grad_hidden = torch.empty_like(hidden) if needs_gradient else None
        grad_table = torch.zeros(table_VE.shape, dtype=torch.float32, device=hidden.device) if needs_gradient else None
        grad_bias = torch.zeros_like(bias_V, dtype=torch.float32) if needs_gradient else None
        grad_extras = [torch.zeros_like(extra, dtype=torch.float32) for extra in extras_M]
        with torch.autocast(device, enabled=False):
            chunk_size = slots_per_chunk(V, device)
            for start in range(0, M, chunk_size):
                chunk = slice(start, start + chunk_size)
                logits = F.linear(hidden[chunk], table).float().add_(bias_V)
                target = targets_M[chunk, None]
                maximum = logits.amax(-1)
                target_logit = logits.gather(1, target).squeeze(1)
                # Ties are common among bfloat16 logits. In training a tie counts as correct, because finding
                # the first maximum costs another pass.
                top1_correct[chunk] = (
                    target_logit == maximum if needs_gradient else logits.argmax(-1) == targets_M[chunk]
                )
                sampling_weights = None
                if uniforms_M is not None and sampling != Sampling():
                    sampling_weights = _sampling_weights(logits, target, sampling)
                exponentials = logits.sub_(maximum[:, None]).exp_()
                blocks = block_sums(exponentials)
                normaliser = blocks.sum(-1).float().to(exponentials.device)
                losses, weights = normaliser.log() + maximum - target_logit, None
                if rule is not None:
                    losses, weights, grads = _apply_rule(rule, -losses, [extra[chunk] for extra in extras_M])
                    for grad_extra, grad in zip(grad_extras, grads, strict=True):
                        grad_extra[chunk] = grad
                loss += losses.sum()
                if uniforms_M is not None:
                    if sampling_weights is None:
                        sampled[chunk] = sample(exponentials, uniforms_M[chunk], blocks)
                    else:
                        sampled[chunk] = sample(sampling_weights, uniforms_M[chunk])
                if grad_hidden is not None and grad_table is not None and grad_bias is not None:
                    grad_logits = exponentials.div_(normaliser[:, None])
                    grad_logits.scatter_add_(1, target, torch.full_like(target, -1, dtype=torch.float32))
                    if weights is not None:
                        grad_logits *= weights[:, None]
                    grad_bias += grad_logits.sum(0)
                    grad_logits = grad_logits.to(dtype)
                    grad_hidden[chunk] = grad_logits @ table
                    grad_table += grad_logits.t() @ hidden[chunk]
        if grad_hidden is not None and grad_table is not None and grad_bias is not None:
            grad_extras = [grad.to(extra.dtype) for grad, extra in zip(grad_extras, extras_M, strict=True)]
            grad_hidden, grad_table = grad_hidden.to(hidden_ME.dtype), grad_table.to(table_VE.dtype)
            ctx.save_for_backward(grad_hidden, grad_table, grad_bias, *grad_extras)
        ctx.mark_non_differentiable(sampled, top1_correct)
        return loss, sampled, top1_correct

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        grad_hidden, grad_table, grad_bias, *grad_extras = (saved * grads[0] for saved in ctx.saved_tensors)
        return grad_hidden, grad_table, grad_bias, None, None, None, None, None, *grad_extras


def _sampling_weights(logits: Tensor, target: Tensor, sampling: Sampling) -> Tensor:
    logits = logits / sampling.temperature
    if sampling.disallow_correct:
        logits.scatter_(1, target, -torch.inf)
    return logits.sub_(logits.amax(-1, keepdim=True)).exp_()


def _apply_rule(rule: LossRule, log_probabilities: Tensor, extras: list[Tensor]) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Returns the rule's losses [m], the weights [m] of the softmax gradients, and the extras' gradients.

    A weight is minus the derivative of the loss with respect to the slot's log-probability.
    """
    leaves = [tensor.detach().float().requires_grad_() for tensor in (log_probabilities, *extras)]
    with torch.enable_grad():
        losses = rule(*leaves)
        grad_log_p, *grad_extras = torch.autograd.grad(losses.sum(), leaves, materialize_grads=True)
    return losses.detach(), -grad_log_p, list(grad_extras)


def loss_and_sample(
    generator: Generator,
    hidden_MD: Tensor,
    targets_M: Tensor,
    uniforms_M: Tensor,
    temperature: float = 1.0,
    *,
    disallow_correct: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the summed MLM loss, a sample [M], and whether the top token is correct [M].

    The sample follows softmax(logits / temperature) exactly, without the target if that is disallowed, and
    carries no gradient (Clark et al. 2020, section 3.1); the loss is at temperature 1. `hidden_MD` are the
    last layer's states at the slots, and `uniforms_M` is float64 in [0, 1).
    """
    sampling = Sampling(temperature, disallow_correct)
    return _apply_head(generator, hidden_MD, targets_M, uniforms_M, sampling, None)


def loss_and_top1(generator: Generator, hidden_MD: Tensor, targets_M: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the summed MLM loss, and whether the top token is correct [M]."""
    loss, _, top1_correct = _apply_head(generator, hidden_MD, targets_M, None, Sampling(), None)
    return loss, top1_correct


def copy_loss(
    generator: Generator, hidden_ND: Tensor, targets_N: Tensor, shown_N: Tensor, gate_N: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns the summed loss -log p, and whether the top token of the softmax is correct [N].

    p = D [target is the token shown] + (1 - D) softmax(logits), with D = sigmoid(gate). One chunk of logits
    is in memory at a time, whatever N and V.
    """
    shown_is_target = (targets_N == shown_N).float()
    loss, _, top1_correct = _apply_head(
        generator, hidden_ND, targets_N, None, Sampling(), copy_or_generate, gate_N, shown_is_target
    )
    return loss, top1_correct


def copy_or_generate(log_softmax: Tensor, gate: Tensor, shown_is_target: Tensor) -> Tensor:
    """Returns -log(D [shown is target] + (1 - D) softmax) (Clark et al. 2020, section 3.5)."""
    generated = F.logsigmoid(-gate) + log_softmax
    copied = F.logsigmoid(gate)
    return -torch.where(shown_is_target > 0, torch.logaddexp(copied, generated), generated)


def _apply_head(  # noqa: PLR0917
    generator: Generator,
    hidden_MD: Tensor,
    targets_M: Tensor,
    uniforms_M: Tensor | None,
    sampling: Sampling,
    rule: LossRule | None,
    *extras_M: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    head = generator.head
    hidden_ME = head.norm(F.gelu(head.dense(hidden_MD)))
    outcome: tuple[Tensor, Tensor, Tensor] = _LossAndSample.apply(  # type: ignore[no-untyped-call]
        hidden_ME,
        generator.encoder.token_table(),
        head.bias,
        targets_M,
        uniforms_M,
        sampling,
        rule,
        torch.is_grad_enabled(),
        *extras_M,
    )
    return outcome
