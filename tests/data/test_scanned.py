"""Passages for `detect` and `embed` from scans, CoNLL files and folders."""

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import electra
from electra.commands.framework.main import main
from electra.data.tables.passages import Passage, read_passages
from electra.data.tables.printed import LineEnds
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
CONLLU = "\n".join(line + "\t_" * (9 - line.count("\t")) if "\t" in line else line for line in CONLLU.split("\n"))


PAGE = """<?xml version="1.0" encoding="UTF-8"?><pc:PcGts xmlns:pc="x"><pc:Page><pc:ReadingOrder>
<pc:OrderedGroup id="g"><pc:RegionRefIndexed index="1" regionRef="r1"/>
<pc:RegionRefIndexed index="0" regionRef="r2"/></pc:OrderedGroup></pc:ReadingOrder>
<pc:TextRegion id="r1"><pc:TextLine id="l1">
<pc:TextEquiv index="1"><pc:Unicode>wrong</pc:Unicode></pc:TextEquiv>
<pc:TextEquiv index="0"><pc:Unicode>The ex-</pc:Unicode></pc:TextEquiv></pc:TextLine>
<pc:TextLine id="l2"><pc:Word id="w3"><pc:TextEquiv><pc:Unicode>ample</pc:Unicode></pc:TextEquiv></pc:Word>
<pc:Word id="w4"><pc:Glyph><pc:TextEquiv><pc:Unicode>e</pc:Unicode></pc:TextEquiv></pc:Glyph>
<pc:TextEquiv><pc:Unicode>ends</pc:Unicode></pc:TextEquiv></pc:Word></pc:TextLine></pc:TextRegion>
<pc:TextRegion id="r2"><pc:TextEquiv><pc:Unicode>First\nof all</pc:Unicode></pc:TextEquiv></pc:TextRegion>
</pc:Page></pc:PcGts>"""
DJVU = """<?xml version="1.0"?><!DOCTYPE DjVuXML PUBLIC "-//W3C//DTD DjVuXML 1.1//EN" "x.dtd"><DjVuXML><BODY>
<OBJECT><HIDDENTEXT><PARAGRAPH><LINE><WORD coords="1,2,3,4">an</WORD> <WORD coords="5,6,7,8">ex-</WORD></LINE>
<LINE><WORD coords="9,9,9,9">ample</WORD></LINE></PARAGRAPH></HIDDENTEXT></OBJECT></BODY></DjVuXML>"""
LINES = """<div class="ocr_page"><div class="ocr_carea"><span class="ocr_line" id="l1">an <b>ex</b>-</span>
<span class="ocr_line" title="bbox 1 2 3 4">ample</span></div></div>"""
METS = '<?xml version="1.0"?><mets:mets xmlns:mets="x"><mets:fileSec/></mets:mets>'


def num_tokens(word: str) -> int:
    """A vocabulary of some words; others have a token for every third letter."""
    words = "example river summer today the to day well known in law mother old self made government children"
    return 1 if word.lower() in words.split() else 1 + len(word) // 3


