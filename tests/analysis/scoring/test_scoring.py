"""Sentence scores against a naive loop over single rows."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
import torch
from contracts import small
from torch.nn import functional as F

from electra.exchange.load import Loaded
from electra.foundation.errors import ConfigError, ModelError
from electra.inference.detection import overlapping_windows
from electra.laboratory.analysis.scoring import scorers, token_rows
from electra.laboratory.analysis.scoring.scorers import SCORERS, scorers_for, sentence_scores, token_scores
from electra.model import passes

TEXTS = (
    "the chef cooked the meal.",
    "unhappy, the cat ate the chefs",
    "",
    "unhappy unhappy cooked meals?",
    "cat",
    "the old cat ate a new meal, the new cat ate the old chef.",
)
LONG = "the chef cooked a meal, unhappy. " * 6  # longer than the toy's positions


def naive(loaded: Loaded, text: str, reading: str) -> list[float]:
    """One row at a time, all logits, in double where it matters."""
    encoding = loaded.tokenizer.encode(text)
    specials = loaded.tokenizer.specials
    ids = encoding.ids[1:-1]
    values: list[float] = []
    size = loaded.config.max_positions - 2
    for start, stop, keep_from, keep_to in overlapping_windows(len(ids), size):
        for token in range(keep_from, keep_to):
            row = [specials.cls, *ids[start:stop], specials.sep]
            place = token - start + 1
            if reading == "masked":
                row[place] = specials.mask
            with torch.inference_mode():
                logits = loaded.logits(torch.tensor([row]))[0, place].double()
            if reading == "original":
                values.append(float(torch.log(1 - logits.sigmoid())))
            elif reading == "odds":
                values.append(float(-logits))
            else:
                values.append(float(F.log_softmax(logits, -1)[ids[token]]))
    return values


@pytest.mark.parametrize("architecture", ["electra", "modern"])
@pytest.mark.parametrize("reading", list(scorers.NETWORKS))
def test_each_reading_equals_a_naive_loop_over_single_rows(
    reading: scorers.Reading, architecture: str, tmp_path: Path
) -> None:
    loaded = small.network(tmp_path, scorers.NETWORKS[reading], architecture)
    texts = [*TEXTS, LONG]
    together = token_scores(loaded, texts, reading)
    for text, values in zip(texts, together, strict=True):
        np.testing.assert_allclose(values, naive(loaded, text, reading), atol=1e-5)
        np.testing.assert_allclose(values, token_scores(loaded, [text], reading)[0], atol=1e-5)


@pytest.mark.parametrize("reading", [name for name, network in scorers.NETWORKS.items() if network == "generator"])
def test_padding_rows_of_the_vocabulary_have_no_probability(reading: scorers.Reading, tmp_path: Path) -> None:
    loaded = small.network(tmp_path, "generator", more_rows=7)
    assert loaded.head is not None
    scores = []
    for bias in (-1000.0, 1000.0):
        with torch.no_grad():
            loaded.head.bias[-7:] = bias
        scores.append(token_scores(loaded, TEXTS, reading))
    for without, beside in zip(*scores, strict=True):
        np.testing.assert_allclose(beside, without, atol=1e-6)


def test_small_batches_and_parts_of_the_vocabulary_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = small.network(tmp_path, "generator")
    texts, names = [*TEXTS, LONG], scorers_for(loaded)
    whole = sentence_scores(loaded, texts, names)
    monkeypatch.setattr(passes, "positions_per_batch", lambda device: 30)
    monkeypatch.setattr(token_rows, "LOGITS_AT_ONCE", 50)
    order = np.random.default_rng(1).permutation(len(texts))
    shuffled = sentence_scores(loaded, [texts[i] for i in order], names)
    for name in names:
        np.testing.assert_allclose(shuffled[name], whole[name][order], atol=1e-5, rtol=1e-6)


def test_scorers_are_the_sums_means_and_minima_of_their_readings(tmp_path: Path) -> None:
    reductions: dict[str, Callable[[list[float]], float]] = {"sum": sum, "mean": fmean, "min": min}
    for kind in ("discriminator", "generator"):
        loaded = small.network(tmp_path, kind)  # type: ignore[arg-type]
        by_scorer = sentence_scores(loaded, TEXTS, scorers_for(loaded))
        usable = [name for name, scorer in SCORERS.items() if scorers.NETWORKS[scorer.reading] == kind]
        assert list(by_scorer) == usable
        for name, scores in by_scorer.items():
            for text, score in zip(TEXTS, scores, strict=True):
                values = naive(loaded, text, SCORERS[name].reading)
                expected = reductions[SCORERS[name].reduction](values) if values else 0.0
                assert score == pytest.approx(expected, abs=1e-4), (name, text)


def test_a_wrong_network_and_an_unknown_scorer_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        token_scores(small.network(tmp_path, "discriminator"), ["a cat"], "masked")
    with pytest.raises(ConfigError) as caught:
        sentence_scores(small.network(tmp_path, "generator"), ["a cat"], ["pl"])
    assert "'pll'" in caught.value.fix


def test_an_electric_networks_energies_have_odds_but_no_probability(tmp_path: Path) -> None:
    electric = replace(small.network(tmp_path, "discriminator"), output="energy")
    assert scorers_for(electric) == ["odds", "odds-mean", "margin"]
    row = torch.tensor([electric.tokenizer.encode("a cat ate .").ids])
    energies = electric.logits(row)[0, 1:-1].detach().double().sum()
    [odds] = sentence_scores(electric, ["a cat ate ."], ["odds"])["odds"]
    assert odds == pytest.approx(-float(energies), abs=1e-5)
    with pytest.raises(ModelError) as caught:
        sentence_scores(electric, ["a cat"], ["original"])
    assert "odds, odds-mean, margin" in caught.value.fix
