"""The frozen probes and the panel's data."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from electra.data.tokenizer import Tokenizer
from electra.data.wordpiece import TokenizerConfig
from electra.foundation.errors import ElectraError
from electra.laboratory.ablation import panel, probing
from electra.laboratory.ablation.probing import Tagged, probe, read_words
from electra.laboratory.analysis.measures.linear import fit
from electra.model.encoder import Encoder
from electra.model.hidden import hidden_states
from electra.model.pair import build_pair
from electra.model.sizes import EncoderConfig

LEXICON = {
    "the": "DET",
    "a": "DET",
    "cat": "NOUN",
    "dog": "NOUN",
    "house": "NOUN",
    "sees": "VERB",
    "likes": "VERB",
    "greenish": "ADJ",
}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([" ".join(LEXICON)] * 20, TokenizerConfig(vocab_size=50))


def encoder_for(tokenizer: Tokenizer, architecture: str) -> Encoder:
    shape = {
        "embedding_size": 32,
        "hidden_size": 32,
        "num_layers": 2,
        "num_heads": 2,
        "intermediate_size": 64,
        "max_positions": 64,
    }
    config = EncoderConfig(architecture=architecture, vocab_size=tokenizer.vocab_size, **shape)  # type: ignore[arg-type]
    network = build_pair(config, seed=3, initialisation="fan_in").main
    assert network is not None
    return network.encoder


def tagged(count: int, seed: int) -> Tagged:
    draw = random.Random(seed)
    words = [[draw.choice(list(LEXICON)) for _ in range(draw.randint(1, 9))] for _ in range(count)]
    return Tagged(words, [[LEXICON[word] for word in sentence] for sentence in words])


@pytest.mark.parametrize("architecture", ["electra", "modern"])
def test_a_words_vector_is_the_mean_over_its_tokens_whatever_the_batch(
    architecture: str, tokenizer: Tokenizer
) -> None:
    encoder = encoder_for(tokenizer, architecture).train()
    data = Tagged([["the", "househouse"], ["a"] * 9], [["DET", "X"], ["DET"] * 9])
    features = read_words(encoder, tokenizer, data)
    assert encoder.training  # as it was
    encoder.eval()
    assert features.tags == ["DET", "X", *["DET"] * 9]
    ids = [tokenizer.specials.cls, *tokenizer.encode("the househouse").ids[1:-1], tokenizer.specials.sep]
    assert len(ids) > 5
    alone = torch.stack(hidden_states(encoder, torch.tensor([ids])))[:, 0]
    assert torch.allclose(features.layers[:, 0], alone[:, 1], atol=1e-5)
    assert torch.allclose(features.layers[:, 1], alone[:, 2:-1].mean(1), atol=1e-5)


def test_words_behind_the_limit_are_left_out_with_their_tags(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "MAX_TOKENS", 6)
    features = read_words(
        encoder_for(tokenizer, "modern"),
        tokenizer,
        Tagged([["cat"] * 9, [], ["dog"]], [list("123456789"), [], ["0"]]),
    )
    assert features.tags == ["1", "2", "3", "4", "0"]
    assert features.layers.isfinite().all()


def test_the_fit_is_the_optimum_that_scikit_learn_finds() -> None:
    draw = torch.Generator().manual_seed(0)
    layer = torch.randn(400, 5, generator=draw)
    targets = (layer @ torch.randn(5, 3, generator=draw) + torch.randn(400, 3, generator=draw)).argmax(1)
    weights = fit(layer[None], targets, 3, probing.PENALTY)
    ours = (layer @ weights[1].T + weights[2]).softmax(1)
    theirs = LogisticRegression(C=1 / (2 * probing.PENALTY * 400), max_iter=1000, tol=1e-8).fit(
        layer.numpy(), targets.numpy()
    )
    assert torch.allclose(
        ours.double(), torch.from_numpy(theirs.predict_proba(layer.numpy())).double(), atol=2e-3
    )


def test_the_mix_finds_the_layer_that_knows() -> None:
    draw = torch.Generator().manual_seed(0)
    layers = torch.randn(3, 500, 8, generator=draw)
    targets = (layers[1] @ torch.randn(8, 4, generator=draw)).argmax(1)
    assert fit(layers, targets, 4, probing.PENALTY)[0].softmax(0)[1] > 0.9


def test_a_probe_reads_what_words_decide_and_is_the_same_every_time(tokenizer: Tokenizer) -> None:
    encoder = encoder_for(tokenizer, "modern")
    found = probe(encoder, tokenizer, tagged(60, 1), tagged(30, 2))
    assert found.accuracy > 0.95
    assert sum(found.mix) == pytest.approx(1)
    assert found == probe(encoder, tokenizer, tagged(60, 1), tagged(30, 2))


def test_a_tag_that_training_never_showed_is_wrong(tokenizer: Tokenizer) -> None:
    test = Tagged([["cat", "greenish"]], [["NOUN", "UNSEEN"]])  # "ADJ" is the first of the tags
    assert probe(encoder_for(tokenizer, "modern"), tokenizer, tagged(60, 1), test).accuracy == 0.5


def test_the_panel_says_which_file_it_misses(tmp_path: Path) -> None:
    with pytest.raises(ElectraError, match="ud-english-ewt: no train file for the panel"):
        panel.describe(tmp_path, ["pos"])
    (tmp_path / "ud-english-ewt").mkdir()
    (tmp_path / "ud-english-ewt" / "train.conllu").write_text("1\tcat\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n")
    with pytest.raises(ElectraError, match="no dev file"):
        panel.describe(tmp_path, ["pos"])
    with pytest.raises(ElectraError, match=r"panel: no task named 'poss'\. Did you mean 'pos'"):
        panel.describe(tmp_path, ["poss"])


def test_without_data_there_is_no_panel() -> None:
    assert panel.describe(None, ["pos"])["tasks"] == {}


def test_the_panel_finds_real_data(shared_data: Callable[[str], Path]) -> None:
    shared_data("chunking/conll2000/test.txt.gz")
    data = shared_data("glue/cola/dev.tsv.gz").parents[2]
    shared_data("ud-english-ewt/dev.conllu.gz")
    found = panel.describe(data, list(panel.TASKS))
    assert set(found["identity"]) == {"pos", "chunking", "stsb", "sst2", "cola", "mnli"}
    assert set(found["identity"]["chunking"]) == {"version", "train", "test"}
