"""The table of a sentence: masks, samples, labels, and what it lacks without one of the networks."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange.card import Card
from electra.exchange.huggingface import export_network
from electra.exchange.load import Loaded, load
from electra.foundation.errors import ModelError
from electra.inference.example_rows import SENTENCE, example_rows
from electra.model.pair import Pair

ExportPair = Callable[..., tuple[Pair, Path]]


@pytest.fixture
def networks(export_pair: ExportPair) -> tuple[Loaded, Loaded]:
    folder = export_pair()[1]
    return load(folder, "discriminator"), load(folder, "generator")


def test_rows_say_what_happened(networks: tuple[Loaded, Loaded]) -> None:
    rows = example_rows(*networks, seed=3)
    assert [row["original"] for row in rows] == SENTENCE.split()
    assert sum(row["masked"] == "[MASK]" for row in rows) == 2
    for row in rows:
        assert row["masked"] in ("[MASK]", row["original"])
        assert row["label"] == ("original" if row["generated"] == row["original"] else "replaced")
        if row["masked"] != "[MASK]":
            assert row["generated"] == row["original"]
        assert row["p_replaced"] is not None and 0 < row["p_replaced"] < 1
    assert rows == example_rows(*networks, seed=3) != example_rows(*networks, seed=4)


@torch.inference_mode()
def test_probabilities_belong_to_the_replaced_sentence(networks: tuple[Loaded, Loaded]) -> None:
    discriminator, _ = networks
    rows = example_rows(*networks, seed=3)
    tokenizer = discriminator.tokenizer
    ids = [
        tokenizer.specials.cls,
        *(tokenizer.token_to_id(str(row["generated"])) for row in rows),
        tokenizer.specials.sep,
    ]
    expected = discriminator.logits(torch.tensor([ids]))[0, 1:-1].sigmoid()
    assert torch.tensor([row["p_replaced"] for row in rows]) == pytest.approx(expected, abs=1e-6)


def test_a_lucky_guess_is_original(networks: tuple[Loaded, Loaded]) -> None:
    discriminator, generator = networks
    chef = generator.tokenizer.token_to_id("chef")
    with torch.no_grad():
        generator.head.bias[chef] += 1000.0  # type: ignore[union-attr,index]
    rows = example_rows(discriminator, generator, "the chef", mask_fraction=1.0)
    assert [(row["generated"], row["label"]) for row in rows] == [("chef", "replaced"), ("chef", "original")]


def test_rows_beyond_the_vocabulary_are_never_drawn(
    tmp_path: Path, make_pair: Callable[..., Pair], uncased: Tokenizer
) -> None:
    """Published tables are often padded to a round number."""
    generator = make_pair(vocab_size=uncased.vocab_size + 50).auxiliary
    assert generator is not None
    with torch.no_grad():
        generator.head.bias[uncased.vocab_size :] = 1000.0
    export_network(tmp_path, generator, uncased, Card("x", "generator"))
    assert example_rows(None, load(tmp_path, "generator"), "x")[0]["generated"]


def test_one_network_alone(networks: tuple[Loaded, Loaded]) -> None:
    discriminator, generator = networks
    assert all(row["p_replaced"] is None and row["generated"] for row in example_rows(None, generator))
    for row in example_rows(discriminator, None):
        assert row["masked"] is row["generated"] is row["label"] is None and row["p_replaced"] is not None


def test_wrong_input_is_one_line(
    networks: tuple[Loaded, Loaded], export_pair: ExportPair, cased: Tokenizer, tmp_path: Path
) -> None:
    discriminator, generator = networks
    with pytest.raises(ModelError):
        example_rows(discriminator, generator, "  ")
    with pytest.raises(ModelError, match=r"900.*510"):
        example_rows(discriminator, generator, "the chef ate " * 300)
    pair, _ = export_pair("other")
    assert pair.auxiliary is not None
    export_network(tmp_path / "cased", pair.auxiliary, cased, Card("x", "generator"))
    with pytest.raises(ModelError):
        example_rows(discriminator, load(tmp_path / "cased", "generator"))
