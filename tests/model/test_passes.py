"""Batched reading: every row once, in order, in passes that fit; padding changes no result."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from electra.foundation import threads
from electra.model.pair import build_encoder, initialise
from electra.model.passes import POOL_ROWS, PaddedBatch, before_each_batch, map_rows, positions_per_batch
from electra.model.sizes import Architecture, EncoderConfig


def rows(count: int, longest: int = 40, seed: int = 0) -> list[np.ndarray]:
    draw = np.random.default_rng(seed)
    return [draw.integers(5, 50, size=size) for size in draw.integers(2, longest, size=count)]


def test_results_come_in_the_order_of_the_rows_over_several_pools() -> None:
    given = rows(2 * POOL_ROWS + 7)
    found = list(map_rows(iter(given), lambda one: one.unpadded(one.input_ids * 2), "cpu"))
    assert len(found) == len(given)
    assert all(np.array_equal(values, 2 * row) for values, row in zip(found, given, strict=True))


def test_batches_fit_the_positions_and_contain_every_row_once() -> None:
    given = [*rows(300), np.arange(5000)]  # one that is larger than a pass by itself
    tokens = positions = 0

    def network(one: PaddedBatch) -> list[int]:
        nonlocal tokens, positions
        assert one.input_ids.numel() <= positions_per_batch("cpu") or len(one.index) == 1
        for line, i in enumerate(one.index):
            size = len(given[i])
            assert one.lengths[line] == size
            assert np.array_equal(one.input_ids[line, :size], given[i])
            assert (one.input_ids[line, size:] == 3).all()
            if one.document_ids is not None:
                assert one.document_ids[line].tolist() == [0] * size + [-1] * (one.input_ids.shape[1] - size)
        assert (one.document_ids is None) == (one.lengths.min() == one.lengths.max())
        tokens, positions = tokens + int(one.lengths.sum()), positions + one.input_ids.numel()
        return one.index.tolist()

    seen = list(map_rows(given, network, "cpu", pad=3))
    assert sorted(seen) == list(range(301))
    assert positions < 1.15 * tokens  # little of it is padding


def test_rows_are_read_a_pool_at_a_time() -> None:
    taken = 0

    def source() -> Iterator[np.ndarray]:
        nonlocal taken
        for row in rows(3 * POOL_ROWS):
            taken += 1
            yield row

    found = map_rows(source(), lambda one: one.lengths, "cpu")
    next(found)
    assert taken == POOL_ROWS


def test_the_caller_keeps_its_gradients() -> None:
    """The mode is the network's alone, also between two results."""
    found = map_rows(rows(3), lambda one: [torch.is_inference_mode_enabled()] * len(one.index), "cpu")
    assert next(found) and not torch.is_inference_mode_enabled()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_threads_share_out_the_batches_and_change_no_result(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    layer, given, before = torch.nn.Linear(40, 300), rows(400), torch.get_num_threads()
    together, apart = threading.Barrier(count, timeout=20), set[tuple[int, int]]()

    def network(one: PaddedBatch) -> list[np.ndarray]:
        thread = threading.get_ident(), torch.get_num_threads()
        if thread not in apart:
            together.wait()  # fails unless as many batches are computed at once
        apart.add(thread)
        assert torch.is_inference_mode_enabled()
        return one.unpadded(layer(torch.nn.functional.one_hot(one.input_ids % 40, 40).float()))

    expected = [layer(torch.nn.functional.one_hot(torch.from_numpy(row) % 40, 40).float()) for row in given]
    monkeypatch.setattr(threads, "workers", lambda: count)
    torch.set_num_threads(1)
    try:
        found = list(map_rows(given, network, "cpu"))
        for values, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(values, wanted.detach().numpy(), rtol=0, atol=1e-6)
        assert len(apart) == count and {number for _, number in apart} == {1}
        with pytest.raises(ZeroDivisionError):
            list(map_rows(given, lambda one: [1 // (int(one.lengths.min()) - 2)] * len(one.index), "cpu"))
        calls = iter([0, 1])
        with pytest.raises(RuntimeError), before_each_batch(lambda: next(calls) and None):
            list(map_rows(given, lambda one: one.lengths, "cpu"))
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("architecture", ["electra", "modern"])
def test_a_row_reads_the_same_alone_and_padded(architecture: Architecture) -> None:
    config = EncoderConfig(architecture, 50, 32, 32, num_layers=2, num_heads=2, intermediate_size=64)
    encoder = build_encoder(config).eval()
    initialise(encoder, 0, "fan_in")
    given = rows(50)

    def states(one: PaddedBatch) -> list[np.ndarray]:
        output: Tensor = encoder(one.input_ids, document_ids=one.document_ids)
        return one.unpadded(output)

    for row, found in zip(given, map_rows(given, states, "cpu"), strict=True):
        with torch.inference_mode():
            alone = encoder(torch.from_numpy(row)[None])[0].numpy()
        assert found.shape == alone.shape == (len(row), 32)
        assert np.allclose(found, alone, atol=1e-5)


def test_precision_and_other_values_of_a_token() -> None:
    layer = torch.nn.Linear(4, 4)
    given = rows(5)
    types = [np.arange(len(row)) for row in given]

    def network(one: PaddedBatch) -> list[tuple[torch.dtype, np.ndarray]]:
        dtype = layer(torch.zeros(1, 4)).dtype
        padded = one.padded([types[i] for i in one.index], fill=-1)
        return [(dtype, padded[line].numpy()) for line in range(len(one.index))]

    for dtype, row in zip(("bf16", "fp32"), (torch.bfloat16, torch.float32), strict=True):
        for (found, values), own in zip(map_rows(given, network, "cpu", precision=dtype), types, strict=True):
            assert found == row
            assert np.array_equal(values[: len(own)], own) and (values[len(own) :] == -1).all()