def read(source: Path, keep: bool = False) -> list[Passage]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)
        return list(read_passages(source, ends=LineEnds(num_tokens, keep)))


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.hocr", HOCR, [("Tom example & &b;", 1, ["w1", "w2"]), ("end", 2, ["w4"])]),
        ("a.html", HOCR, [("Tom example & &b;", 1, ["w1", "w2"]), ("end", 2, ["w4"])]),
        ("a.xml", ALTO, [("Old example", 1, ["s1", "s2"])]),
        ("a.xml", PAGE, [("First of all", 1, ["r2", "r2"]), ("The example ends", 1, ["l1", "l1"])]),
        ("a.xml", DJVU, [("an example", 1, ["1,2,3,4", "5,6,7,8"])]),
        ("a.hocr", LINES, [("an example", 1, ["l1", "l1"])]),
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
        found = read(source)
        assert [(each.text, each.line, [name for _, name in each.words][:2]) for each in found] == expected
        assert {each.file for each in found} == {str(tmp_path / name)}
    for passage in found:
        assert all(start == 0 or passage.text[start - 1] == " " for start, _ in passage.words)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (HOCR, [[("1", (0, 9, 8, 20)), ("2", (5, 6, 7, 8))], [("", ())]]),
        (PAGE, [[("1", ()), ("2", ())], [("l1", (1, 2, 9, 8)), ("l2", (4, 5, 9, 7))]]),
        (DJVU, [[("1", (1, 2, 7, 8)), ("2", (9, 9, 9, 9))]]),
    ],
)
def test_lines_have_their_boxes(tmp_path: Path, content: str, expected: Any) -> None:
    """They are those of the file, or else around the line's words; a base line of DjVu is no part of it."""
    content = content.replace('ocr_line">\n', 'ocr_line" title="baseline 0 -3; bbox 0 9 8 20">\n')
    content = content.replace('id="l1">', 'id="l1"><pc:Coords points="1,2 9,2 9,8 1,8"/>')
    content = content.replace('id="w3">', 'id="w3"><pc:Coords points="4,7 8,5"/>')
    content = content.replace('id="w4"><pc', 'id="w4"><pc:Coords points="9,6"/><pc')
    (tmp_path / "a.xml").write_text(content.replace('"5,6,7,8"', '"5,6,7,8,11"').replace("-<", "<"))
    lines = [each.lines for each in read(tmp_path / "a.xml")]
    assert [[(line.name, line.box) for _, line in each] for each in lines] == expected


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
    (tmp_path / "METS.xml").write_text(METS)
    with pytest.warns(Note) as noted:
        found = read_passages(tmp_path, ends=LineEnds(num_tokens))
        assert [each.text for each in found] == ["Tom example & &b;", "end", "end"]
    notes = "\n".join(str(each.message) for each in noted)
    assert r"5 of 8 files: b.hocr, c.alto, d.txt and 2 more" in notes
    assert re.search(r"METS\.xml.*mets", notes) and re.search("1 word.*exam-ple", notes), notes
    entities = HOCR.replace("<!DOCTYPE html>", '<!DOCTYPE html [<!ENTITY b "&a;&a;">]>')
    (tmp_path / "b.hocr").write_text(entities)
    with pytest.raises(DataError, match=r"b\.hocr"):
        list(read_passages(tmp_path))


def test_words_are_named_by_their_scan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.hocr").write_text(HOCR)
    (tmp_path / "out.jsonl").write_text("before")
    with pytest.warns(Note, match="exam-ple"):
        electra.detect("tiny-en", tmp_path / "a.hocr", threshold=0.0, out=tmp_path / "out.jsonl")
    first, second = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    words = [(each["word"], each["name"]) for each in first["words"]]
    assert words[:2] == [("Tom", "w1"), ("example", "w2")] and second["words"][0]["name"] == "w4"
    (tmp_path / "a.hocr").write_text("<html>none</html>")
    assert main(["detect", "tiny-en", str(tmp_path / "a.hocr"), "--out", str(tmp_path / "b.csv")]) == 2
    assert capsys.readouterr().err.count("\n") == 1 and not (tmp_path / "b.csv").exists()


def hocr(lines: list[str]) -> str:
    spans = [[f'<span class="ocrx_word">{word}</span>' for word in line.split()] for line in lines]
    return "".join(f'<span class="ocr_line">{" ".join(line)}</span>' for line in spans)


def alto(lines: list[str]) -> str:
    """Lines of ALTO, of which the hyphen at the end is an element of its own."""
    rows = []
    for line in lines:
        is_divided = line[-1] in "-\u2010\xad\xac\u2e17=" and line[-2] != " "
        stem, sign = (line[:-1], line[-1]) if is_divided else (line, "")
        strings = "".join(f'<String CONTENT="{word}"/>' for word in stem.split())
        hyphen = f'<HYP CONTENT="{sign}"/>' if sign else ""
        rows.append(f"<TextLine>{strings}{hyphen}</TextLine>")
    return f"<alto><TextBlock>{''.join(rows)}</TextBlock></alto>"


