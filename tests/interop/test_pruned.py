"""electra prune: feed-forward neurons are removed, and those that stay are refitted."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import electra
from electra.exchange import neurons
from electra.exchange.load import load
from electra.exchange.neurons import remove_neurons, sample_rows
from electra.exchange.transfer import export
from electra.foundation.errors import ConfigError, CorpusError, ElectraError, ModelError
from electra.model.pair import build_encoder
from electra.testing import small
from electra.testing.toy import store as toy_store

LINES = "the old chef ate a new meal.\nthat cat like the meal.\nthe chef cook. a cat ate\n"


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    return small.write_pair(tmp_path / "pair", "electra")


def store_of(folder: Path, tokenizer: Path | str, lines: str = LINES * 60, **settings: Any) -> Path:
    (folder / "lines.txt").write_text(lines)
    electra.prepare(
        folder / "lines.txt",
        out=folder / "store",
        tokenizer=tokenizer,
        unit="file",
        progress="quiet",
        **settings,
    )
    return folder / "store"


def problem(
    inputs: int = 7, outputs: int = 3, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns correlated inputs with a last column of ones [N, I + 1], their second moments, and a matrix."""
    rng = torch.Generator().manual_seed(seed)
    inputs_NI = torch.randn(400, inputs, generator=rng, dtype=torch.float64)
    inputs_NI = inputs_NI @ torch.randn(inputs, inputs, generator=rng, dtype=torch.float64) + 0.5
    with_one = torch.cat([inputs_NI, torch.ones(400, 1, dtype=torch.float64)], dim=1)
    weights = torch.randn(inputs + 1, outputs, generator=rng, dtype=torch.float64)
    return with_one, with_one.T @ with_one / 400, weights


@pytest.mark.parametrize("seed", range(5))
def test_the_refitted_weights_are_those_of_least_squares(seed: int) -> None:
    inputs, moments, weights = problem(seed=seed)
    kept, refitted = remove_neurons(moments, weights, 4)
    expected = torch.linalg.lstsq(inputs[:, [*kept, -1]], inputs @ weights).solution
    # the damping of 1e-3 of the mean second moment moves the solution by about as much
    assert torch.allclose(refitted, expected, rtol=0, atol=0.05 * float(weights.abs().max()))
    assert list(kept) == sorted(set(kept)) and len(kept) == 4


@pytest.mark.parametrize("seed", range(5))
def test_the_first_neuron_to_go_is_the_one_that_is_missed_least(seed: int) -> None:
    inputs, moments, weights = problem(seed=seed)
    target = inputs @ weights
    errors = {}
    for kept in combinations(range(7), 6):
        columns = inputs[:, [*kept, -1]]
        errors[kept] = float((columns @ torch.linalg.lstsq(columns, target).solution - target).square().sum())
    left, _ = remove_neurons(moments, weights, 6)
    assert errors[tuple(left)] <= 1.05 * min(errors.values())


def test_how_often_the_matrices_are_compacted_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    _, moments, weights = problem(inputs=60)
    results = []
    for count in (1, 7, 1000):
        monkeypatch.setattr(neurons, "COMPACT", count)
        results.append(remove_neurons(moments, weights, 20))
    for kept, refitted in results[1:]:
        assert kept == results[0][0]
        assert torch.allclose(refitted, results[0][1], rtol=1e-6, atol=1e-6 * float(weights.abs().max()))


