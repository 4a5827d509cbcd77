"""The pooling of a text's states, as an exported folder describes it and as other libraries read it."""

from pathlib import Path

import numpy as np
import pytest
from contracts import small

from electra.artifacts.model_files import POOLING
from electra.exchange.load import Loaded, load
from electra.foundation.errors import DamagedModel
from electra.inference.embedding import embed

TEXTS = ["the chef cooked the meal .", "a cat", "ate", "that old chef likes the new meal that a cat ate ."]


def test_a_folder_without_pooling_is_pooled_by_mean(tmp_path: Path) -> None:
    folder = small.write_pair(tmp_path / "pair") / "discriminator"
    (folder / POOLING).unlink()
    with pytest.warns(DamagedModel, match=r"1_Pooling/config\.json is missing"):
        loaded = load(folder)
    assert loaded.text_vector.pooling == "mean"
    assert not np.allclose(embed(loaded, TEXTS), embed(loaded, TEXTS, "cls"))


def test_many_texts_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: Loaded = small.network(tmp_path)
    whole, message = embed(loaded, TEXTS), []
    monkeypatch.setattr("electra.inference.embedding.TEXTS_PER_CHUNK", 3)
    np.testing.assert_allclose(embed(loaded, TEXTS, progress=message.append), whole, atol=1e-6)
    assert message == [0.75, 1.0]


def test_each_token_of_a_long_text_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, counts = small.network(tmp_path), []
    pooled = lambda pooling, windows: counts.extend(windows) or windows[0][0]  # noqa: E731
    monkeypatch.setattr("electra.inference.embedding.pooled", pooled)
    text = "the chef cooked the meal . " * 40
    embed(loaded, [text])
    total = sum(count for _, count in counts)
    assert total == len(loaded.tokenizer.encode(text).ids) > 2 * loaded.config.max_positions
