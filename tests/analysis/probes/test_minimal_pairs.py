"""Minimal pairs: files, accuracy, ties, intervals; scorers that know nothing and all."""

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contracts import small
from scipy.stats import binomtest

from electra.foundation.errors import AbsentNetwork, ConfigError, ModelError
from electra.laboratory import analysis
from electra.laboratory.analysis.contract import Estimate, ProbeDataError, StudiedModel
from electra.laboratory.analysis.probes.minimal_pairs import (
    Accuracy,
    accuracy_of,
    mean_over_paradigms,
    read_minimal_pairs,
)
from electra.laboratory.analysis.scoring import scorers
from electra.laboratory.analysis.scoring.scorers import SCORERS

PAIRS = [(f"the cat eats {i} .", f"the cat eat {i} .") for i in range(30)]


def write(folder: Path, name: str, pairs: Sequence[tuple[str, str]], **fields: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"sentence_good": good, "sentence_bad": bad, **fields}) + "\n" for good, bad in pairs]
    path = folder / f"{name}.jsonl.gz"
    path.write_bytes(gzip.compress("".join(lines).encode()))
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name, term in (("agreement_1", "agreement"), ("agreement_2", "agreement"), ("island_1", "islands")):
        write(tmp_path / "blimp", name, PAIRS, linguistics_term=term)
    write(tmp_path / "babylm-supplement", "questions", PAIRS[:10])
    return tmp_path


class Letters:
    """A tokenizer of letters, whose tokens the length baseline counts."""

    def encode_corpus(self, texts: Sequence[str]) -> list[Any]:
        return [np.arange(len(text)) for text in texts]


class StubModel(StudiedModel):
    """A model with networks that need no loading."""

    def network(self, kind: str) -> Any:
        if kind not in self.loaded:
            raise AbsentNetwork(f"no {kind}")
        return self.loaded[kind]

    @property
    def tokenizer(self) -> Any:
        return Letters()


def knows(text: str) -> float:
    return float("eats" in text)