@pytest.mark.parametrize("architecture", ["electra", "modern", "deberta"])
def test_neurons_that_do_nothing_new_are_removed_without_a_change(architecture: str, tmp_path: Path) -> None:
    """A third of the neurons are zero, constant or copies of others: without them nothing changes."""
    pair = small.write_pair(tmp_path / "pair", architecture)
    model = load(pair, "discriminator")
    size = model.config.intermediate_size
    useless = size // 3
    for layer in model.encoder.layers:
        up: Any = layer.gated if architecture == "modern" else layer.intermediate
        with torch.no_grad():
            for part in range(up.out_features // size):
                rows = up.weight[part * size : (part + 1) * size]
                rows[:useless] = rows[useless : 2 * useless]
                rows[0] = 0
                if up.bias is not None:
                    up.bias[part * size : part * size + useless] = up.bias[useless : 2 * useless]
    export(model, tmp_path / "redundant", "redundant")
    store = store_of(tmp_path, pair)
    lines: list[str] = []
    pruned = electra.prune(
        tmp_path / "redundant", store=store, neurons=size - useless, out=tmp_path / "out",
        progress=lambda line, share: lines.append(line),
    )  # fmt: skip
    assert pruned.config.intermediate_size == size - useless
    assert sum("neurons stay" in line for line in lines) == model.config.num_layers
    rows = torch.from_numpy(sample_rows(electra.Store(store).tokens, 16))[:8]
    with torch.no_grad():
        expected, found = model.encoder(rows), pruned.encoder.encoder(rows)
    relative = (found - expected).norm() / expected.norm()
    assert relative < 0.02, relative  # damping shrinks the refitted weights by about its size


def test_the_refitted_layer_is_closer_than_one_without_those_neurons(pair: Path, tmp_path: Path) -> None:
    model, store = load(pair, "discriminator"), store_of(tmp_path, pair)
    half = model.config.intermediate_size // 2
    pruned = electra.prune(pair, store=store, neurons=half, out=tmp_path / "out")
    rows = torch.from_numpy(sample_rows(electra.Store(store).tokens, 16))
    cut = build_encoder(pruned.config)
    state = model.encoder.state_dict()
    for name in state:
        if ".intermediate." in name:
            state[name] = state[name][:half]
        elif ".output.weight" in name:
            state[name] = state[name][:, :half]
    cut.load_state_dict(state)
    with torch.no_grad():
        expected = model.encoder(rows)
        errors = [float((other(rows) - expected).norm()) for other in (pruned.encoder.encoder, cut.eval())]
    assert errors[0] < errors[1] / 2


def test_transformers_reads_the_pruned_network_alike(pair: Path, tmp_path: Path) -> None:
    pruned = electra.prune(pair, store=store_of(tmp_path, pair), neurons=7, out=tmp_path / "out")
    reference = transformers.AutoModel.from_pretrained(tmp_path / "out").eval()
    ids = torch.randint(5, 21, (2, 12), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert torch.allclose(reference(ids).last_hidden_state, pruned.encoder.encoder(ids), atol=1e-5)


def test_the_vocabulary_becomes_that_of_the_store(tmp_path: Path) -> None:
    store = store_of(tmp_path, "tiny-en", LINES * 600, cut_to=300)
    pruned = electra.prune("tiny-en", store=store, neurons=300, out=tmp_path / "out")
    assert (
        pruned.config.vocab_size
        == electra.Store(store).vocab_size
        < load("tiny-en", "discriminator").config.vocab_size
    )
    assert pruned.detect("the old chef ate a new meal.")[0].words


def test_rows_come_from_all_over_the_text() -> None:
    store = toy_store()
    rows = sample_rows(store, 16)
    assert rows.shape == (len(store.train.tokens) // 14, 16)
    assert (rows[:, 0] == store.specials.cls).all() and (rows[:, -1] == store.specials.sep).all()
    assert np.array_equal(rows[0, 1:-1], store.train.tokens[:14])
    assert np.array_equal(
        rows[-1, 1:-1][-5:],
        store.train.tokens[len(store.train.tokens) * (len(rows) - 1) // len(rows) :][9:14],
    )


@pytest.mark.parametrize("number", [0, -3, 10**9])
def test_an_impossible_number_of_neurons_is_refused(number: int, pair: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="neurons"):
        electra.prune(pair, store=store_of(tmp_path, pair), neurons=number, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_too_little_text_is_refused(pair: Path, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="neurons in a layer"):
        electra.prune(pair, store=store_of(tmp_path, pair, "the cat\n" * 2), neurons=2, out=tmp_path / "out")


def test_a_store_of_another_tokenizer_is_refused(pair: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="another tokenizer"):
        electra.prune(pair, store=store_of(tmp_path, "tiny-en"), neurons=2, out=tmp_path / "out")


def test_a_folder_with_something_else_is_kept(pair: Path, tmp_path: Path) -> None:
    store = store_of(tmp_path, pair)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(ElectraError):
        electra.prune(pair, store=store, neurons=2, out=tmp_path / "out")
    assert (tmp_path / "out" / "thesis.txt").read_text() == "mine"
