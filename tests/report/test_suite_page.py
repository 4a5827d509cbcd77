"""What the page of an evaluation says of its scores."""

from __future__ import annotations

import re
from typing import Any

import pytest

from electra.pages import suite
from electra.pages.page import render


def score(median: float, sd: float | None) -> dict[str, Any]:
    return {"status": "done", "median": median, "mean": median, "sd": sd, "by_seed": [median]}


@pytest.fixture
def html(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("electra.pages.svg.available", lambda: False)
    row = {"group": "", "task": "rte", "title": "RTE", "split": "dev", "metric": "accuracy", "published": {}}
    row |= {"comparable": True, "remarks": []}
    beaten = {"ours": score(0.61, 0.02), "floor": score(0.7001, 0.0), "other": score(0.7004, 0.01)}
    models = [{"name": name, "source": "", "init": "floor"} for name in beaten]
    record = {"title": "toys", "about": "", "models": models, "averages": [], "published": []}
    return render(suite.page({**record, "rows": [{**row, "scores": beaten}]}))


def test_scores_state_their_statistic(html: str) -> None:
    assert "Median \u00b1 standard deviation over seeds, in points" in html
    assert '61.0</data><span class="none"> \u00b1 2.0</span>' in html


def test_the_best_of_a_row_is_marked_baselines_and_ties_included(html: str) -> None:
    assert "Published scores" not in html and "<h1>toys</h1>" in html
    assert re.findall(r'<b title="the best of this row"><data value="([^"]+)">', html) == ["0.7001", "0.7004"]
