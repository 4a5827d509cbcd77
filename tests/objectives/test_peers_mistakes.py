"""Mistakes found in other trainers' code, each with the test that fails on it.

What the full-size network reads (one peer gave its discriminator the masked text), how much of the vocabulary
is alive at once (most project every position before they pick the masked ones), and sampling in the number
format of the matrix products.
"""

from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from electra.foundation.extensions import OBJECTIVES
from electra.model.pair import Generator
from electra.objectives.parts import replacing, vocabulary
from electra.testing import toy

CHUNKED = [name for name in OBJECTIVES.names() if name != "adversarial"]  # it holds the masked slots' logits


def sharp_generator() -> Generator:
    """A generator whose distributions are far from uniform."""
    generator = toy.pair_for(toy.objective("rtd")).auxiliary
    assert generator is not None
    with torch.no_grad():
        generator.encoder.token_table().mul_(30)
    return generator


def corrupted(objective: Any, size: int = 8) -> Any:
    return objective.corrupt(toy.batches().batch(0, size), 3, 1.0)


@pytest.mark.parametrize("name", OBJECTIVES.names())
def test_the_full_size_network_reads_the_samples(name: str) -> None:
    """At a sampled position it reads neither [MASK] nor the original; MLM rows show [MASK]."""
    objective = toy.objective(name)
    pair, part = toy.pair_for(objective), corrupted(objective)
    full = pair.main
    read: list[torch.Tensor] = []
    full.encoder.register_forward_pre_hook(lambda module, inputs: read.append(inputs[0]))
    observed = objective.forward(pair, part).observed
    sampled = observed.get("sampled")
    if sampled is not None and hasattr(part, "untouched"):
        sampled = torch.where(part.untouched, part.targets, sampled)
    if hasattr(part, "mlm_rows"):
        expected = part.masked_ids.clone()
        expected[~part.mlm_rows] = replacing.insert_samples(part.rows(~part.mlm_rows), observed["sampled"])
    else:
        expected = part.masked_ids if sampled is None else replacing.insert_samples(part, sampled)
    assert len(read) == 1 and torch.equal(read[0], expected)
    assert not torch.equal(read[0], part.input_ids)


@pytest.mark.parametrize("name", CHUNKED)
def test_only_a_chunk_of_logits_is_in_memory_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "CHUNK_ELEMENTS", 4 * toy.VOCABULARY)
    rows = 0

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal rows
            out = func(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, tuple | list) else (out,):
                logits = isinstance(tensor, torch.Tensor) and tensor.shape[-1:] == (toy.VOCABULARY,)
                if logits and tensor.is_contiguous():  # a view of the token table from its side is not
                    rows = max(rows, tensor.numel() // toy.VOCABULARY)
            return out

    objective = toy.objective(name)
    pair, part = toy.pair_for(objective), corrupted(objective)
    with Watching():
        losses = objective.forward(pair, part).losses
        torch.stack([loss for loss in losses.values() if loss.requires_grad]).sum().backward()
    assert 0 < rows <= 4 < len(part.targets)


def test_softmax_loss_and_samples_are_float32_where_products_are_not() -> None:
    generator = sharp_generator()
    torch.manual_seed(0)
    hidden = torch.randn(64, generator.encoder.config.hidden_size)
    targets = torch.randint(5, toy.VOCABULARY, (64,))
    uniforms = torch.rand(64, dtype=torch.float64)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        loss, sampled, _ = vocabulary.loss_and_sample(generator, hidden, targets, uniforms)
        head = generator.head
        products = F.linear(head.norm(F.gelu(head.dense(hidden))), generator.encoder.token_table())
    assert products.dtype == torch.bfloat16 and loss.dtype == torch.float32
    logits = products.float() + head.bias
    assert torch.equal(sampled, vocabulary.sample(logits.softmax(-1), uniforms))
    assert torch.allclose(loss, F.cross_entropy(logits, targets, reduction="sum"), rtol=1e-6)
