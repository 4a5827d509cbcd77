"""Dropout."""

import pytest
import torch
from scipy.stats import binomtest

from electra.model.dropout import dropout


@pytest.mark.parametrize("rate", [0.1, 0.5, 1e-3])
def test_the_rate_is_dropped_and_the_mean_preserved(rate: float) -> None:
    torch.manual_seed(1)
    x = torch.ones(700, 333)
    y = dropout(x, rate, training=True)
    assert binomtest(int((y == 0).sum()), y.numel(), rate).pvalue > 1e-3
    kept = y[y != 0]
    assert torch.all(kept == kept[0]) and kept[0].item() == pytest.approx(1 / (1 - rate), rel=2e-5)


def test_elements_are_dropped_independently_in_each_lane_and_each_call() -> None:
    torch.manual_seed(2)
    x = torch.ones(1 << 16)
    first, second = (dropout(x, 0.3, training=True) == 0 for _ in range(2))
    # four elements come from one draw
    pairs = {shift: first[shift:] & first[:-shift] for shift in (1, 2, 3, 4)}
    for name, both in {**pairs, "calls": first & second}.items():
        assert binomtest(int(both.sum()), both.numel(), 0.09).pvalue > 1e-4, name
    lanes = first.view(-1, 4).float().mean(0)
    torch.testing.assert_close(lanes, torch.full((4,), 0.3), atol=0.015, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_gradient_passes_where_the_value_did(dtype: torch.dtype) -> None:
    torch.manual_seed(3)
    x = torch.randn(5, 7, 3, dtype=dtype, requires_grad=True)
    y = dropout(x, 0.4, training=True)
    y.sum().backward()  # type: ignore[no-untyped-call]
    assert y.dtype == dtype and x.grad is not None
    torch.testing.assert_close(y.detach(), x.detach() * x.grad)
    assert set((x.grad == 0).flatten().tolist()) == {True, False}


def test_the_seed_decides_the_mask_and_evaluation_has_none() -> None:
    x = torch.randn(64, 64)

    def drawn(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return dropout(x, 0.2, training=True)

    assert torch.equal(drawn(1), drawn(1)) and not torch.equal(drawn(1), drawn(2))
    assert dropout(x, 0.2, training=False) is x and dropout(x, 0.0, training=True) is x
