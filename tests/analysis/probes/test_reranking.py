"""Word errors against jiwer; tuning and judging on lists whose answer is known; the probe on a toy."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contracts import small
from hypothesis import given, settings
from hypothesis import strategies as st

from electra.foundation.errors import DataError
from electra.laboratory import analysis
from electra.laboratory.analysis.contract import StudiedModel
from electra.laboratory.analysis.measures import nbest
from electra.laboratory.analysis.measures.bootstrap import halves
from electra.laboratory.analysis.probes import reranking
from electra.laboratory.analysis.scoring import scorers

TEXTS = st.lists(st.sampled_from("abcd"), max_size=7)


@settings(deadline=None)
@given(TEXTS.filter(bool), st.lists(TEXTS, min_size=1, max_size=5))
def test_word_errors_are_jiwers(reference: list[str], hypotheses: list[list[str]]) -> None:
    jiwer = pytest.importorskip("jiwer")
    expected = []
    for hypothesis in hypotheses:
        measures = jiwer.process_words(" ".join(reference), " ".join(hypothesis))
        expected.append(measures.substitutions + measures.deletions + measures.insertions)
    assert nbest.word_errors(reference, hypotheses).tolist() == expected


def made_up(count: int = 60, seed: int = 0) -> tuple[nbest.NBestLists, np.ndarray]:
    """Lists of 2 to 6 hypotheses with 0 to 4 errors, and an acoustic score that knows a little of them."""
    random = np.random.default_rng(seed)
    sizes = random.integers(2, 7, count)
    errors = [random.integers(0, 5, size) for size in sizes]
    acoustic = nbest.pad([-row + random.normal(size=len(row)) * 2 for row in errors])
    present = nbest.pad([np.ones(size) for size in sizes]) > 0
    words = nbest.pad([random.integers(8, 12, size) for size in sizes]).astype(np.int64)
    return nbest.NBestLists(nbest.pad(errors).astype(np.int64), words, np.full(count, 10), present), acoustic


def test_perfect_constant_and_random_scores() -> None:
    lists, acoustic = made_up(400)
    oracle = lists.oracle_errors().sum()
    chance = (np.where(lists.present, lists.errors, 0).sum(1) / lists.present.sum(1)).sum()
    base = nbest.cross_validated_errors(lists, acoustic, None)[0].sum()
    perfect, weights = nbest.cross_validated_errors(lists, acoustic, -lists.errors.astype(float))
    assert lists.chosen_errors(-lists.errors.astype(float)).sum() == oracle  # alone
    # tuned: the grid's largest weight drowns the recogniser nearly
    assert oracle <= perfect.sum() < oracle + 0.3 * (base - oracle)
    assert min(weight.score for weight in weights) > 0
    constant = np.full(acoustic.shape, 3.0)
    # equal scores say nothing: not "the first"
    assert lists.chosen_errors(constant).sum() == pytest.approx(chance)
    assert nbest.cross_validated_errors(lists, acoustic, constant)[0].sum() == base
    noise = np.random.default_rng(9).normal(size=acoustic.shape)
    assert lists.chosen_errors(noise).sum() == pytest.approx(chance, rel=0.1)
    assert nbest.cross_validated_errors(lists, acoustic, noise)[0].sum() == pytest.approx(base, rel=0.1)


def test_the_test_half_does_not_influence_the_tuning() -> None:
    lists, acoustic = made_up()
    first = halves(np.arange(60))
    score = np.random.default_rng(5).normal(size=acoustic.shape) - lists.errors
    weights = nbest.tune(lists, acoustic, score, first)
    spoilt = replace(lists, errors=np.where(first[:, None], lists.errors, 7 - lists.errors))
    assert nbest.tune(spoilt, acoustic, np.where(first[:, None], score, -score), first) == weights
    assert 20 <= first.sum() <= 40
    # Each utterance is scored with the weights of the half it is not in.
    errors, tuned = nbest.cross_validated_errors(lists, acoustic, score)
    by_first, by_second = (
        lists.chosen_errors(acoustic + weight.score * score + weight.word_bonus * lists.words) for weight in tuned
    )
    assert tuned[0] == weights
    assert errors.tolist() == np.where(first, by_second, by_first).tolist()


def test_the_recognisers_weights_are_recovered() -> None:
    random = np.random.default_rng(1)
    decoder, ctc, lm = random.normal(size=(3, 50))
    total = 0.6 * decoder + 0.4 * ctc + 0.5 * lm
    mix = nbest.recogniser_weights({"decoder": decoder, "ctc": ctc, "lm": lm, "score": total})
    assert mix == pytest.approx({"decoder": 0.6, "ctc": 0.4, "lm": 0.5})


UTTERANCES = [
    ("THE CAT ATE", ["THE CATS ATE", "THE CAT ATE", "CAT ATE"]),
    ("A CHEF COOKED", ["A CHEF COOKED", "THE CHEF COOKED"]),
    ("LIKE THAT MEAL", ["LIKE A MEAL", "LIKE THAT MEAL", "LIKED THAT"]),
    ("OLD CATS", ["OLD CAT", "OLD CATS"]),
]


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    lines = []
    for number, (reference, texts) in enumerate(UTTERANCES * 3):
        hyps = [
            {"text": text, "decoder": -i - 0.5, "ctc": -i * 1.5, "lm": -i * 0.1, "score": -1.3 * i}
            for i, text in enumerate(texts)
        ]
        lines.append(json.dumps({"id": str(number), "ref": reference, "hyps": hyps}))
    (tmp_path / "my-nbest.jsonl").write_text("\n".join(lines))
    return tmp_path


def ask(models: Sequence[StudiedModel], data: Path, **options: Any) -> small.RenderedFindings:
    probe = analysis.create("reranking", {"resamples": 20, **options})
    return small.render(probe.run(models, probe.find([data]), lambda *_: None))


def row(report: small.RenderedFindings, name: str) -> list[Any]:
    return next(list(row) for row in report.tables[0].rows if row[0] == name)


def test_a_perfect_score_reaches_the_oracle_and_a_constant_one_gains_nothing(
    tmp_path: Path, lists: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = {reference.lower() for reference, _ in UTTERANCES}

    def scores(_: Any, texts: Sequence[str], scorers: Sequence[str]) -> dict[str, Any]:
        right = np.array([float(text in truth) for text in texts])
        return {name: right if name == "original" else np.zeros(len(texts)) for name in scorers}

    monkeypatch.setattr(scorers, "sentence_scores", scores)
    report = ask([small.model(tmp_path)], lists, scorers=["original", "odds"])
    assert row(report, "one: original")[1].value == row(report, reranking.ORACLE)[1].value == 0.0
    assert row(report, "one: odds")[2].value == 0.0
    assert report.headline["WER gained, one: original"].value == row(report, reranking.BONUS)[1].value > 0
    ours = ask([small.model(tmp_path)], lists, scorers=["original"], lowercase=False)
    assert row(ours, "one: original")[1].value > 0  # capitals are what the stand-in does not know


def test_gains_are_measured_against_the_recognisers_own_weights_and_bonus(tmp_path: Path) -> None:
    """The sum of the columns would choose the worst; the recogniser's weights prefer a word too few."""
    random, lines = np.random.default_rng(0), []
    for number in range(12):
        hyps = []
        for text, decoder, ctc in (("A", -1.0, 0.0), ("A B", -1.2, 0.0), ("C D E", -5.0, 30.0)):
            parts = {"decoder": decoder, "ctc": ctc + random.normal(), "lm": random.normal()}
            total = parts["decoder"] + 0.01 * parts["ctc"] + 0.5 * parts["lm"]
            hyps.append({"text": text, **parts, "score": total})
        lines.append(json.dumps({"id": str(number), "ref": "A B", "hyps": hyps}))
    (tmp_path / "nbest.jsonl").write_text("\n".join(lines))
    report = ask([small.model(tmp_path)], tmp_path, scorers=["original"])
    names = (reranking.FIRST, reranking.BONUS, reranking.ORACLE)
    assert [row(report, name)[1].value for name in names] == [50.0, 0.0, 0.0]
    assert row(report, reranking.FIRST)[2].value == -50.0
    first = ask([small.model(tmp_path)], tmp_path, scorers=["original"], hypotheses=1)
    assert row(first, reranking.ORACLE)[1].value == 50.0


def test_other_scores_and_none_of_the_recogniser_are_refused(tmp_path: Path, lists: Path) -> None:
    [line] = (lists / "my-nbest.jsonl").read_text().splitlines()[:1]
    (lists / "other-nbest.jsonl").write_text(line.replace('"ctc"', '"am"'))
    with pytest.raises(DataError) as caught:
        ask([], lists)
    assert "scores" in caught.value.what
    (tmp_path / "only").mkdir()
    hyps = {"ref": "A", "hyps": [{"text": "A", "lm": 1}]}
    (tmp_path / "only" / "nbest.jsonl").write_text(json.dumps(hyps))
    with pytest.raises(DataError):
        ask([small.model(tmp_path)], tmp_path / "only")
