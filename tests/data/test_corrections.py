"""Scans and texts written again with suggestions: what changes, and that nothing else does."""

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from electra.data.tables.corrections import Correction, corrected
from electra.data.tables.passages import Passage, read_passages
from electra.data.tables.printed import LineEnds
from electra.foundation.errors import DataError, Note

# «what is there, what is written, what is written if sure words are replaced (default: the same)»
ALTO = """<a:alto xmlns:a="http://www.loc.gov/standards/alto/ns-v4#"><a:Layout><a:Page ID="p"><a:PrintSpace>
<!-- <a:String CONTENT="riyer"/> --><a:TextBlock ID="b"><a:TextLine ID="l"><a:String ID="s1"
CONTENT="&quot;Riyer,&quot;" WC='0.«95¦3»'«/>¦><a:ALTERNATIVE>&quot;River,&quot;</a:ALTERNATIVE></a:String>»
<a:String WC="0.05" CONTENT="tbe" ><a:Shape><a:Polygon POINTS="1,2"/></a:Shape>«
¦<a:ALTERNATIVE>the</a:ALTERNATIVE>
»<a:ALTERNATIVE>tbo</a:ALTERNATIVE><a:Glyph CONTENT="t"/></a:String>
<a:String« CC="01"¦ CC="01"¦ » CONTENT='a riyer &amp; «tbe¦tbe¦the» bank'«¦ WC="0.1"¦ WC="0.3"»>«
¦<a:ALTERNATIVE>a river &amp; the bank</a:ALTERNATIVE>
»</a:String><a:String CONTENT="ex" SUBS_TYPE="HypPart1" SUBS_CONTENT="exomple"/><a:HYP CONTENT="-"/>
</a:TextLine><a:TextLine><a:String CONTENT="omple" SUBS_TYPE="HypPart2" SUBS_CONTENT="exomple"/>
<a:String CONTENT="Riyer"«/>¦ WC="0.3"><a:ALTERNATIVE>River</a:ALTERNATIVE></a:String>»
</a:TextLine></a:TextBlock></a:PrintSpace></a:Page></a:Layout></a:alto>"""
HOCR = """<!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><head><title>riyer</title></head><body>
<div class="ocr_page"><p class="ocr_par"><span class="ocr_line" title="bbox 1 1 9 9">
<span class="ocrx_word" title='bbox 1 2 3 4; x_wconf «95¦30»; x_font "A"'><strong>&#34;«Riyer
¦(Riyer/River 1.20 0.51)»,"</strong> </span><span class='ocrx_word' id='w2'><em>t</em>be</span>
<span class="ocrx_word" title="bbox 7 8«¦; x_wconf 10¦; x_wconf 96»">«tbe¦(tbe/the 2.30 0.04)
¦(the/tbe 0.04 2.30)»</span> <span class="ocrx_word">exomp-</span></span>
<span class="ocr_line"><span class="ocrx_word">le</span></span></p>
<p class="ocr_par"><span class="ocr_line">the <b>«riyer¦(riyer/river 1.20 0.51)»</b> of «tbe
¦(tbe/the 2.30 0.04)¦(the/tbe 0.04 2.30)» bank</span></p></div></body></html>"""
PAGE = """<PcGts xmlns="http://schema.primaresearch.org/PAGE/gts/pagecontent/2019-07-15"><Page><TextRegion>
<TextLine id="l1"><Word id="w1"><Coords points="0,0 1,1"/><TextEquiv conf="0.«9¦3»" index="0">
<Unicode>"Riyer,"</Unicode></TextEquiv>«¦<TextEquiv conf="0.6" index="1">
<Unicode>"River,"</Unicode></TextEquiv>»</Word><Word id="w2"><Coords points="0,0 1,1"/>
<TextEquiv«¦ conf="0.1"¦ conf="0.96"»><Unicode>«tbe¦tbe¦the»</Unicode></TextEquiv>«
¦<TextEquiv conf="0.96" index="4"><Unicode>the</Unicode></TextEquiv>
¦<TextEquiv conf="0.1" index="4"><Unicode>tbe</Unicode></TextEquiv>
»<TextEquiv index="3"><Unicode>tbo</Unicode></TextEquiv><TextStyle/></Word>
<TextEquiv><Unicode>"Riyer," «tbe¦tbe¦the»</Unicode></TextEquiv></TextLine><TextLine id="l2">
<TextEquiv«¦ conf="0.1"¦ conf="0.3"»><Unicode>bank  riyer «tbe¦tbe¦the» exomp-</Unicode></TextEquiv>«
¦<TextEquiv conf="0.6" index="1"><Unicode>bank  river the exomp-</Unicode></TextEquiv>
»</TextLine><TextLine id="l3"><TextEquiv><Unicode>le</Unicode></TextEquiv></TextLine>
<TextEquiv><Unicode>"Riyer," «tbe¦tbe¦the» bank riyer «tbe¦tbe¦the» exomp- le</Unicode></TextEquiv>
</TextRegion></Page></PcGts>"""
TEXT = """"«Riyer¦[Riyer|River]»," <«tbe¦[tbe|the]¦the»>\r\n\r\n bank  «riyer
¦[riyer|river]» of exomp-\r\nle and river-\r\nbank «tbe¦[tbe|the]¦the»\r\n"""
FILES = {  # and how many words are marked, replaced if sure, and left
    "a.alto": (ALTO, 6, 1, 1),
    "a.hocr": (HOCR, 6, 2, 2),
    "page.xml": (PAGE, 5, 2, 1),
    "a.txt": (TEXT, 5, 2, 1),
}
WORDS = {"riyer": ("river", 0.3, 0.6), "tbe": ("the", 0.1, 0.96), "exomple": ("example", 0.1, 0.99)}
ALT = r'<span class="alternatives"><ins class="alt" title="nlp \3">\1</ins><del class="alt" title="nlp \4">\2'


