"""`electra report FOLDER` writes the page of every kind of folder; numbers, tables and figures alone."""

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from electra.artifacts.ledger import LedgerCurve
from electra.commands.framework.main import main
from electra.pages import figures, probes
from electra.pages import suite_page as suite
from electra.pages.figures import Figure, Series
from electra.pages.finetuning_page import interval, labels_section
from electra.pages.metric_titles import clip_interval, meaning, meaning_of_curve
from electra.pages.page import Number, Page, PageTable, Section, render

FIXTURES = Path(__file__).parents[1] / "fixtures"


def exact(page: str) -> set[str]:
    """The numbers of a page, as precise as their files have them."""
    return set(re.findall(r'<data value="([^"]+)">', page))


@pytest.mark.parametrize("folder", ["old-run-rtd/checkpoints", "old-run-rtd/store", "absent", "README.md"])
def test_what_is_no_folder_of_ours_is_told_so(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(FIXTURES / folder)]) == 2
    assert folder in capsys.readouterr().err


def test_a_fine_tuning_s_page_holds_its_numbers(tmp_path: Path) -> None:
    folder = shutil.copytree(FIXTURES / "old-finetuning", tmp_path / "tuned")
    assert main(["report", str(folder)]) == 0
    page = (folder / "report.html").read_text()
    results = json.loads((folder / "all_results.json").read_text())
    assert {repr(results[key]) for key in ("eval_accuracy", "eval_loss")} | {"48", "12"} <= exact(page)
    assert "bad, good" in page and "electra finetune" in page and "<figure>" in page
    (folder / "all_results.json").unlink()
    shutil.rmtree(folder / "seeds" / "seed-1")
    assert main(["report", str(folder)]) == 0
    assert "Not finished" in (folder / "report.html").read_text()
    (folder / "seeds" / "seed-0" / "results.json").write_text("[]")
    assert main(["report", str(folder)]) == 2


