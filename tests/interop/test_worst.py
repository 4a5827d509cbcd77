"""Pages, lines and texts ranked by their need of correction: `electra detect --by`."""

import csv
import json
import re
from pathlib import Path
from shutil import rmtree
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.stats import binomtest

import electra
from electra.artifacts.journal import Journal
from electra.commands.framework.main import main
from electra.data.tables.passages import read_passages, text_files
from electra.foundation.errors import Note
from electra.inference.detection import Span
from electra.inference.detector import Curve, Marking
from electra.inference.worst import Ranked, in_order, suspicion

CLEAN, WRONG = "He walked down to the river and sat there.", "Hc wolked duwn tu tbe riyer aud sct thcre."
ALTO = """<alto xmlns="x"><Page><TextBlock>
<TextLine ID="a" HPOS="1" VPOS="2" WIDTH="3" HEIGHT="4">{}</TextLine><TextLine>{}</TextLine></TextBlock>
</Page><Page><TextBlock><TextLine>{}</TextLine></TextBlock></Page></alto>"""
BOX, BOTH = ("a", "1 2 4 6"), f"{CLEAN} {WRONG}"
PARTS = {  # each part's file, page, line and box, and text
    "page": [("a.xml", "1", BOTH), ("a.xml", "2", CLEAN), ("b.txt", "", f"{WRONG}\n\n=1 {CLEAN}")],
    "text": [("a.xml", "1", *BOX, BOTH), ("a.xml", "2", "1", "", CLEAN)],
    "line": [("a.xml", "1", *BOX, CLEAN), ("a.xml", "1", "2", "", WRONG), ("a.xml", "2", "1", "", CLEAN)],
}
LINES = [("b.txt", "", "1", "", WRONG), ("b.txt", "", "2", "", ""), ("b.txt", "", "3", "", f"=1 {CLEAN}")]


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


def test_an_order_counts_rare_words_adds_pages_and_fills_the_budget() -> None:
    curve = Curve((0.9, 0.5, 0.2), (0.01, 0.05, 0.2), (0.3, 0.6, 0.8))
    words = [Span("a", 0, 1, p) for p in (0.95, 0.9, 0.5, 0.2, 0.1)]
    assert suspicion(words, curve) == pytest.approx((2 * np.log(20) + np.log(4)) / 5)
    assert suspicion(words, None) == pytest.approx(0.53) and suspicion([], curve) == 0
    given = [("a", 0.0, 10, 1), ("b", 2.0, 30, 1), ("c", 1.7, 20, 2), ("d", 0.1, 40, 2), ("e", 9.0, 0, 3)]
    rows = [json.dumps({"name": name, "suspicion": None, "send": None}) for name, *_ in given]
    ranked = [Ranked(row, *each) for row, (_, *each) in zip(rows, given, strict=True)]
    alone = [(row["name"], row["send"]) for row in in_order(ranked, 0.5, with_pages=False)]
    assert alone == [("e", True), ("b", True), ("c", True), ("d", False), ("a", False)]
    by_page = {row["name"]: row["suspicion"] for row in in_order(ranked, 1, with_pages=True)}
    expected = {"e": 9, "b": 2 + 60 / 40, "c": 1.7 + 38 / 60, "a": 60 / 40, "d": 0.1 + 38 / 60}
    assert by_page == pytest.approx(expected, 1e-3) and [*by_page] == [*expected]


