"""Pages, lines and texts ranked by their need of correction: `electra detect --by`."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

import electra
from electra.commands.framework.main import main
from electra.data.tables.passages import Passage
from electra.data.tables.scanned import Line
from electra.foundation.errors import Note
from electra.inference.detection import Detection, Span
from electra.inference.detector import Curve, Marking
from electra.inference.worst import By, Ranking, counts, parts, suspicion

CLEAN, WRONG = "He walked down to the river and sat there.", "Hc wolked duwn tu tbe riyer aud sct thcre."
ALTO = """<alto xmlns="x"><Page><TextBlock>
<TextLine ID="a" HPOS="1" VPOS="2" WIDTH="3" HEIGHT="4">{}</TextLine><TextLine>{}</TextLine></TextBlock>
</Page><Page><TextBlock><TextLine>{}</TextLine></TextBlock></Page></alto>"""


def found(file: str, page: int, text: str, starts: list[int], p: list[float]) -> tuple[Passage, Detection]:
    words, at = list[Span](), 0
    for word, each in zip(text.split(), p, strict=True):
        at = text.index(word, at)
        words.append(Span(word, at, at + len(word), each))
    lines = tuple((start, Line(f"l{n}", (n, n, 9, 9))) for n, start in enumerate(starts, 1))
    return Passage(text, {"text": text}, file, page, (), lines), Detection(text, (), tuple(words), 0.5)


SCAN = [
    found("a.xml", 1, "one two . three", [0, 8], [0.9, 0.1, 0.9, 0.2]),
    found("a.xml", 1, "four", [0], [0.5]),
    found("a.xml", 2, "five", [0], [0.1]),
    found("b.txt", 1, "six", [], [0.1]),
    found("b.txt", 2, "seven", [], [0.8]),
]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("page", [("one two . three\nfour", 4, 2), ("five", 1, 0), ("six\nseven", 2, 1)]),
        ("text", [("one two . three", 3, 1), ("four", 1, 1), ("five", 1, 0), ("six", 1, 0), ("seven", 1, 1)]),
        (
            "line",
            [("one two", 2, 1), (". three", 1, 0), ("four", 1, 1)]
            + [("five", 1, 0), ("six", 1, 0), ("seven", 1, 1)],
        ),
    ],
)
def test_parts_have_their_words_and_places(by: By, expected: list[tuple[str, int, int]]) -> None:
    rows = [(part, counts(part, 0.5, None)) for part in parts(SCAN, by)]
    assert [(part.text, row["words"], row["marked"]) for part, row in rows] == expected
    shares = [row["marked"] / row["words"] for _, row in rows]
    assert [row["share"] for _, row in rows] == pytest.approx(shares, 1e-3) and rows[0][1]["wrong"] is None
    assert [part.place["page"] for part, _ in rows][-2:] == ([2, None] if by == "page" else [None, None])
    first, last = rows[0][0].place, rows[-1][0].place
    if by != "page":
        assert (first["line"], first["box"]) == ("l1", "1 1 9 9") and (last["line"], last["box"]) == (
            "2",
            None,
        )


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 1.0])
def test_wrong_words_are_estimated_from_the_marked_ones(rate: float) -> None:
    marking, size = Marking(0.5, "", 0.01, 0.6), 2000
    marked = round(size * (rate * 0.6 + (1 - rate) * 0.01))
    wrong, low, high = marking.wrong(marked, size) or (0, 0, 0)
    assert wrong == pytest.approx(rate * size, abs=2)
    interval = binomtest(marked, size).proportion_ci(method="wilson")
    expected = [np.clip((each - 0.01) / 0.59, 0, 1) * size for each in interval]
    assert (low, high) == pytest.approx(expected, abs=0.2)
    assert Marking(0.5, "", 0.01, 0.01).wrong(1, 9) is None and Marking(0.5, "").wrong(1, 9) is None


def test_a_word_counts_by_how_rare_it_is_among_clean_ones() -> None:
    curve = Curve((0.9, 0.5, 0.2), (0.01, 0.05, 0.2), (0.3, 0.6, 0.8))
    words = [Span("a", 0, 1, p) for p in (0.95, 0.9, 0.5, 0.2, 0.1)]
    assert suspicion(words, curve) == pytest.approx((2 * np.log(20) + np.log(4)) / 5)
    assert suspicion(words, None) == pytest.approx(0.53) and suspicion([], curve) == 0


def test_a_ranking_adds_pages_and_fills_the_budget() -> None:
    ranking = Ranking()
    rows = [("a", 0.0, 10, 1), ("b", 2.0, 30, 1), ("c", 1.7, 20, 2), ("d", 0.1, 40, 2), ("e", 9.0, 0, 3)]
    for name, key, size, page in rows:
        ranking.add({"name": name, "suspicion": None, "send": None}, key, size, page)
    alone = [(row["name"], row["send"]) for row in ranking.rows(0.5, with_pages=False)]
    assert alone == [("e", True), ("b", True), ("c", True), ("d", False), ("a", False)]
    by_page = {row["name"]: row["suspicion"] for row in ranking.rows(1, with_pages=True)}
    first, second = 60 / 40, 38 / 60
    assert by_page == pytest.approx(
        {"e": 9, "b": 2 + first, "c": 1.7 + second, "a": first, "d": 0.1 + second}, 1e-3
    )
    assert [*by_page] == ["e", "b", "c", "a", "d"]


def test_lines_of_scans_are_written_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    strings = ["".join(f'<String CONTENT="{w}"/>' for w in text.split()) for text in (CLEAN, WRONG, CLEAN)]
    (tmp_path / "a.xml").write_text(ALTO.format(*strings))
    (tmp_path / "b.txt").write_text(f"{WRONG}\n\n=1 {CLEAN}\n")
    files = [str(tmp_path / "a.xml"), str(tmp_path / "b.txt")]
    command = ["detect", "tiny-en", *files, "--quick", "--budget", "50%", "--by"]
    assert main([*command, "line", "--out", str(tmp_path / "out.csv")]) == 0
    assert "6 lines" in capsys.readouterr().out
    with open(tmp_path / "out.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {rows[0]["text"], rows[1]["text"]} == {WRONG} and [row["text"] for row in rows].count(
        f"'=1 {CLEAN}"
    ) == 1
    keys = [float(row["suspicion"]) for row in rows]
    assert keys == sorted(keys, reverse=True)
    sizes = np.cumsum([int(row["words"]) for row in rows])
    assert [row["send"] for row in rows] == [str(bool(size <= sizes[-1] / 2)) for size in sizes]
    assert sorted((row["file"], row["page"], row["line"], row["box"]) for row in rows) == [
        *[(files[0], "1", "2", ""), (files[0], "1", "a", "1 2 4 6"), (files[0], "2", "1", "")],
        *[(files[1], "", str(line), "") for line in (1, 2, 3)],
    ]
    assert main([*command, "page", "--json", "--top", "2"]) == 0
    pages = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(row["file"], row["page"]) for row in pages} == {(files[1], None), (files[0], 1)}
    with pytest.warns(Note, match="1 of 5"):
        paths = [Path(each) for each in files]
        words: Any = electra.detect("tiny-en", paths, by="word", threshold=0.2, quick=True)
    assert {row["file"] for row in words} == {*files} and all(row["text"] for row in words)
    assert [row["p_replaced"] for row in words] == sorted((row["p_replaced"] for row in words), reverse=True)


@pytest.mark.parametrize(
    "options",
    [
        ["in.csv", "--by", "line"],
        ["in.csv", "in.txt", "--by", "page"],
        ["a text", "--by", "line"],
        ["in.csv", "--budget", "30%"],
        ["in.txt", "--by", "word", "--budget", "30%"],
        *[["in.txt", "--by", "text", "--budget", share] for share in ("0", "abc", "101%")],
        ["in.txt", "--by", "text", "--out", "x.txt"],
        ["in.csv", "in.txt", "--by", "text", "--out", "in.csv"],
        ["in.txt", "--by", "row"],
        ["in.txt", "two.txt", "--by", "text"],
        ["in.txt", "--quick", "--scorer", "both"],
    ],
)
def test_what_cannot_be_ranked_is_refused_in_one_line(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("text\nThe mill.\n")
    Path("in.txt").write_text("The mill.\n")
    assert main(["detect", "tiny-en", *options]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert sorted(map(str, Path().iterdir())) == ["in.csv", "in.txt"]
