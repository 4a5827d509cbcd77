"""The arms of the paper's Table 5, and COCO-LM: what each learns from."""

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from electra.model import flops
from electra.objectives.parts import replacing, vocabulary
from electra.testing import toy


def built(name: str, rows: int = 8, **options: Any) -> tuple[Any, Any, Any]:
    objective = toy.objective(name, **options)
    return objective, toy.pair_for(objective), objective.corrupt(toy.batches().batch(0, rows), 3, 0.0)


def test_electra_15_learns_from_the_masked_positions_alone() -> None:
    objective, pair, part = built("electra_15")
    outcomes = {}

    def keep(module: Any, inputs: Any, output: torch.Tensor) -> None:
        outcomes["logits"] = output
        output.retain_grad()

    pair.main.head.register_forward_hook(keep)
    outcome = objective.forward(pair, part)
    outcome.losses["rtd"].backward()
    at = torch.zeros(part.input_ids.numel(), dtype=torch.bool)
    at[part.masked_positions] = True
    gradient = outcomes["logits"].grad.flatten()
    assert not gradient[~at].any() and gradient[at].all()
    assert part.counts["rtd"] == part.counts["mlm"] == int(at.sum())


def test_replace_mlm_reads_samples_and_predicts_the_original() -> None:
    objective, pair, part = built("replace_mlm")
    outcome = objective.forward(pair, part)
    ids = replacing.insert_samples(part, outcome.observed["sampled"])
    logits = pair.main.logits(part.encode(pair.main.encoder, ids).flatten(0, 1)[part.masked_positions])
    plain = F.cross_entropy(logits, part.targets, reduction="sum")
    assert torch.allclose(outcome.losses["mlm"], plain, rtol=1e-5)


@pytest.mark.parametrize("may_copy", [False, True])
def test_chunked_losses_equal_the_plain_ones(may_copy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loss and gradients of the one-pass output layer against autograd through the formula."""
    _, pair, _ = built("all_tokens_mlm")
    generator = pair.main
    torch.manual_seed(1)
    hidden = torch.randn(37, generator.encoder.config.hidden_size, requires_grad=True)
    gate = torch.randn(37, requires_grad=True)
    targets = torch.randint(5, toy.VOCABULARY, (37,))
    shown = torch.where(torch.rand(37) < 0.7, targets, torch.randint(5, toy.VOCABULARY, (37,)))
    monkeypatch.setattr(vocabulary, "CHUNK_ELEMENTS", 10 * toy.VOCABULARY)
    head, logits = generator.head, generator.logits(hidden)
    parameters = [hidden, head.dense.weight, generator.encoder.token_table(), head.bias]
    if may_copy:
        parameters.append(gate)
        loss, top1_correct = vocabulary.copy_loss(generator, hidden, targets, shown, gate)
        copy = gate.sigmoid()[:, None]
        p = copy * F.one_hot(shown, toy.VOCABULARY) + (1 - copy) * logits.softmax(-1)
        plain = -p.gather(1, targets[:, None]).log().sum()
    else:
        uniforms = torch.rand(37, dtype=torch.float64)
        loss, _, top1_correct = vocabulary.loss_and_sample(generator, hidden, targets, uniforms)
        plain = F.cross_entropy(logits, targets, reduction="sum")
    assert torch.allclose(loss, plain, rtol=1e-5) and torch.equal(top1_correct, logits.argmax(-1) == targets)
    ours, reference = (torch.autograd.grad(3 * each, parameters) for each in (loss, plain))
    for a, b in zip(ours, reference, strict=True):
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-5)


def test_all_tokens_mlm_learns_at_every_real_token() -> None:
    objective, pair, part = built("all_tokens_mlm")
    assert part.counts["mlm"] == int(part.is_token().sum()) > part.counts["sampler"] == len(part.targets)
    outcome = objective.forward(pair, part)
    ids = replacing.insert_samples(part, outcome.observed["sampled"])
    hidden = pair.main.encoder(ids, part.position_ids, part.document_ids).flatten(0, 1)
    copy = pair.heads["copy"](hidden).sigmoid()
    p = copy * F.one_hot(ids.flatten(), toy.VOCABULARY) + (1 - copy) * pair.main.logits(hidden).softmax(-1)
    plain = -p.gather(1, part.input_ids.flatten()[:, None]).log().squeeze(1)[part.is_token().flatten()].sum()
    assert torch.allclose(outcome.losses["mlm"], plain, rtol=1e-5)
    right = pair.main.logits(hidden)[part.masked_positions].argmax(-1) == part.targets
    assert torch.equal(outcome.observed["top1_correct"], right)


def test_corrective_loss_is_the_formula_and_does_not_train_the_gate() -> None:
    objective, pair, part = built("coco_lm", 32, mask_fraction=0.4)
    outcome = objective.forward(pair, part)
    sampled, slots = outcome.observed["sampled"], part.masked_positions
    ids = replacing.insert_samples(part, sampled)
    hidden = part.encode(pair.main.encoder, ids).flatten(0, 1)
    gate = pair.heads["copy"](hidden).squeeze(-1).sigmoid()
    p = pair.main.logits(hidden[slots]).softmax(-1).gather(1, part.targets[:, None]).squeeze(1)
    lucky = sampled == part.targets
    assert lucky.any() and not lucky.all()
    corrected = gate[slots] * lucky + (1 - gate[slots]) * p
    assert torch.allclose(outcome.losses["mlm"], -corrected.log().sum(), rtol=1e-4)
    real, is_original = part.is_token().flatten(), (ids == part.input_ids).flatten().float()
    copy = F.binary_cross_entropy(gate[real], is_original[real], reduction="sum")
    assert torch.allclose(outcome.losses["copy"], copy, rtol=1e-4)
    head = list(pair.heads["copy"].parameters())
    unused = torch.autograd.grad(outcome.losses["mlm"], head, allow_unused=True, retain_graph=True)
    assert all(gradient is None or not gradient.any() for gradient in unused)
    assert all(gradient.any() for gradient in torch.autograd.grad(outcome.losses["copy"], head))


def test_flops_of_each_objective() -> None:
    """Replace MLM is the sum of its two networks; All-Tokens MLM adds the other positions, and a gate."""
    T, full = 16, toy.config()
    names = ("mlm", "rtd", "electra_15", "replace_mlm", "all_tokens_mlm")
    arms = {name: toy.objective(name) for name in names}
    cost = {name: objective.sequence_flops(toy.shapes_for(objective), T) for name, objective in arms.items()}
    small = toy.shapes_for(arms["replace_mlm"]).auxiliary
    assert cost["replace_mlm"] == cost["mlm"] + flops.sequence_flops(small, None, T, masked_fraction=0.15)
    rest = 2 * (flops.generator_head_flops(full, T, 0.85) + 2 * full.hidden_size * T)
    assert cost["all_tokens_mlm"] == pytest.approx(cost["replace_mlm"] + rest)
    assert cost["electra_15"] == cost["rtd"] > cost["mlm"]
