"""The pooling of a text's states, as an exported folder describes it and as other libraries read it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from electra.artifacts.model import MODULES, POOLING
from electra.exchange.convert import export
from electra.exchange.load import Loaded, load
from electra.exchange.pooling import PooledText
from electra.foundation.errors import DamagedModel, ModelError
from electra.inference.embedding import embed
from electra.testing import small

TEXTS = ["the chef cooked the meal .", "a cat", "", "that old chef likes the new meal that a cat ate ."]


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("architecture", ["electra", "modern"])
def test_a_folder_is_pooled_as_it_describes(tmp_path: Path, architecture: str, pooling: str) -> None:
    """By transformers' own encoder, pooled by hand as the folder's file says."""
    from transformers import AutoModel, AutoTokenizer

    output = small.network(tmp_path, architecture=architecture)
    folder = tmp_path / "out"
    export(replace(output, pooling=pooling), folder, folder)
    modules = json.loads((folder / MODULES).read_text())
    assert [(one["path"], one["type"].rpartition(".")[2]) for one in modules] == [
        ("", "Transformer"),
        (POOLING.partition("/")[0], "Pooling"),
    ]
    says = json.loads((folder / POOLING).read_text())
    assert says["pooling_mode_cls_token"] == (pooling == "cls") != says["pooling_mode_mean_tokens"]
    encoder, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    vectors = embed(load(folder), TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        with torch.inference_mode():
            states = encoder(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].numpy()
        expected = states[0] if says["pooling_mode_cls_token"] else states.mean(0)
        np.testing.assert_allclose(vector, expected, atol=1e-5)


def test_a_folder_without_pooling_is_pooled_by_mean(tmp_path: Path) -> None:
    folder = small.write_pair(tmp_path / "pair") / "discriminator"
    (folder / POOLING).unlink()
    with pytest.warns(DamagedModel, match=r"1_Pooling/config\.json is missing"):
        loaded = load(folder)
    assert loaded.pooling == "mean"
    assert not np.allclose(embed(loaded, TEXTS), embed(loaded, TEXTS, "cls"))


@pytest.mark.parametrize("says", [{"pooling_mode": "median"}, {"pooling_mode_third_token": True}, []])
def test_another_way_of_pooling_is_refused(tmp_path: Path, says: object) -> None:
    folder = small.write_pair(tmp_path / "pair") / "discriminator"
    (folder / POOLING).write_text(json.dumps(says))
    with pytest.raises(ModelError, match=r"1_Pooling/config\.json: "):
        load(folder)


def test_many_texts_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: Loaded = small.network(tmp_path)
    whole, message = embed(loaded, TEXTS), []
    monkeypatch.setattr("electra.inference.embedding.TEXTS_PER_CHUNK", 3)
    np.testing.assert_allclose(embed(loaded, TEXTS, progress=message.append), whole, atol=1e-6)
    assert message == [0.75, 1.0]


def test_each_token_of_a_long_text_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, counts = small.network(tmp_path), []
    vector = PooledText.vector
    monkeypatch.setattr(PooledText, "vector", lambda pooled: counts.append(pooled.count) or vector(pooled))
    text = "the chef cooked the meal . " * 40
    embed(loaded, [text])
    assert counts == [len(loaded.tokenizer.encode(text).ids)] and counts[0] > 2 * loaded.config.max_positions
