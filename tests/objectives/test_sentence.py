"""The sentence-level objective: whole texts stay untouched, and [CLS] is asked about the others."""

from typing import Any

import torch

from electra.testing import toy


def passed(**options: Any) -> tuple[Any, Any, Any, Any]:
    objective = toy.objective("sentence", **options)
    pair = toy.pair_for(objective)
    part = objective.corrupt(toy.batches().batch(0, 64), 3, 0.0)
    return objective, pair, part, objective.forward(pair, part)


def texts_of(part: Any) -> torch.Tensor:
    """The number of the text that each slot lies in, counted by [CLS]."""
    return ((part.input_ids == toy.SPECIALS.cls).flatten().cumsum(0) - 1)[part.masked_positions]


def test_a_text_is_untouched_as_a_whole_and_a_fifth_are() -> None:
    objective = toy.objective("sentence")
    part = objective.corrupt(toy.batches().batch(0, 3000), 3, 0.0)
    texts = texts_of(part)
    num_texts = int(texts.max()) + 1
    untouched = torch.zeros(num_texts).index_add(0, texts, part.untouched.float())  # type: ignore[attr-defined]
    slots = torch.zeros(num_texts).index_add(0, texts, torch.ones(len(texts)))
    some = slots > 0
    assert ((untouched == 0) | (untouched == slots)).all()
    assert abs(float((untouched[some] > 0).float().mean()) - 0.2) < 0.02
    assert part.counts["sentence"] == int((part.input_ids == toy.SPECIALS.cls).sum())


def test_labels_of_texts_follow_from_the_tokens() -> None:
    """By hand: a text is corrupted when a slot of it, not untouched, holds another token."""
    _, pair, part, outcome = passed(mask_fraction=0.4, untouched_share=0.5)
    differs = (outcome.observed["sampled"] != part.targets) & ~part.untouched
    assert int(outcome.observed["replaced"].sum()) == int(differs.sum())
    labels = torch.zeros(part.counts["sentence"])
    labels[texts_of(part)[differs]] = 1
    ids = part.input_ids.flatten().clone()
    ids[part.masked_positions[differs]] = outcome.observed["sampled"][differs]
    hidden = part.encode(pair.main.encoder, ids.view_as(part.input_ids)).flatten(0, 1)
    logits = pair.heads["sentence"](hidden[part.input_ids.flatten() == toy.SPECIALS.cls]).squeeze(-1)
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="sum")
    assert 0 < labels.mean() < 1 and torch.allclose(outcome.losses["sentence"], expected, rtol=1e-5)


def test_without_untouched_texts_it_is_replaced_token_detection() -> None:
    _, pair, part, outcome = passed(untouched_share=0.0)
    rtd = toy.objective("rtd").forward(pair, part)
    for name in ("mlm", "rtd"):
        assert torch.equal(outcome.losses[name], rtd.losses[name])
