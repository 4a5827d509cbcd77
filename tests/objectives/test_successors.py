"""COCO-LM's corrective language model and TEAMS' multi-word selection: what each adds to replaced token
detection.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from electra.objectives.teams import draw_candidates
from electra.testing import toy


def passed(name: str, **options: Any) -> tuple[Any, Any, Any, Any]:
    objective = toy.objective(name, **options)
    pair = toy.pair_for(objective)
    part = objective.corrupt(toy.batches().batch(0, 32), 3, 0.0)
    return objective, pair, part, objective.forward(pair, part)


def test_corrective_loss_is_the_formula_and_does_not_train_the_gate() -> None:
    _, pair, part, outcome = passed("coco_lm", mask_fraction=0.4)
    sampled, slots = outcome.observed["sampled"], part.masked_positions
    ids = part.input_ids.flatten().index_copy(0, slots, sampled)
    hidden = pair.main.encoder(ids.view_as(part.input_ids), part.position_ids, part.document_ids).flatten(
        0, 1
    )
    gate = pair.heads["copy"](hidden).squeeze(-1).sigmoid()
    p = pair.main.logits(hidden[slots]).softmax(-1).gather(1, part.targets[:, None]).squeeze(1)
    lucky = sampled == part.targets
    assert lucky.any() and not lucky.all()
    corrected = gate[slots] * lucky + (1 - gate[slots]) * p
    assert torch.allclose(outcome.losses["mlm"], -corrected.log().sum(), rtol=1e-4)
    copy = F.binary_cross_entropy(gate, (ids == part.input_ids.flatten()).float(), reduction="none")[
        part.is_token().flatten()
    ].sum()
    assert torch.allclose(outcome.losses["copy"], copy, rtol=1e-4)
    head = list(pair.heads["copy"].parameters())
    unused = torch.autograd.grad(outcome.losses["mlm"], head, allow_unused=True, retain_graph=True)
    assert all(gradient is None or not gradient.any() for gradient in unused)
    assert all(gradient.any() for gradient in torch.autograd.grad(outcome.losses["copy"], head))


def test_candidates_are_the_original_and_other_likely_words() -> None:
    torch.manual_seed(0)
    probabilities = torch.tensor([[0.5, 0.3, 0.1, 0.06, 0.04]]).expand(20_000, -1)
    targets = torch.full((20_000,), 1)
    words = draw_candidates(probabilities, targets, torch.rand(20_000, 3, dtype=torch.float64))
    assert (words[:, 0] == 1).all() and all(len(set(row)) == 4 for row in words.tolist())
    first = torch.bincount(words[:, 1], minlength=5) / 20_000
    assert torch.allclose(first, torch.tensor([0.5, 0.0, 0.1, 0.06, 0.04]) / 0.7, atol=0.01), (
        "the generator's, without the original"
    )
    after = torch.bincount(words[words[:, 1] == 0, 2], minlength=5).float()
    assert torch.allclose(after / after.sum(), torch.tensor([0.0, 0.0, 0.1, 0.06, 0.04]) / 0.2, atol=0.015)
    certain = torch.tensor([[0.0, 1.0, 0.0, 0.0, 0.0]]).expand(100, -1)
    words = draw_candidates(certain, targets[:100], torch.rand(100, 4, dtype=torch.float64))
    assert all(len(set(row)) == 5 for row in words.tolist()), (
        "a generator that is certain leaves others to choose from"
    )


def test_selection_is_a_softmax_over_the_candidates() -> None:
    _, pair, part, outcome = passed("teams")
    slots = part.masked_positions
    states = pair.auxiliary.encoder(part.masked_ids, part.position_ids, part.document_ids).flatten(0, 1)[
        slots
    ]
    words = draw_candidates(pair.auxiliary.logits(states).softmax(-1), part.targets, part.choices)
    ids = part.input_ids.flatten().index_copy(0, slots, outcome.observed["sampled"])
    hidden = pair.main.encoder(ids.view_as(part.input_ids), part.position_ids, part.document_ids).flatten(
        0, 1
    )
    full = pair.heads["selection"](hidden[slots], pair.main.encoder.token_table())
    total = 0.0
    for row, candidates in enumerate(words.tolist()):
        distinct = sorted(set(candidates))
        total -= float(full[row, distinct].log_softmax(-1)[distinct.index(int(part.targets[row]))].detach())
    assert float(outcome.losses["selection"].detach()) == pytest.approx(total, rel=1e-4)
