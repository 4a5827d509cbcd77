"""Texts of probes: replaced tokens, held-out rows, learners' sentences; what networks say of them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from contracts import small

from electra.data.corpus.store_builder import build_store
from electra.data.text_settings import CorpusConfig, TokenizerConfig
from electra.foundation.errors import DataError
from electra.laboratory.analysis import texts
from electra.laboratory.analysis.contract import ProbeDataError
from electra.laboratory.analysis.scoring import token_rows
from electra.laboratory.analysis.scoring.scorers import word_ids, word_suspicion


def rows_of(count: int = 6) -> list[token_rows.Ints]:
    draw = np.random.default_rng(0)
    return [draw.integers(5, 20, size=int(draw.integers(3, 20))) for _ in range(count)]


def test_a_generators_replacements_follow_the_papers_rule(tmp_path: Path) -> None:
    generator, rows = small.network(tmp_path, "generator"), rows_of(20)
    made = token_rows.by_generator(generator, rows, seed=3)
    for row, new, replaced, advantage in zip(rows, made.rows, made.replaced, made.advantage, strict=True):
        chosen = np.isfinite(advantage)
        assert (replaced == (row != new)).all() and not (replaced & ~chosen).any()
        assert chosen.sum() == max(1, round(0.15 * len(row)))
        # guessed right: no better, no worse
        assert advantage[chosen & ~replaced] == pytest.approx(0, abs=1e-6)
    again = token_rows.by_generator(generator, rows, seed=3)
    assert all((a == b).all() for a, b in zip(made.rows, again.rows, strict=True))
    other = token_rows.by_generator(generator, rows, seed=4)
    pairs = zip(made.advantage, other.advantage, strict=True)
    assert any((np.isnan(a) != np.isnan(b)).any() for a, b in pairs)


def test_predictions_are_the_generators_own(tmp_path: Path) -> None:
    generator = small.network(tmp_path, "generator")
    row = np.array([7, 9, 11, 8])
    shown, chosen = np.array([7, 4, 11, 8]), np.array([False, True, False, True])
    [(sampled, log_sampled, log_truth)] = token_rows.predict(generator, [row], [shown], [chosen])
    specials = generator.tokenizer.specials
    logits = generator.logits(torch.tensor([[specials.cls, *shown, specials.sep]]))[0, 1:-1]
    log_p = logits.detach().log_softmax(-1).numpy()[[1, 3]]
    assert log_truth == pytest.approx(log_p[[0, 1], row[[1, 3]]], abs=1e-5)
    assert log_sampled == pytest.approx(log_p[[0, 1], sampled], abs=1e-5)


def test_draws_by_frequency() -> None:
    rows = [np.full(100, 5) for _ in range(40)]
    frequency = np.array([0, 0, 1.0, 0, 3.0, 0])
    made = token_rows.by_frequency(rows, frequency, fraction=0.5)
    assert [mask.sum() for mask in made.replaced] == [50] * 40
    new = np.concatenate([row[mask] for row, mask in zip(made.rows, made.replaced, strict=True)])
    assert set(new) == {2, 4} and (new == 4).mean() == pytest.approx(0.75, abs=0.04)


def test_a_words_suspicion_is_that_of_its_most_suspicious_token(tmp_path: Path) -> None:
    discriminator = small.network(tmp_path)
    assert word_ids(discriminator.tokenizer, ["unhappy", "cats", "cooked"]).tolist() == [0, 0, 1, 1, 2, 2]
    values = word_suspicion(discriminator, [["the", "unhappy", "\u200b", "cat"], ["cats"]], "odds")
    ids = np.asarray(discriminator.tokenizer.encode("the unhappy cat").ids[1:-1])
    odds = token_rows.log_odds(discriminator, [ids])[0]
    assert values[0][[0, 1, 3]] == pytest.approx([odds[0], max(odds[1:3]), odds[3]], abs=1e-5)
    assert np.isnan(values[0][2]) and len(values[1]) == 1  # a word without tokens


def test_held_out_text_from_a_store_and_from_files(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    line = "the old cat {} ate that new meal and the chefs like it . it is good now ."
    corpus.write_text("\n".join(map(line.format, range(60))))
    made = TokenizerConfig(vocab_size=80), tmp_path / "store"
    build_store([str(corpus)], *made, config=CorpusConfig(unit="line", heldout=0.5), workers=1)
    tokenizer = small.tokenizer(tmp_path)
    rows = texts.held_out_rows(tokenizer, [corpus], length=10, count=7)
    assert len(rows) == 7 and all(8 <= len(row) <= 10 for row in rows)
    with pytest.raises(ProbeDataError):
        texts.held_out_rows(tokenizer, [tmp_path / "store" / "store.json"], length=10, count=7)
    from electra.data.corpus.store import TokenStore

    store = TokenStore.open(tmp_path / "store")
    rows = texts.held_out_rows(store.tokenizer, [tmp_path / "store" / "store.json"], length=10, count=4)
    assert (rows[0] == np.asarray(store.heldout.document(0))[:10]).all()
    (tmp_path / "empty.txt").write_text("a\n")
    with pytest.raises(ProbeDataError) as caught:
        texts.held_out_rows(tokenizer, [tmp_path / "empty.txt"], length=10, count=4)
    assert caught.value.where.endswith("empty.txt")


def test_learner_files_escape_quotation_marks(tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text('He\tc\nsay\ti\n\\"\tc\n\nYes\tc\n')
    sentences = texts.read_learners(tmp_path / "dev.tsv")
    assert len(sentences) == 2
    assert (sentences[0].texts, sentences[0].gold) == (("He", "say", '"'), ("c", "i", "c"))
    (tmp_path / "dev.tsv").write_text("What\tPRON\nnow\tADV\n")
    with pytest.raises(ProbeDataError):
        texts.read_learners(tmp_path / "dev.tsv")
    (tmp_path / "dev.tsv").write_text("He\n")
    with pytest.raises(DataError) as caught:
        texts.read_learners(tmp_path / "dev.tsv")
    assert "dev.tsv:1" in str(caught.value)