def page(lines: list[str]) -> str:
    texts = (f"<TextLine><TextEquiv><Unicode>{line}</Unicode></TextEquiv></TextLine>" for line in lines)
    return f"<PcGts><Page><TextRegion>{''.join(texts)}</TextRegion></Page></PcGts>"


@pytest.mark.parametrize("write", [hocr, alto, page])
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("the riv-|er bank", "the river bank"),
        ("the riv\u2010|er bank", "the river bank"),
        ("the riv=|er bank", "the river bank"),
        ("the bri\xac|ny sea", "the briny sea"),
        ("the bri\xad|ny sea", "the briny sea"),
        ("the bri\u2e17|ny sea", "the briny sea"),
        ("the (sum-|mer), he said", "the (summer), he said"),
        ("GOVERN-|MENT", "GOVERNMENT"),
        ("in-|ter-|esting and interesting", "interesting and interesting"),
        ("a well-|known man", "a well-known man"),
        ("a well\u2010|known man", "a well\u2010known man"),
        ("a mother-|in-law", "a mother-in-law"),
        ("a mother-in-|law", "a mother-in-law"),
        ("an Anglo-|American", "an Anglo-American"),
        ("to-|day, said: not to-day", "to-day, said: not to-day"),
        ("the pre-|and postwar years", "the pre- and postwar years"),
        ("page 10 -|to page 20", "page 10 - to page 20"),
        ("of 1914-|18 or so", "of 1914- 18 or so"),
    ],
)
def test_words_divided_at_line_ends(tmp_path: Path, write: Any, lines: str, expected: str) -> None:
    (tmp_path / "a.xml").write_text(write(lines.split("|")))
    assert " ".join(each.text for each in read(tmp_path / "a.xml")) == expected
    kept = " ".join(each.text for each in read(tmp_path / "a.xml", keep=True))
    has_hyphen = "-" in expected or "\u2010" in expected
    assert len(kept) >= len(expected) and (kept.split() == expected.split()) == has_hyphen


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("of the gov-|ernment and chil-|dren.", "of the government|and children.|"),
        ("the sum-|mer was well-|known to-|day", "the summer|was well-|known today|"),
        ("the riv-||er", "the riv-||er"),
        ("he is so-|the film was good", "he is so-|the film was good"),
        ("the film was to-|day by day", "the film was to-|day by day"),
        ("a zz-|zzz b", "a zz-|zzz b"),
        ("page 10 -|to page 20", "page 10 -|to page 20"),
    ],
)
def test_lines_of_text_stay_lines(tmp_path: Path, lines: str, expected: str) -> None:
    (tmp_path / "a.txt").write_text(lines.replace("|", "\n") + "\n")
    found = [each.text for each in read(tmp_path / "a.txt")]
    assert found == expected.split("|")
    assert [each.line for each in read(tmp_path / "a.txt")] == [*range(1, len(found) + 1)]
    assert [each.text for each in read(tmp_path / "a.txt", keep=True)] == lines.split("|")


def test_a_text_without_a_model_joins_what_it_knows(tmp_path: Path) -> None:
    ends = LineEnds()
    mended = ends.text("the gov-\nernment, a riv-\ner. A government")
    assert mended == "the government,\na riv-\ner. A government"
    assert (ends.joined.total(), ends.kept.total()) == (1, 1)


@pytest.mark.parametrize("parts", [1, 2])
def test_halves_that_alto_names(tmp_path: Path, parts: int) -> None:
    """The second half may be in another block; its word is read once, as the file spells it."""
    first = '<String ID="a" CONTENT="ex" SUBS_TYPE="HypPart1" SUBS_CONTENT="ex-ample"/><HYP CONTENT="-"/>'
    second = '<String CONTENT="ample" SUBS_TYPE="HypPart2" SUBS_CONTENT="ex-ample"/><String CONTENT="b"/>'
    between = "</TextLine></TextBlock><TextBlock><TextLine>" if parts == 2 else "</TextLine><TextLine>"
    block = f"<TextBlock><TextLine>{first}{between}{second}</TextLine></TextBlock>"
    (tmp_path / "a.xml").write_text(f"<alto>{block}</alto>")
    assert " ".join(each.text for each in read(tmp_path / "a.xml")) == "ex-ample b"