Ask = Callable[..., small.RenderedFindings]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Gives the probe's report when every scorer of a network gives `score(sentence)`."""

    def report(
        data: Path, score: Callable[[str], float], *networks: str, twin: str = "", **options: Any
    ) -> small.RenderedFindings:
        def scores(loaded: Any, texts: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
            assert len(set(texts)) == len(texts)  # equal texts are scored once
            return {name: np.array([score(text) for text in texts]) for name in names}

        of_kind = {
            n: [name for name in SCORERS if scorers.NETWORKS[SCORERS[name].reading] == n] for n in scorers.NETWORK_KINDS
        }
        monkeypatch.setattr(scorers, "sentence_scores", scores)
        monkeypatch.setattr(scorers, "scorers_for", of_kind.__getitem__)
        probe, shares = analysis.create("minimal_pairs", options), list[float]()
        loaded: Any = {kind: kind for kind in networks or ("discriminator",)}
        second: Any = [StubModel("twin", "twin", loaded={twin: twin})] if twin else []  # type: ignore[dict-item]
        models = [StubModel("toy", "toy", loaded=loaded), *second]
        findings = probe.run(models, probe.find([data]), lambda what, share: shares.append(share))
        assert shares and shares == sorted(shares)
        return small.render(findings)

    return report


def test_constant_perfect_and_opposite_scorers(data: Path, ask: Ask) -> None:
    constant = ask(data, lambda text: 7.0)
    assert constant.tables[0].rows[0][5] == 100  # ties: 3 * 30 + 10
    for estimate in constant.headline.values():
        assert estimate.low is not None and estimate.high is not None
        assert estimate.value == 0.5 and estimate.low < 0.5 < estimate.high
    perfect = ask(data, knows, "discriminator", "generator")
    names = {tuple(name.split(": ")) for name in perfect.headline}
    sums = ("original", "odds", "pll", "unmasked")
    assert names == {(folder, name) for folder in ("blimp", "babylm-supplement") for name in sums}
    assert {estimate.value for estimate in perfect.headline.values()} == {1.0}
    values = {row[1]: row[3].value for row in perfect.tables[0].rows if row[1] != "shorter"}
    assert values == dict.fromkeys(SCORERS, 1.0)
    assert {each.value for each in ask(data, lambda text: -knows(text)).headline.values()} == {0.0}


def test_phenomena_paradigms_and_limit(data: Path, ask: Ask) -> None:
    report = ask(data, knows, limit=5)
    overall, phenomena, paradigms = report.tables
    assert [row[0] for row in phenomena.rows] == ["agreement", "islands", "babylm-supplement"]
    names = ["agreement_1", "agreement_2", "island_1", "questions"]
    pairs = paradigms.columns.index("pairs")
    assert [(row[0], row[pairs]) for row in paradigms.rows] == [(name, 5) for name in names]
    by_scorer = {row[1]: row for row in overall.rows}
    # the good sentence has one letter more in every pair: the baseline that prefers the shorter one fails
    assert by_scorer["original"][3].value == 1.0 and by_scorer["shorter"][3].value == 0.0
    assert "15 pairs" in report.notes[0]
    json.dumps(report.json, allow_nan=False)


def test_each_model_is_scored_with_its_own_networks(data: Path, ask: Ask) -> None:
    report = ask(data, knows, "discriminator", twin="generator")
    kinds = {"toy": "discriminator", "twin": "generator"}
    expected = [
        (model, name)
        for model, kind in kinds.items()
        for name in (*SCORERS, "shorter")
        if name == "shorter" or scorers.NETWORKS[SCORERS[name].reading] == kind
    ]
    assert [(row[0], row[1]) for row in report.tables[0].rows] == expected
    assert report.tables[1].columns[1:] == tuple(f"{model}: {name}" for model, name in expected)
    assert {name.split(": ")[1] for name in report.headline} == {"original", "odds"}  # the first model's


def test_rows_are_read_unchanged_and_equal_sentences_left_out(tmp_path: Path) -> None:
    pairs = [("a b", "b a"), ("same", "same"), ("c d", "d c"), ("e f", "f e")]
    paradigm = read_minimal_pairs(write(tmp_path, "p", pairs, linguistics_term="order"), limit=2)
    assert (paradigm.good, paradigm.bad) == (("a b", "c d"), ("b a", "d c"))
    assert (paradigm.name, paradigm.phenomenon, paradigm.num_equal) == ("p", "order", 1)


def test_missing_data_networks_and_scorers_are_refused(tmp_path: Path, data: Path, ask: Ask) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ProbeDataError):
        ask(tmp_path / "empty", len)
    probe = analysis.create("minimal_pairs")
    with pytest.raises(ModelError):
        probe.run([StubModel("bare", "bare")], probe.find([data]), lambda what, share: None)
    with pytest.raises(ConfigError) as no_network:
        ask(data, len, "generator", scorers=("original",))
    assert "toy" in no_network.value.what and "pll" in no_network.value.fix
    with pytest.raises(ConfigError) as unknown:
        analysis.create("minimal_pairs", {"scorers": ["plll"]})
    assert "'pll'" in unknown.value.fix


def test_files_with_the_same_name_get_distinct_names(tmp_path: Path, ask: Ask) -> None:
    for language in ("en", "de"):
        write(tmp_path / language / "minimal-pairs", "agreement", PAIRS[:9])
    names = [row[0] for row in ask(tmp_path, len).tables[2].rows]
    assert sorted(names) == ["de/minimal-pairs/agreement", "en/minimal-pairs/agreement"]


def test_differences_below_the_precision_of_scores_are_ties() -> None:
    accuracy = accuracy_of(np.array([1.0, -5e-6, -0.1, 0.1]))
    assert accuracy == Accuracy(wins=2, ties=1, pairs=4) and accuracy.value == 0.625


@pytest.mark.parametrize(("wins", "pairs"), [(0, 20), (7, 20), (20, 20), (531, 1000)])
def test_the_interval_is_wilsons(wins: int, pairs: int) -> None:
    expected = binomtest(wins, pairs).proportion_ci(method="wilson")
    assert Accuracy(wins, 0, pairs).interval() == pytest.approx((expected.low, expected.high))
    single = mean_over_paradigms([Accuracy(wins, 0, pairs)])
    ends = pytest.approx(expected.low), pytest.approx(expected.high)
    assert single == Estimate(pytest.approx(wins / pairs), *ends)  # type: ignore[arg-type]


def test_the_interval_of_a_mean_covers() -> None:
    """Of means over five paradigms of 40 pairs, about 95 % of the intervals hold the truth."""
    draw, truth, held = np.random.default_rng(5), np.array([0.5, 0.6, 0.75, 0.9, 0.97]), 0
    for _ in range(1000):
        estimate = mean_over_paradigms([Accuracy(int(wins), 0, 40) for wins in draw.binomial(40, truth)])
        assert estimate.low is not None and estimate.high is not None
        held += estimate.low <= truth.mean() <= estimate.high
    assert 930 <= held <= 975
