"""The part of a fine-tuning's page about single examples."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from electra.artifacts.finetuning import FinetuningFolder
from electra.commands.framework.main import main
from electra.pages.dev_set import sections
from electra.pages.finetuning import interval
from electra.pages.page import Page, render
from electra.testing import toy_task

ROWS = [("a", "a", 0.95), ("a", "b", 0.91), ("b", "b", 0.55), ("c", "b", 0.65)]
RECORDS = [
    {"id": str(n), "text": f"<b>text {n}</b>", "gold": gold, "predicted": said, "probability": p}
    for n, (gold, said, p) in enumerate(ROWS)
]


def test_labels_confusions_calibration_and_mistakes() -> None:
    made = {section.title: section.blocks for section in sections(RECORDS, {"train": {"a": 7, "b": 8}})}
    assert list(made) == ["Labels", "Calibration", "Errors"]
    labels, drawn, counts = made["Labels"]
    shown = [[getattr(cell, "value", cell) for cell in row] for row in labels.rows]  # type: ignore[union-attr]
    assert shown[0] == ["a", 7, 2, 1, 1.0, 0.5, 2 / 3]
    assert shown[2] == ["c", 0, 1, 0, None, 0.0, 0.0], "trained on none, never predicted"
    table = counts.blocks[0]  # type: ignore[union-attr]
    matrix = [[getattr(cell, "value", cell) for cell in row] for row in table.rows]  # type: ignore[union-attr]
    assert matrix == [["a", 1, 1, 0], ["b", 0, 1, 0], ["c", 0, 1, 0]]
    chart = drawn.views[""][0]  # type: ignore[union-attr]
    shares = {series.label: dict(zip(series.x, series.y, strict=True)) for series in chart.series}
    assert shares["a"] == {"a": 0.5, "b": 0.5, "c": 0} and shares["c"] == {"a": 0, "b": 1, "c": 0}
    pictures: dict[str, str] = {}
    html = render(Page("x", sections(RECORDS, {})), pictures)
    assert pictures["confusion"].count(">0.50<") == 2 and "calibration" in pictures
    assert html.index("text 1") < html.index("text 3") and "text 0" not in html and "<b>text" not in html
    error = (0.45 + 0.65 + abs(0.93 - 0.5) * 2) / 4
    assert f"calibration error over 3 bins: {error:.3f}" in html


def test_numbers_are_ranked_by_their_errors() -> None:
    numbers = [{"id": "0", "text": "near", "gold": 1.0, "predicted": 1.1}]
    numbers.append({"id": "1", "text": "far", "gold": 1.0, "predicted": 4.0})
    html = render(Page("x", sections(numbers, {})))
    assert html.index(">far<") < html.index(">near<")


def test_an_interval_is_student_s() -> None:
    low, high = interval([0.5, 0.7])
    assert low is not None and high is not None
    assert round(low, 3) == -0.671 and round(high, 3) == 1.871
    assert interval([0.5]) == (None, None) == interval([0.5, None])


def test_finetune_writes_the_page(tmp_path: Path) -> None:
    model = toy_task.save_encoder(tmp_path / "model", "modern")
    data, out = toy_task.write_classification(tmp_path / "data", train=40, dev=12), tmp_path / "out"
    words = ["finetune", str(model), "--task", "classification", "--data", str(data), "--out", str(out)]
    assert main([*words, "--epochs", "1", "--device", "cpu"]) == 0
    records = FinetuningFolder(out).read_dev()
    assert len(records) == 12 and list(records[0]) == [
        *("id", "text", "gold", "predicted", "probability", "p(0)", "p(1)"),
    ]
    html = (out / "report.html").read_text()
    assert re.findall(r"<h2>(\w+)", html)[:4] == ["Scores", "Labels", "Calibration", "Errors"]
    (out / "dev.jsonl").unlink()  # a folder of an older version
    shutil.rmtree(out / "figures", ignore_errors=True)
    assert main(["report", str(out)]) == 0 and "Calibration" not in (out / "report.html").read_text()
