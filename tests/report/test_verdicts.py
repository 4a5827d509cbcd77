"""A probe's record in one sentence: the number, its floor, and on which side of it the interval lies."""

from __future__ import annotations

from typing import Any

import pytest

from electra.pages.verdicts import verdict


def record(probe: str, value: float, low: float, high: float) -> dict[str, Any]:
    """Depths 0 and 1 of a model and of fresh weights, beside chance."""
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
        ((0.55, 0.7), "above", "above the floor of 0.500 (chance)"),
        ((0.45, 0.7), "not above", "not above the floor of 0.500 (chance)"),
    ],
)
def test_a_number_is_above_its_floor_when_its_whole_interval_is(
    ends: tuple[float, float], standing: str, words: str
) -> None:
    found = verdict(record("probe", 0.6, *ends))
    assert found is not None and found.standing == standing
    assert found.sentence.startswith("Accuracy, last depth: 0.600 [") and words in found.sentence


def test_below_is_said_too() -> None:
    found = verdict(record("probe", 0.42, 0.4, 0.45))
    assert found is not None and found.standing == "below" and "below the floor of 0.500" in found.sentence


def test_what_was_chosen_among_depths_has_a_floor_that_chooses_too() -> None:
    chosen = record("probe", 0.61, 0.6, 0.615)
    chosen["headline"] = {"accuracy, best depth": chosen["headline"]["accuracy, last depth"]}
    found = verdict(chosen)
    assert found is not None and found.standing == "below" and "0.620 (fresh weights)" in found.sentence


def test_rules_of_a_table_are_floors() -> None:
    judged = record("probe", 0.6, 0.58, 0.62)
    (estimate,) = judged["headline"].values()
    rows = [["ours", 1, estimate], ["word overlap", 1, 0.7], ["another model", 1, 0.9]]
    found = verdict({**judged, "figures": [], "tables": [{"rows": rows}]})
    assert found is not None and "below the floor of 0.700 (word overlap)" in found.sentence


def test_what_only_describes_is_not_judged_and_no_floor_is_no_claim() -> None:
    described = verdict(record("geometry", 0.6, 0.5, 0.7))
    assert (
        described is not None and described.standing == "" and "0.300 for fresh weights" in described.sentence
    )
    bare = verdict({**record("probe", 0.6, 0.5, 0.7), "figures": []})
    assert bare is not None and bare.standing == "" and "holds no floor" in bare.sentence
    assert verdict({**record("probe", 0.6, 0.5, 0.7), "headline": {}}) is None
