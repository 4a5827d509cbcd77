"""Hidden states against the encoders themselves; CKA on known inputs; the probe on toys."""

from pathlib import Path

import numpy as np
import pytest
import torch
from contracts import small
from contracts.probes import write_data

from electra.exchange.load import Loaded
from electra.laboratory import analysis
from electra.laboratory.analysis.contract import ProbeDataError, StudiedModel
from electra.laboratory.analysis.measures.bootstrap import half_samples
from electra.laboratory.analysis.probes.layer_similarity import cka, common_words, encoders_of, rows_of_words
from electra.laboratory.analysis.texts import tagged_sentences
from electra.model import hidden
from electra.model.passes import pad_rows
from electra.model.sizes import Architecture

ARCHITECTURES: tuple[Architecture, ...] = ("electra", "modern")


def quiet(*_: object) -> None: ...


def padded(loaded: Loaded, count: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    words = [[cell.split("/")[0] for cell in sentence.split()] for sentence in small.SENTENCES[:count]]
    rows = rows_of_words(loaded.tokenizer, words, 24)
    batch = pad_rows(np.arange(len(rows)), [row for row, _ in rows], "cpu", 0)
    assert batch.document_ids is not None and (batch.document_ids < 0).any()
    return batch.input_ids, batch.document_ids


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_hidden_states_are_those_of_the_forward_pass(tmp_path: Path, architecture: str) -> None:
    loaded = small.network(tmp_path, architecture=architecture, layers=3)
    ids, document_ids = padded(loaded)
    with torch.inference_mode():
        states = hidden.hidden_states(loaded.encoder, ids, document_ids)
        output = loaded.encoder(ids, document_ids=document_ids)
    assert len(states) == 4 and torch.equal(states[-1], output)
    # Depth 0 knows nothing of its neighbours: the same token at the same place is the same vector. Later
    # depths are not.
    same = (ids[:, 1] == ids[0, 1]).nonzero().flatten()
    assert len(same) > 1
    assert torch.allclose(states[0][same[0], 1], states[0][same[1], 1])
    assert not torch.allclose(states[1][same[0], 1], states[1][same[1], 1], atol=1e-3)


def test_vectors_of_words_do_not_depend_on_the_batch(tmp_path: Path) -> None:
    loaded = small.network(tmp_path)
    words = [["the", "unhappy", "cats", "\u200b", "ate"], ["a", "chef"], ["cats"] * 40]
    rows = rows_of_words(loaded.tokenizer, words, 24)
    assert rows[0][1].tolist() == [0, 1, 1, 2, 2, 4]  # the zero-width space leaves no token
    assert rows[2][1].tolist() == sorted([*range(11)] * 2)  # cut at the model's positions
    counts = [len(sentence) for sentence in words]
    states, present = hidden.word_vectors(loaded.encoder, rows, counts)
    assert states.shape == (3, 47, 32)
    assert np.flatnonzero(~present).tolist() == [3, *range(18, 47)]
    alone, _ = hidden.word_vectors(loaded.encoder, rows[1:2], [2])
    assert np.allclose(alone, states[:, 5:7], atol=1e-5)
    with torch.inference_mode():
        direct = hidden.hidden_states(loaded.encoder, torch.from_numpy(rows[0][0])[None])
    assert np.allclose(states[2, 0], direct[2][0, 1].numpy(), atol=1e-5)
    assert np.allclose(states[2, 1], direct[2][0, 2:4].mean(0).numpy(), atol=1e-5)


def test_models_of_different_vocabularies_are_compared_word_by_word(tmp_path: Path) -> None:
    models = [small.model(tmp_path, "one"), small.model(tmp_path, "two", extra="cats", layers=3)]
    treebank = tagged_sentences(small.write_treebank(tmp_path / "x.dev.conllu"))
    encoders = encoders_of(models, untrained=True)
    vectors, sentence = common_words(encoders, treebank, quiet)
    assert [states.shape[:2] for states in vectors] == [(3, 40), (4, 40), (3, 40)]
    assert encoders["untrained"].config == encoders["one"].config
    assert np.bincount(sentence).tolist() == [len(each.texts) for each in treebank]


def direct_unbiased(x: np.ndarray, y: np.ndarray) -> float:
    """Song et al. 2012, equation 4, from the kernel matrices."""
    n = len(x)
    k, m = x @ x.T, y @ y.T
    np.fill_diagonal(k, 0)
    np.fill_diagonal(m, 0)
    sums = k.sum() * m.sum() / ((n - 1) * (n - 2)) - 2 / (n - 2) * (k @ m).sum()
    return float((np.trace(k @ m) + sums) / (n * (n - 3)))


def test_cka_is_its_definition() -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(30, 7)) + 3, random.normal(size=(30, 4))
    y[:, 0] += x[:, 0]
    a, b = x - x.mean(0), y - y.mean(0)
    expected = direct_unbiased(a, b) / np.sqrt(direct_unbiased(a, a) * direct_unbiased(b, b))
    assert cka(x, y) == pytest.approx(expected, abs=1e-12)


