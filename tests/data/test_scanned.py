"""Passages for `detect` and `embed` from scans, CoNLL files and folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import electra
from electra.commands.framework.main import main
from electra.commands.parts.given import read_passages
from electra.foundation.errors import DataError, Note, NoWords

HOCR = """<?xml version="1.0"?><!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml"><head><title/><meta name="ocr-system" content="x"/></head><body>
<div class="ocr_page" id="p1"><p class="ocr_par"><span class="ocr_line">
<span class="ocrx_word" id="w1" title="bbox 1 2 3 4"><strong>Tom</strong> </span>
<span class="ocrx_word" id="w2"><span class="ocrx_cinfo">ex</span>am-</span></span>
<span class="ocr_line"><span class="ocrx_word" title="bbox 5 6 7 8">ple &amp; &b;</span></span></p></div>
<div class="ocr_page"><p class="ocr_par"><span class="ocrx_word" id="w4">end</span></p></div></body></html>"""
ALTO = """<alto:alto xmlns:alto="http://www.loc.gov/standards/alto/ns-v4#"><alto:Page><alto:TextBlock>
<alto:TextLine><alto:String ID="s1" CONTENT="Old"/><alto:SP/><alto:String ID="s2" CONTENT="ex"
SUBS_TYPE="HypPart1" SUBS_CONTENT="example"/><alto:HYP CONTENT="-"/></alto:TextLine>
<alto:TextLine><alto:String CONTENT="ample" SUBS_TYPE="HypPart2" SUBS_CONTENT="example"/></alto:TextLine>
</alto:TextBlock></alto:Page></alto:alto>"""
CONLLU = "# text = Tom's\n1-2\tTom's\t_\n1\tTom\tTom\n2\t's\tbe\n\n1\tends\tend\n"
CONLLU = "\n".join(
    line + "\t_" * (9 - line.count("\t")) if "\t" in line else line for line in CONLLU.split("\n")
)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.hocr", HOCR, [("Tom example & &b;", 1, ["w1", "w2"]), ("end", 2, ["w4"])]),
        ("a.html", HOCR, [("Tom example & &b;", 1, ["w1", "w2"]), ("end", 2, ["w4"])]),
        ("a.xml", ALTO, [("Old example", 1, ["s1", "s2"])]),
        ("a.conllu", CONLLU, [("Tom 's", 3, ["1", "2"]), ("ends", 6, ["1"])]),
        ("a.conll", "Tom N\nends V\n\nNow A\n", [("Tom ends", 1, ["1", "2"]), ("Now", 4, ["1"])]),
        ("a.txt", "one\n\ntwo\n", [("one", 1, []), ("", 2, []), ("two", 3, [])]),
        ("a.csv", "id,text\n7,one\n", [("one", 2, [])]),
    ],
)
def test_passages_have_their_places(
    tmp_path: Path, name: str, content: str, expected: list[tuple[str, int, list[str]]]
) -> None:
    (tmp_path / name).write_text(content)
    (tmp_path / "notes.odt").write_text("no text")
    for source in (tmp_path / name, tmp_path):
        found = list(read_passages(source))
        assert [(each.text, each.line, [name for _, name in each.words][:2]) for each in found] == expected
        assert {each.file for each in found} == {str(tmp_path / name)}
    for passage in found:
        assert all(start == 0 or passage.text[start - 1] == " " for start, _ in passage.words)


def test_blank_pages_of_a_folder_are_noted(tmp_path: Path) -> None:
    blank = {"b.hocr": "<html/>", "c.alto": "", "d.txt": "", "e.conll": "\n", "f.csv": ""}
    for name, content in blank.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.odt").write_text("x")
    with pytest.raises(DataError, match="notes"):
        list(read_passages(tmp_path / "notes"))
    with pytest.raises(NoWords, match="5 files"):
        list(read_passages(tmp_path))
    (tmp_path / "a.hocr").write_text(HOCR)
    (tmp_path / "z.txt").write_text("end\n")
    with pytest.warns(Note, match=r"5 of 7 files: b\.hocr, c\.alto, d\.txt and 2 more"):
        assert [each.text for each in read_passages(tmp_path)] == ["Tom example & &b;", "end", "end"]
    (tmp_path / "b.hocr").write_text(
        HOCR.replace("<!DOCTYPE html>", '<!DOCTYPE html [<!ENTITY b "&a;&a;">]>')
    )
    with pytest.raises(DataError, match=r"b\.hocr"):
        list(read_passages(tmp_path))


def test_words_are_named_by_their_scan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.hocr").write_text(HOCR)
    (tmp_path / "out.jsonl").write_text("before")
    electra.detect("tiny-en", tmp_path / "a.hocr", threshold=0.0, out=tmp_path / "out.jsonl")
    first, second = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    words = [(each["word"], each["name"]) for each in first["words"]]
    assert words[:2] == [("Tom", "w1"), ("example", "w2")] and second["words"][0]["name"] == "w4"
    (tmp_path / "a.hocr").write_text("<html>none</html>")
    assert main(["detect", "tiny-en", str(tmp_path / "a.hocr"), "--out", str(tmp_path / "b.csv")]) == 2
    assert capsys.readouterr().err.count("\n") == 1 and not (tmp_path / "b.csv").exists()