@pytest.mark.parametrize("by", PARTS)
def test_parts_of_scans_are_written_in_order(by: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    strings = ["".join(f'<String CONTENT="{w}"/>' for w in text.split()) for text in (CLEAN, WRONG, CLEAN)]
    (tmp_path / "a.xml").write_text(ALTO.format(*strings))
    (tmp_path / "b.txt").write_text(f"{WRONG}\n\n=1 {CLEAN}\n")
    files = [str(tmp_path / "a.xml"), str(tmp_path / "b.txt")]
    command = ["detect", "tiny-en", *files, "--budget", "50%", "--by", by]
    assert main([*command, "--out", str(tmp_path / "out.csv")]) == 0
    expected = PARTS[by] + (LINES if by != "page" else [])
    assert f"{len(expected)} {by}s" in capsys.readouterr().out
    with open(tmp_path / "out.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    places = [[row[name] for name in ("file", "page", "line", "box", "text") if name in row] for row in rows]
    found = [(Path(file).name, *place, text.removeprefix("'")) for file, *place, text in places]
    assert sorted(found) == sorted(expected) and WRONG in found[0][-1]
    sizes = [int(row["words"]) for row in rows]
    assert sizes == [len(re.findall(r"\w+", row["text"])) for row in rows]
    keys = [float(row["suspicion"]) for row in rows]
    assert keys == sorted(keys, reverse=True) and all(int(row["marked"]) <= int(row["words"]) for row in rows)
    assert [row["send"] for row in rows] == [str(bool(n <= sum(sizes) / 2)) for n in np.cumsum(sizes)]
    assert main([*command, "--json", "--top", "2"]) == 0
    shown = [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()]
    assert shown == [row["text"].removeprefix("'") for row in rows[:2]]


def test_words_are_ranked_with_their_places(tmp_path: Path) -> None:
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for file in files:
        file.write_text(f"{CLEAN}\n\n{CLEAN.replace('walked', 'wolked')}\n")
    with pytest.warns(Note, match="2 of 6"):
        words: Any = electra.detect("tiny-en", files, by="word")
    assert {row["file"] for row in words} == {*map(str, files)} and {row["line"] for row in words} == {3}
    assert [row["p_replaced"] for row in words] == sorted((row["p_replaced"] for row in words), reverse=True)


WORDS, METS = f"{WRONG} Old".split(), '<mets:mets xmlns:mets="x"/>'
SCAN = "".join(f'<String CONTENT="{word}" WC="1"/>' for word in WORDS)


@pytest.fixture
def scans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "in" / "more").mkdir(parents=True)
    (tmp_path / "in" / "a.xml").write_text(ALTO.format(SCAN, "", SCAN))
    (tmp_path / "in" / "more" / "b.txt").write_text(f"{CLEAN}\n{WRONG}\n")
    (tmp_path / "in" / "mets.xml").write_text(METS)
    monkeypatch.chdir(tmp_path)
    return Path("in")


def contents(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_copies_have_suggestions_and_sure_words(scans: Path, capsys: pytest.CaptureFixture[str]) -> None:
    strings = list[list[Any]]()
    for out, options in (("marked", []), ("sure", ["--correct", "50%"])):
        assert main(["detect", "tiny-en", "in", "--near", "--copies", out, *options]) == 0
        assert {*contents(Path(out))} == {*contents(scans)} and "3 files in" in capsys.readouterr().out
        strings.append([*ElementTree.parse(f"{out}/a.xml").iter("{x}String")])
    for word, marked, sure in zip(WORDS * 2, *strings, strict=True):
        assert marked.get("CONTENT") == word and (float(marked.get("WC")) < 1) >= bool(len(marked))
        assert sure.get("CONTENT") == word or (sure.get("CONTENT"), sure[0].text) == (marked[0].text, word)
    assert {each.get("CONTENT") for each in strings[1]} - {*WORDS}
    text = Path("marked/more/b.txt").read_text()
    assert re.sub(r"\[(\w+)\|\w*\]", r"\1", text) == f"{CLEAN}\n{WRONG}\n"
    assert text.startswith(CLEAN) and "[" in text and Path("sure/mets.xml").read_text() == METS


@pytest.mark.parametrize(
    ("texts", "copies"),
    [
        (["in"], "in"),
        (["in"], "in/new"),
        (["in/a.xml"], "in"),
        (["in/more/b.txt", "b.txt"], "new"),
        (["A"], "new"),
    ],
)
def test_copies_overwrite_nothing(
    texts: list[str], copies: str, scans: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("b.txt").write_text(CLEAN)
    before = contents(Path())
    assert main(["detect", "tiny-en", *texts, "--copies", copies]) == 2
    assert capsys.readouterr().err.count("\n") == 1 and contents(Path()) == before


@pytest.mark.filterwarnings("ignore::electra.foundation.errors.Note")
@pytest.mark.parametrize("by", ["page", "line", "word"])
def test_a_stopped_ranking_goes_on(by: Any, scans: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add, passages, read = Journal.add, read_passages, list[str]()

    def stop(journal: Journal, name: str, found: Any) -> None:
        add(journal, name, found)
        raise KeyboardInterrupt

    def told(texts: Any, *how: Any) -> Any:
        read[:] = [path.name for path in text_files(texts)]
        return passages(texts, *how)

    def run() -> dict[Path, bytes]:
        electra.detect("tiny-en", scans, by=by, near=True, out="out/worst.csv", copies="out/copies")
        return contents(Path("out"))

    monkeypatch.setattr("electra.commands.detect.read_passages", told)
    expected, journal = run(), Path("out/.worst.csv.part")
    assert len(expected) == 4
    rmtree("out")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Journal, "add", stop)
        run()
    with open(journal, "ab") as file:
        file.write(b'["half')
    stopped = journal.read_bytes()
    assert not Path("out/worst.csv").exists() and run() == expected and read == ["mets.xml", "b.txt"]
    journal.write_bytes(stopped.replace(b"True", b"False", 1))  # other settings
    assert run() == expected and len(read) == 3
    journal.write_bytes(stopped)
    (scans / "a.xml").write_text(ALTO.format(SCAN, SCAN, SCAN))
    changed = run()
    rmtree("out")
    assert changed != expected and run() == changed
