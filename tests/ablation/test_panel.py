"""The panel's scores of frozen encoders, and its data."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from electra.data.settings import TokenizerConfig
from electra.data.tokenizer import Tokenizer
from electra.finetuning.labelled.examples import Example
from electra.foundation.errors import ConfigError, DataError
from electra.laboratory.ablation import panel
from electra.laboratory.ablation.panel import states_and_tags
from electra.laboratory.analysis.measures.linear import classify, fit
from electra.model.encoder import Encoder
from electra.model.hidden import hidden_states
from electra.model.pair import build_pair
from electra.model.sizes import EncoderConfig

_TAGGED = "the/DET a/DET cat/NOUN dog/NOUN house/NOUN sees/VERB likes/VERB greenish/ADJ"
LEXICON = dict(cell.split("/") for cell in _TAGGED.split())


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([" ".join(LEXICON)] * 20, TokenizerConfig(vocab_size=50))


def encoder_for(tokenizer: Tokenizer, architecture: str) -> Encoder:
    shape = {"embedding_size": 32, "hidden_size": 32, "num_layers": 2, "num_heads": 2}
    shape |= {"intermediate_size": 64, "max_positions": 64, "vocab_size": tokenizer.vocab_size}
    config = EncoderConfig(architecture=architecture, **shape)  # type: ignore[arg-type]
    network = build_pair(config, seed=3, initialisation="fan_in").main
    assert network is not None
    return network.encoder


def sentence(words: Sequence[str], tags: Sequence[str]) -> Example:
    return Example("", "", tuple(words), gold=list(tags))


def tagged(count: int, seed: int) -> list[Example]:
    draw = random.Random(seed)
    words = [[draw.choice(list(LEXICON)) for _ in range(draw.randint(1, 9))] for _ in range(count)]
    return [sentence(row, [LEXICON[word] for word in row]) for row in words]


@pytest.mark.parametrize("architecture", ["electra", "modern"])
def test_a_words_vector_is_the_mean_over_its_tokens_whatever_the_batch(
    architecture: str, tokenizer: Tokenizer
) -> None:
    encoder = encoder_for(tokenizer, architecture).train()
    data = [sentence(["the", "househouse"], ["DET", "X"]), sentence(["a"] * 9, ["DET"] * 9)]
    layers, tags = states_and_tags(encoder, tokenizer, data)
    assert encoder.training  # unchanged
    encoder.eval()
    assert tags == ["DET", "X", *["DET"] * 9]
    ids = [tokenizer.specials.cls, *tokenizer.encode("the househouse").ids[1:-1], tokenizer.specials.sep]
    assert len(ids) > 5
    alone = torch.stack(hidden_states(encoder, torch.tensor([ids])))[:, 0]
    assert torch.allclose(layers[:, 0], alone[:, 1], atol=1e-5)
    assert torch.allclose(layers[:, 1], alone[:, 2:-1].mean(1), atol=1e-5)


def test_words_beyond_the_maximum_length_are_dropped_with_their_tags(tokenizer: Tokenizer) -> None:
    numbers = [str(number) for number in range(70)]  # the encoder has 64 positions, two of them for specials
    data = [sentence(["cat"] * 70, numbers), sentence([], []), sentence(["dog"], ["x"])]
    layers, tags = states_and_tags(encoder_for(tokenizer, "modern"), tokenizer, data)
    assert tags == [*numbers[:62], "x"]
    assert layers.shape[1] == 63 and layers.isfinite().all()


def test_the_fit_is_the_optimum_that_scikit_learn_finds() -> None:
    draw = torch.Generator().manual_seed(0)
    layer = torch.randn(400, 5, generator=draw)
    targets = (layer @ torch.randn(5, 3, generator=draw) + torch.randn(400, 3, generator=draw)).argmax(1)
    weights = fit(layer[None], targets, 3, panel.PENALTY)
    ours = (layer @ weights[1].T + weights[2]).softmax(1)
    theirs = LogisticRegression(C=1 / (2 * panel.PENALTY * 400), max_iter=1000, tol=1e-8).fit(
        layer.numpy(), targets.numpy()
    )
    assert torch.allclose(
        ours.double(), torch.from_numpy(theirs.predict_proba(layer.numpy())).double(), atol=2e-3
    )


def test_the_mix_gives_most_weight_to_the_informative_layer() -> None:
    draw = torch.Generator().manual_seed(0)
    layers = torch.randn(3, 500, 8, generator=draw)
    targets = (layers[1] @ torch.randn(8, 4, generator=draw)).argmax(1)
    assert fit(layers, targets, 4, panel.PENALTY)[0].softmax(0)[1] > 0.9


def test_a_probe_learns_tags_that_words_determine_and_is_deterministic(tokenizer: Tokenizer) -> None:
    encoder = encoder_for(tokenizer, "modern")

    def probe(test: Sequence[Example]) -> tuple[list[bool], Tensor]:
        (train, labels), (states, gold) = (
            states_and_tags(encoder, tokenizer, part) for part in (tagged(60, 1), test)
        )
        answers, mix = classify(train, labels, states, panel.PENALTY)
        return [bool(answer == tag) for answer, tag in zip(answers, gold, strict=True)], mix

    right, mix = probe(tagged(30, 2))
    assert sum(right) > 0.95 * len(right)
    assert float(mix.sum()) == pytest.approx(1)
    again, other = probe(tagged(30, 2))
    assert again == right and torch.equal(mix, other)
    # "ADJ" is the first of the tags, and training never showed the other.
    assert probe([sentence(["cat", "greenish"], ["NOUN", "UNSEEN"])])[0] == [True, False]


def test_a_missing_file_of_the_panel_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        panel.panel_record(tmp_path, ["pos"])
    assert caught.value.where.endswith("ud-english-ewt") and "train" in caught.value.what
    (tmp_path / "ud-english-ewt").mkdir()
    (tmp_path / "ud-english-ewt" / "train.conllu").write_text("1\tcat\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n")
    with pytest.raises(DataError) as caught:
        panel.panel_record(tmp_path, ["pos"])
    assert "dev" in caught.value.what
    (tmp_path / "ud-english-ewt" / "train.conllu").rename(tmp_path / "ud-english-ewt" / "dev.conllu")
    with pytest.raises(DataError) as caught:
        panel.panel_record(tmp_path, ["pos"])
    assert "train" in caught.value.what
    with pytest.raises(ConfigError) as unknown:
        panel.panel_record(tmp_path, ["poss"])
    assert unknown.value.key == "eval_task" and "'pos'" in unknown.value.fix


def test_the_panel_finds_real_data(shared_data: Callable[[str], Path]) -> None:
    shared_data("chunking/conll2000/test.txt.gz")
    data = shared_data("glue/cola/dev.tsv.gz").parents[2]
    shared_data("ud-english-ewt/dev.conllu.gz")
    description = panel.panel_record(data, list(panel.TASKS))
    assert set(description["identity"]) == {"pos", "chunking", "stsb", "sst2", "cola", "mnli"}
    assert set(description["identity"]["chunking"]) >= {"version", "train 1", "dev"}