def version(name: str, number: int) -> str:
    """A file as it is (0), with marks (1) and with sure words replaced (2)."""
    text = re.sub(r"\n(?=[»¦])", "", FILES[name][0])
    text = re.sub("«(.*?)»", lambda part: [*part[1].split("¦"), part[1].split("¦")[1]][number], text, flags=re.S)
    return re.sub(r"\((\w+)/(\w+) ([\d.]+) ([\d.]+)\)", rf"{ALT}</del></span>", text)


def read(file: Path) -> list[Passage]:
    ends = LineEnds(lambda word: 1 if word.lower() in ("exomple", "riverbank") else len(word))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)
        return list(read_passages(file, ends=ends))


def marked(passage: Passage) -> Iterator[Correction]:
    for word in re.finditer(r"\w+", passage.text):
        if word[0].lower() in WORDS:
            name, p, p_suggestion = WORDS[word[0].lower()]
            yield Correction(*word.span(), p, name.title() if word[0].istitle() else name, p_suggestion)


def require_standard(text: str) -> None:
    """Checks what ALTO 2 to 4, PAGE 2019 and hOCR 1.2 say of what is added."""
    for element in ElementTree.fromstring(text).iter():
        kind = element.tag.rpartition("}")[2]
        names, title = [child.tag.rpartition("}")[2] for child in element], element.get("title", "")
        if kind == "String":
            assert re.fullmatch(r"(Shape )?(ALTERNATIVE )*(Glyph )*", "".join(f"{each} " for each in names))
            assert 0 <= float(element.get("WC", "1")) <= 1
        elif kind == "Word":
            assert re.fullmatch(r"Coords (TextEquiv )+(TextStyle )?", "".join(f"{each} " for each in names))
            indices = [int(each.get("index", "0")) for each in element if each.tag.endswith("TextEquiv")]
            assert len({*indices}) == len(indices) and indices[0] == min(indices)
        elif kind == "TextEquiv":
            assert 0 <= float(element.get("conf", "1")) <= 1 and names == ["Unicode"]
        elif element.get("class") == "alternatives":
            assert names == ["ins", "del"] and not element.text and not element[0].tail
        elif element.get("class") == "alt":
            assert float(title.removeprefix("nlp ")) >= 0
        elif "x_wconf" in title:
            assert element.get("class") == "ocrx_word" and title.count("x_wconf") == 1


@pytest.mark.parametrize("sure", [1.0, 0.95])
@pytest.mark.parametrize("name", FILES)
def test_only_marked_words_change(name: str, sure: float, tmp_path: Path) -> None:
    file, (_, num_marked, replaced, left) = tmp_path / name, FILES[name]
    file.write_bytes(version(name, 0).encode())
    before = read(file)
    content, counts = corrected(file, [(each, [*marked(each)]) for each in before], sure)
    assert content.decode() == version(name, 1 + (sure < 1))
    assert counts == (num_marked, replaced * (sure < 1), left)
    if name != "a.txt":
        require_standard(content.decode())
        file.write_bytes(content)
        same = [one.text == other.text for one, other in zip(before, read(file), strict=True)]
        assert all(same) == (sure == 1)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("name", [*FILES][:3])
def test_without_marks_nothing_changes(name: str, encoding: str, tmp_path: Path) -> None:
    text = version(name, 0).replace("bank", "b\xe4nk").replace("\n", "\r\n")
    (tmp_path / name).write_bytes(text.encode(encoding))
    passages = [(each, list[Correction]()) for each in read(tmp_path / name)]
    assert corrected(tmp_path / name, passages) == ((tmp_path / name).read_bytes(), (0, 0, 0))


def test_what_a_format_has_no_place_for_is_left(tmp_path: Path) -> None:
    page, djvu, alto = (tmp_path / name for name in ("page.xml", "djvu.xml", "a.alto"))
    page.write_text(version("page.xml", 0).replace("2019-07", "2013-07"))  # one TextEquiv for a word
    content, counts = corrected(page, [(each, [*marked(each)]) for each in read(page)])
    assert content.count(b"<TextEquiv") == page.read_text().count("<TextEquiv") and b'conf="0.3"' in content
    assert counts == (5, 0, 5)
    djvu.write_text("<DjVuXML><LINE><WORD>tbe</WORD></LINE></DjVuXML>")
    found = [(each, [*marked(each)]) for each in read(djvu)]
    assert corrected(djvu, found) == (djvu.read_bytes(), (1, 0, 1))
    alto.write_bytes(b"\xfe\xff" + version("a.alto", 0).encode("utf-16-be"))
    with pytest.raises(DataError, match="utf-16"):
        corrected(alto, [])
