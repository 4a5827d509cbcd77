"""Correlations against scipy, the threshold against a search, and the probe with scorers that know nothing or
all.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression
from sklearn.metrics import matthews_corrcoef

from electra.finetuning.labelled.sentence_pairs import read_cola
from electra.foundation.errors import DataError
from electra.laboratory import analysis
from electra.laboratory.analysis.contract import Estimate
from electra.laboratory.analysis.measures import correlation
from electra.laboratory.analysis.probes import acceptability
from electra.laboratory.analysis.scoring import across_models
from electra.testing import small


def numbers(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    length = random.integers(3, 12, 80).astype(float)
    score = -length + random.normal(size=80)
    return (
        score,
        (random.random(80) < 1 / (1 + np.exp(length - 7))).astype(int),
        length,
        random.integers(0, 4, 80),
    )


def test_correlations_are_scipys_and_weights_are_repetitions() -> None:
    score, label, length, weights = numbers()
    assert correlation.pearson(score, label) == pytest.approx(stats.pointbiserialr(label, score).statistic)
    assert correlation.spearman(score, length) == pytest.approx(
        stats.spearmanr(score, length).statistic
    )  # lengths tie
    again = np.repeat(np.arange(80), weights)
    for measure in (correlation.pearson, correlation.spearman):
        assert measure(score, length, weights) == pytest.approx(measure(score[again], length[again]))
    assert correlation.partial(score, label, length, weights) == pytest.approx(
        correlation.partial(score[again], label[again], length[again])
    )
    assert np.isnan(correlation.pearson(score, np.ones(80)))
    assert np.isnan(correlation.pearson(score, label, np.zeros(80)))


def test_partial_correlation_is_that_of_residuals() -> None:
    score, label, length, _ = numbers()
    rest = [
        values - LinearRegression().fit(length[:, None], values).predict(length[:, None])
        for values in (score, label)
    ]
    assert correlation.partial(score, label, length) == pytest.approx(stats.pearsonr(*rest).statistic)
    assert correlation.partial(score, label, np.ones(80)) == correlation.pearson(score, label)
    assert np.isnan(correlation.partial(length, label, length))
    # A score that is nothing but length: strong as it is, nothing without.
    noisy = -length + np.random.default_rng(1).normal(size=80) * 0.5
    assert correlation.pearson(noisy, label) > 0.4
    assert abs(correlation.partial(noisy, label, length)) < 0.25


def test_the_threshold_has_the_highest_matthews_correlation() -> None:
    score, label, _, _ = numbers()
    threshold = acceptability.best_threshold(score, label)
    best = max(matthews_corrcoef(label, score >= threshold) for threshold in score)
    assert matthews_corrcoef(label, score >= threshold) == pytest.approx(best)
    assert correlation.matthews(10, 0, 0, 0) == 0  # all called alike
    assert correlation.matthews(3, 1, 2, 6) == pytest.approx(
        matthews_corrcoef([1] * 3 + [0] + [1] * 2 + [0] * 6, [1] * 4 + [0] * 8)
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "cola").mkdir()
    good, bad = (
        ["the cat ate", "a chef cooked the meal", "old cats like that"],
        ["cat the ate", "chef a cooked meal", "that cats"],
    )
    rows = [
        f"x\t{label}\t{'' if label else '*'}\t{text}{' .' * i}"
        for i in range(8)
        for label, text in [*((1, t) for t in good), *((0, t) for t in bad)]
    ]
    for name in ("train", "dev"):
        (tmp_path / "cola" / f"{name}.tsv").write_text("\n".join(rows))
    return tmp_path


def ask(data: Path, folder: Path, **options: Any) -> small.RenderedFindings:
    probe = analysis.create("acceptability", {"resamples": 50, **options})
    return small.render(probe.run([small.model(folder)], probe.find([data]), lambda *_: None))


def measures(report: small.RenderedFindings, name: str) -> dict[str, Estimate]:
    row = next(row for row in report.tables[0].rows if row[0] == name)
    return dict(zip(acceptability.MEASURES, row[1:], strict=True))  # type: ignore[arg-type]


def test_perfect_random_and_length_scorers(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scores(_: Any, texts: Sequence[str], scorers: Sequence[str], progress: Any) -> dict[str, Any]:
        known = {
            "original": lambda text: float(text.startswith(("the", "a ", "old"))),
            "odds": lambda _: 1.0,
            "margin": lambda text: -float(len(text.split())),
        }
        return {name: np.array([known[name](text) for text in texts]) for name in scorers}

    monkeypatch.setattr(across_models, "sentence_scores", scores)
    report = ask(data, tmp_path, scorers=["original", "odds", "margin"])
    knows, constant, length = (measures(report, f"one: {name}") for name in ("original", "odds", "margin"))
    assert [
        knows[key].value for key in ("AUC", "Matthews", "point-biserial", "Spearman", "partial")
    ] == pytest.approx([1.0] * 5)
    assert constant["AUC"].value == 0.5 and constant["Matthews"].value == 0.0
    assert constant["point-biserial"].value is None  # not defined, and said so
    assert length["with length"].value is not None and length["with length"].value < -0.9
    assert report.headline["AUC, one: original"] == knows["AUC"]


def test_random_labels_give_chance(tmp_path: Path, data: Path) -> None:
    random = np.random.default_rng(3)
    path = data / "cola" / "dev.tsv"
    texts = [line.split("\t")[3] for line in path.read_text().splitlines()] * 6
    path.write_text(
        "\n".join(
            f"x\t{label}\t\t{text}"
            for text, label in zip(texts, random.integers(0, 2, len(texts)), strict=True)
        )
    )
    auc = measures(ask(data, tmp_path, scorers=["original", "pll-mean"]), "one: pll-mean")["AUC"]
    assert auc.low is not None and auc.high is not None
    assert auc.low < 0.5 < auc.high


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        ("x\tyes\t\tthe cat\n", "'yes'"),
        ("x\t1\tthe cat\n", "3"),
        ("x\t1\t\tthe cat\n", ""),
        ("\n\n", ""),
    ],
)
def test_an_invalid_file_is_named(tmp_path: Path, content: str, fact: str) -> None:
    (tmp_path / "dev.tsv").write_text(content)
    with pytest.raises(DataError) as caught:
        read_cola(tmp_path / "dev.tsv")
    assert "dev.tsv" in caught.value.where and fact in caught.value.what