def test_cka_of_known_inputs() -> None:
    random = np.random.default_rng(1)
    x = random.normal(size=(400, 20)) * np.linspace(0.2, 3, 20)
    rotated = x @ np.linalg.qr(random.normal(size=(20, 20)))[0]
    assert cka(x, x) == pytest.approx(1)
    assert cka(x, -5 * rotated + 2) == pytest.approx(1)
    assert cka(x, x * np.linspace(3, 0.2, 20)) < 0.95  # not every linear map
    # Few words and many features: unrelated all the same.
    unrelated = [(random.normal(size=(60, 300)), random.normal(size=(60, 300))) for _ in range(40)]
    assert abs(np.mean([cka(a, b) for a, b in unrelated])) < 0.01
    assert np.isnan(cka(x, np.ones((400, 3))))


def test_half_samples_have_the_width_of_the_sampling_distribution() -> None:
    random = np.random.default_rng(3)
    values, groups = random.normal(size=600), np.repeat(np.arange(300), 2)
    estimates = half_samples(lambda items: [values[items].mean(), 1.0], groups, resamples=400)
    assert estimates[0].value == pytest.approx(values.mean())
    assert estimates[0].low is not None and estimates[0].high is not None
    assert (estimates[0].high - estimates[0].low) / 2 == pytest.approx(1.96 / np.sqrt(600), rel=0.25)
    assert estimates[0].low < values.mean() < estimates[0].high
    assert (estimates[1].low, estimates[1].high) == (1, 1)


def ask(models: list[StudiedModel], data: Path) -> small.RenderedFindings:
    probe = analysis.create("layer_similarity", {"resamples": 5})
    return small.render(probe.run(models, probe.find([data]), quiet))


def test_encoders_of_different_depths_are_also_compared_at_their_last(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    models = [small.model(tmp_path, "one"), small.model(tmp_path, "two", seed=5, layers=3)]
    report = ask(models, data)
    treebank = tagged_sentences(data / "ud-toy/test.conllu")
    (first, second), _ = common_words(encoders_of(models, False), treebank, quiet)
    last = report.headline["CKA with two, last depth"]
    assert last.value == pytest.approx(cka(first[-1], second[-1]), abs=1e-6)
    (table,) = report.tables
    assert [row[0] for row in table.rows] == [0, 1, 2] and table.columns[1:] == ("two", "untrained")
    assert table.rows[1][1].value == pytest.approx(cka(first[1], second[1]), abs=1e-6)


def test_a_word_that_one_model_lacks_is_left_out_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    present = iter([np.arange(40) != 3, np.arange(40) != 5])
    monkeypatch.setattr(hidden, "word_vectors", lambda *_: (np.zeros((3, 40, 4), np.float32), next(present)))
    treebank = tagged_sentences(small.write_treebank(tmp_path / "x.dev.conllu"))
    encoders = encoders_of([small.model(tmp_path, "one"), small.model(tmp_path, "two")], False)
    vectors, sentence = common_words(encoders, treebank, quiet)
    of_word = np.repeat(np.arange(len(treebank)), [len(each.texts) for each in treebank])
    assert sentence.tolist() == np.delete(of_word, [3, 5]).tolist()
    assert [states.shape for states in vectors] == [(3, 38, 4)] * 2


def test_too_few_words_are_refused(tmp_path: Path) -> None:
    (tmp_path / "en-dev.conllu").write_text("1\tcat\tcat\tNOUN\t_\t_\t0\troot\t_\t_\n\n")
    models = [small.model(tmp_path, "one"), small.model(tmp_path, "two")]
    with pytest.raises(ProbeDataError):
        ask(models, tmp_path)
