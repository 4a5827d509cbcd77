"""A probe's record in one sentence: the number, its floor, and on which side of it the interval lies."""

from __future__ import annotations

from typing import Any

import pytest

from electra.pages.verdicts import verdict


def record(probe: str, value: float, low: float, high: float) -> dict[str, Any]:
    """Depths 0 and 1 of a model and of random initialization, beside chance."""
    series = [
        ("ours", [0.4, value], "line"),
        ("untrained", [0.62, 0.3], "line"),
        ("another model", [0.9, 0.9], "line"),
        ("chance", [0.5, 0.5], "reference"),
    ]
    return {
        "probe": probe,
        "models": [{"name": "ours"}],
        "headline": {"accuracy, last depth": {"value": value, "low": low, "high": high}},
        "tables": [],
        "figures": [
            {"series": [{"label": a, "x": [0, 1], "y": list(b), "style": style} for a, b, style in series]}
        ],
    }


@pytest.mark.parametrize(
    ("ends", "standing", "words"),
    [
        ((0.55, 0.7), "above", "above the baseline of 0.500 (chance)"),
        ((0.45, 0.7), "not above", "not above the baseline of 0.500 (chance)"),
    ],
)
def test_a_number_is_above_its_baseline_if_its_whole_interval_is(
    ends: tuple[float, float], standing: str, words: str
) -> None:
    result = verdict(record("probe", 0.6, *ends))
    assert result is not None and result.standing == standing
    assert result.sentence.startswith("Accuracy, last depth: 0.600 [") and words in result.sentence


def test_a_number_below_its_baseline_is_named_so() -> None:
    result = verdict(record("probe", 0.42, 0.4, 0.45))
    assert (
        result is not None and result.standing == "below" and "below the baseline of 0.500" in result.sentence
    )


def test_a_number_chosen_among_depths_has_a_baseline_chosen_among_depths() -> None:
    chosen = record("probe", 0.61, 0.6, 0.615)
    chosen["headline"] = {"accuracy, best depth": chosen["headline"]["accuracy, last depth"]}
    result = verdict(chosen)
    assert (
        result is not None
        and result.standing == "below"
        and "0.620 (random initialization)" in result.sentence
    )


def test_rules_in_a_table_are_baselines() -> None:
    table_record = record("probe", 0.6, 0.58, 0.62)
    (estimate,) = table_record["headline"].values()
    rows = [["ours", 1, estimate], ["word overlap", 1, 0.7], ["another model", 1, 0.9]]
    result = verdict({**table_record, "figures": [], "tables": [{"rows": rows}]})
    assert result is not None and "below the baseline of 0.700 (word overlap)" in result.sentence


def test_descriptive_probes_have_no_standing_and_without_a_baseline_there_is_no_claim() -> None:
    described = verdict(record("geometry", 0.6, 0.5, 0.7))
    assert (
        described is not None
        and described.standing == ""
        and "0.300 for random initialization" in described.sentence
    )
    bare = verdict({**record("probe", 0.6, 0.5, 0.7), "figures": []})
    assert bare is not None and bare.standing == "" and "No baseline" in bare.sentence
    assert verdict({**record("probe", 0.6, 0.5, 0.7), "headline": {}}) is None
