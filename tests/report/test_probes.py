"""How declarations turn numbers in long form into tables and figures; and that older records still make a
page.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from electra.foundation.errors import ConfigError
from electra.pages import probes

KEPT = Path(__file__).parents[1] / "fixtures" / "probe-format-1.json"

TABLE = {"title": "t", "down": ["model"], "across": "measure", "keep": {}, "note": ""}
FIGURE: dict[str, Any] = {
    "name": "f",
    "title": "",
    "x": "depth",
    "series": "model",
    "keep": {"measure": "a"},
    "note": "",
    "unit": "share",
    "kind": "lines",
    "references": {"chance": 0.5, "even": "diagonal"},
    "dots": ["two"],
    "x_range": None,
    "y_range": None,
}
NUMBERS = [
    {
        "axes": ["measure", "model"],
        "rows": [["a", "one", 1], ["b", "two", 0.5, 0.25, None], ["b", "one", "s"]],
    },
    {
        "axes": ["depth", "measure", "model"],
        "rows": [
            [2, "a", "two", 0.75],
            [0, "a", "one", 0.5, 0.25, 1.0],
            [1, "a", "one", 0.25],
            [9, "b", "one", 0],
        ],
    },
]


def arranged(**view: Any) -> dict[str, Any]:
    tables, figures = ([view], []) if "down" in view else ([], [view])
    found = probes.arrange({"numbers": NUMBERS, "tables": tables, "figures": figures})
    (made,) = found["tables"] + found["figures"]
    return dict(made)


def test_a_table_turns_the_numbers_that_have_exactly_its_axes() -> None:
    estimate = {"value": 0.5, "low": 0.25, "high": None}
    assert arranged(**TABLE) == {
        "title": "t",
        "note": "",
        "columns": ["model", "a", "b"],
        "rows": [["one", 1, "s"], ["two", None, estimate]],
    }


def test_kept_values_are_shown_in_the_order_of_keep() -> None:
    made = arranged(**{**TABLE, "keep": {"measure": ["b", "absent", "a"], "model": ["two", "one"]}})
    assert made["columns"] == ["model", "b", "a"] and [row[0] for row in made["rows"]] == ["two", "one"]
    assert arranged(**{**TABLE, "keep": {"measure": ["b"], "model": "two"}})["rows"][0][0] == "two"
    deeper = arranged(**{**TABLE, "down": ["depth"], "across": "model", "keep": {"measure": "b"}})
    assert deeper["rows"] == [[9, 0]]


def test_a_figure_has_a_line_for_each_place_and_its_references() -> None:
    made = arranged(**FIGURE)
    two, one, chance, even = made["series"]
    assert (two["x"], two["y"], two["style"], two["low"]) == ([2], [0.75], "points", [])
    assert (one["x"], one["y"], one["low"], one["high"]) == ([0, 1], [0.5, 0.25], [0.25, None], [1.0, None])
    assert (chance["x"], chance["y"], chance["style"]) == ([0, 2], [0.5, 0.5], "reference")
    assert even["y"] == [0, 2] and (made["x"], made["y"]) == ("depth", "share")
    rows = arranged(**{**FIGURE, "kind": "matrix", "references": {}})
    assert rows["series"][1]["low"] == []


def test_the_headline_of_a_record_in_one_line() -> None:
    exact = {"value": 0.25, "low": 0.125, "high": 0.5}
    record = {"headline": {"AUC": exact, "rank": {"value": None}, "chance": 0.5, **dict.fromkeys("abc", 1.0)}}
    line = probes.headline(record)
    assert line.startswith("AUC 0.250 [0.125, 0.500]; chance 0.500; ") and "rank" not in line
    assert "1 more" in line and probes.headline({"headline": {}}) == ""


def test_records_of_format_1_make_the_page_they_made(tmp_path: Path) -> None:
    (tmp_path / "matching.probe.json").write_text(KEPT.read_text())
    html = probes.write_page(tmp_path).read_text()
    record = json.loads(KEPT.read_text())
    assert all(table["title"] in html for table in record["tables"])
    assert str(record["headline"]["Attention to the same token, strongest head"]["value"]) in html
    assert 0 < html.index("the baseline of") < html.index("<main>")  # the verdict stands on the first screen
    (tmp_path / "next.probe.json").write_text('{"format": 3}')
    with pytest.raises(ConfigError, match=r"next\.probe\.json"):
        probes.write_page(tmp_path)