@pytest.mark.parametrize(
    ("file", "content"),
    [("finetune.json", "{}"), ("all_results.json", "{}"), ("dev.jsonl", "{}\n"), ("dev.jsonl", "")],
)
def test_an_emptied_record_is_named(
    file: str, content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(FIXTURES / "old-finetuning", tmp_path / "tuned")
    (folder / file).write_text(content)
    assert main(["report", str(folder)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {folder / file}: ")


def test_labels_are_counted_and_scored() -> None:
    rows = [("a", "a"), ("a", "b"), ("b", "b"), ("c", "b")]
    records = [{"gold": gold, "predicted": said} for gold, said in rows]
    labels = labels_section(records, {"train": {"a": 7, "b": 8}})
    assert labels is not None and labels.lead.startswith("2 of 4 ")
    [table] = labels.tables
    assert table is not None
    shown = [[getattr(cell, "value", cell) for cell in row] for row in table.rows]
    assert shown[0] == ["a", 7, 2, 1, 1.0, 0.5, 2 / 3]
    assert shown[2] == ["c", 0, 1, 0, None, 0.0, 0.0], "trained on none, never predicted"
    assert labels_section([{"text": "no gold"}, {"text": "a number", "gold": 1.0}], {}) is None
    low, high = interval([0.5, 0.7])
    assert (low, high) == pytest.approx((-0.671, 1.871), abs=1e-3), "Student's"
    assert interval([0.5]) == (None, None) == interval([0.5, None])


def test_an_evaluation_marks_the_best_of_a_row(no_figures: None) -> None:
    def score(median: float, sd: float) -> dict[str, Any]:
        return {"status": "done", "median": median, "mean": median, "sd": sd, "by_seed": [median]}

    scores = {"ours": score(0.61, 0.02), "floor": score(0.7001, 0.0), "other": score(0.7004, 0.01)}
    row = {"group": "", "task": "rte", "title": "RTE", "split": "dev", "metric": "accuracy"}
    models = [{"name": name, "source": "", "init": "floor"} for name in scores]
    record = {"title": "toys", "about": "", "models": models, "averages": []}
    rows = [{**row, "remarks": [], "scores": scores}]
    html = render(suite.page({**record, "rows": rows}))
    best = re.findall(r'<b title="the best of this row"><data value="([^"]+)">', html)
    assert best == ["0.7001", "0.7004"], "baselines and ties included"
    assert '61.0</data><span class="soft"> \u00b1 2.0</span>' in html


FLAT = [["a", "one", 1], ["b", "two", 0.5, 0.25, None], ["b", "one", "s"]]
DEEP = [[2, "a", "two", 0.75], [0, "a", "one", 0.5, 0.25, 1.0], [1, "a", "one", 0.25], [9, "b", "one", 0]]
NUMBERS = [
    {"axes": ["measure", "model"], "rows": FLAT},
    {"axes": ["depth", "measure", "model"], "rows": DEEP},
]


def test_a_table_turns_the_numbers_that_have_exactly_its_axes() -> None:
    def rows(**more: Any) -> Any:
        view = {"title": "t", "down": ["model"], "across": "measure", "keep": {}, "note": "", **more}
        columns, cells = probes.table_of(view, NUMBERS)
        return [columns, *cells]

    estimate = {"value": 0.5, "low": 0.25, "high": None}
    assert rows() == [["model", "a", "b"], ["one", 1, "s"], ["two", None, estimate]]
    kept = rows(keep={"measure": ["b", "absent", "a"], "model": ["two", "one"]})
    assert kept == [["model", "b", "a"], ["two", estimate, None], ["one", "s", 1]]
    assert rows(down=["depth"], across="model", keep={"measure": "b"}) == [["depth", "one"], [9, 0]]


def test_a_figure_has_a_line_for_each_place_and_its_references() -> None:
    view = {"name": "f", "title": "", "note": "", "unit": "share", "kind": "lines", "dots": ["two"]}
    view |= {"x": "depth", "series": "model", "keep": {"measure": "a"}, "x_range": None, "y_range": None}
    view["references"] = {"chance": 0.5, "even": "diagonal"}
    made = probes.figure_of(view, NUMBERS)
    two, one, chance, even = made.series
    assert two == Series("two", [2], [0.75], [], [], "points")
    assert one == Series("one", [0, 1], [0.5, 0.25], [0.25, None], [1.0, None])
    assert (chance.x, chance.y, chance.style) == ([0, 2], [0.5, 0.5], "reference")
    assert even.y == [0, 2] and (made.x, made.y) == ("depth", "share")
    made = probes.figure_of(view | {"kind": "matrix", "references": {}}, NUMBERS)
    assert [each.y for each in made.series] == [[0.75, None, None], [None, 0.5, 0.25]]


def test_numbers_are_short_and_kept_whole() -> None:
    shown = {
        Number(1234567, ""): "1,234,567",
        Number(0.0005, ""): "0.0005",
        Number(9795.8, ""): "9,796",
        Number(0.81249): "0.812",
        Number(-0.0001): "0.000",
        Number(0.81249, "points"): "81.2",
        Number(15204352, "large"): "15.2 M",
        Number(9999, "large"): "9,999",
        Number(1.4756e15, ".2e"): "1.48e+15",
        Number(12.3, "time"): "12.3 s",
        Number(59.7, "time"): "1 min 00 s",
        Number(3725, "time"): "1 h 02 min",
    }
    for number, text in shown.items():
        assert number.__html__() == f'<data value="{number.value!r}">{text}</data>'
    assert not [x for x in (None, math.nan, math.inf) if "data" in Number(x).__html__()]


def test_tables_align_numbers_and_escape_text() -> None:
    rows = [("rtd", Number(0.81), None), ("mlm", None, "<b>")]
    table = PageTable(("Variant", "AUC", "Note"), rows, "Three")
    html = render(Page("Ablation", "One.", [Section("Results", "<i>", ["<u>"], tables=[table, None]), None]))
    assert html.count('<th class="n">') == 1
    assert all(f"&lt;{tag}&gt;" in html for tag in "biu")
    pairs = PageTable.pairs("All", {"a": {"b": [1, True]}, "c": [{"d": 1}, {"d": 2}], "e": None, "f": []})
    assert pairs.rows == [("a.b", "1, true"), ("c 1.d", "1"), ("c 2.d", "2")]


def test_a_figure_follows_the_page_and_shows_only_what_was_measured() -> None:
    lines = [Series("held out", [0.0, 6e6], [0.4, 0.6]), Series("$_a$", [0.0, 6e6], [0.5, None])]
    figure = Figure("f", "", "", lines, axis="tokens")
    drawn = figures.draw(figure)
    assert drawn is not None and drawn == figures.draw(figure)
    assert "currentColor" in drawn and "var(--series-0" in figures.inline(drawn) and "$_a$" in drawn
    assert {"2 M", "held out  0.6"} <= set(re.findall(r"<text[^>]*>([^<]+)</text>", drawn))
    nothing, chance = Series("auc", [], []), Series("chance", [0, 1], [0.5, 0.5], style="reference")
    assert figures.draw(Figure("a", "", "", [nothing, chance], axis="step")) is None
    second = figures.draw(Figure("b", "", "", [nothing, Series("x", [0, 1], [1, 2])])) or ""
    assert figures.PALETTE[1] in second and figures.PALETTE[0] not in second, "each keeps its colour"


def test_smoothing_follows_without_lagging() -> None:
    line = figures.smooth(LedgerCurve([float(x) for x in range(1000)], [2.0 * x for x in range(1000)]))
    assert line.y == pytest.approx([2 * x for x in line.x])


@pytest.mark.parametrize(
    ("metric", "ends"),
    [
        ("accuracy", (0.0, 0.66)),
        ("matthews_correlation", (-0.332, 0.66)),
        ("generator_loss", (0.0, 0.66)),
        ("gain", (-0.332, 0.66)),
    ],
)
def test_intervals_stay_in_the_possible_range(metric: str, ends: tuple[float, float]) -> None:
    assert clip_interval(metric, -0.332, 0.66) == ends
    assert clip_interval("auc", 0.5, 1.2) == (0.5, 1.0) and clip_interval(metric, None, None) == (None, None)


@pytest.mark.parametrize(
    ("key", "curves", "is_explained"),
    [
        ("auc", [[0.5, 0.78, 0.59]], True),
        ("auc", [[0.5, 0.7, None, 0.78]], False),
        ("gain", [[0.0, 0.01], [0.09, 0.02]], True),
        ("auc", [[], [None]], False),
        ("mlm_loss", [[9.0, 4.0]], False),
    ],
)
def test_a_curve_that_falls_although_higher_is_better_says_why(
    key: str, curves: list[list[float | None]], is_explained: bool
) -> None:
    assert (meaning_of_curve(key, *curves) != meaning(key)) == is_explained
