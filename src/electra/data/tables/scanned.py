"""Reads the words of scanned pages: hOCR, ALTO, PAGE XML and the XML of DjVu.

All but PAGE are read by Python's HTML parser, which expands no entities but characters; a file that declares
others is refused. A text is a paragraph, or what its file puts outside of any. Where a file has lines without
words, a line is split at white space.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from typing_extensions import override

from electra.data.tables.lines import guess_encoding
from electra.data.tables.printed import SIGNS, LineEnds, words_within
from electra.data.tables.table import read_bytes
from electra.data.tables.table_files import Data, extension_of
from electra.foundation.errors import DataError, NoWords

SCANNED = (".hocr", ".alto", ".xml", ".html", ".htm", ".xhtml")
_ROOT = re.compile(r"<(?:[\w.-]+:)?([A-Za-z][\w.-]*)")  # of a document: the first element
_PAGES = ("alto", "pcgts", "djvuxml", "html")
_LINES = {"ocr_line", "ocrx_line", "ocr_header", "ocr_caption", "ocr_textfloat"}
_DJVU = {"object": "ocr_page", "paragraph": "ocr_par", "line": "ocr_line", "word": "ocrx_word"}
_BBOX = re.compile(r"\bbbox((?:\s+-?[\d.]+){4})")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_TEXT_EQUIV = re.compile(
    r"""<!--.*?-->|<!\[CDATA\[.*?\]\]>|<((?:[\w.-]+:)?TextEquiv)(?=[\s/>])"""
    r"""(?:[^"'>]|"[^"]*"|'[^']*')*?(?:/>|>.*?</\1\s*>)""",
    re.DOTALL,
)
_PLACE = " place"  # no attribute of a file has this name
_FIX = "Pass hOCR, ALTO, PAGE or DjVu XML, or extract the text into a .txt file"


Box = tuple[int, ...]
"""Left, top, right and bottom in the units of the file; () if it does not say."""


class Spot(NamedTuple):
    """Where a word is in the text of its file, for who changes it there."""

    start: int  # of hOCR, the content of an element; of ALTO, its start tag; of PAGE, its TextEquiv
    end: int
    number: int = 0  # of the word in that element
    is_fixed: bool = False  # it has glyphs, which spell the word as well
    last: int = 0  # the highest index of the texts of PAGE


class Line(NamedTuple):
    """A line of a page."""

    name: str = ""  # its id, or else its number on the page
    box: Box = ()


class Word(NamedTuple):
    """A word of a page, and the id (or, without one, the place on the page) that its file gives it."""

    text: str
    name: str
    line: Line = Line()
    box: Box = ()
    spots: tuple[Spot, ...] = ()  # the word's, then those of longer texts that repeat it; () if it is divided


Lines = list[list[Word]]  # the words of a paragraph, by line


class OtherXml(NoWords):
    """A file of XML that is no page, such as METS."""


def read_paragraphs(source: Data, ends: LineEnds) -> list[tuple[int, list[Word]]]:
    """Returns the page, from 1, and the words of each paragraph, of which `ends` joins the divided ones.

    Raises NoWords if there are none, and DataError for entities and broken XML.
    """
    text = decoded(source)
    if "<!entity" in text.lower():
        raise DataError("declares entities", where=source, fix="Save the page without its <!ENTITY> lines")
    kind = root_of(text)
    if kind == "pcgts":
        paragraphs = [*_page_xml(text, source)]
    else:
        parser = _Pages(text)
        parser.feed(text)
        parser.close()
        paragraphs = parser.paragraphs
    lines = [line for _, lines in paragraphs for line in lines]
    if not any(lines):
        if kind and kind not in _PAGES and extension_of(source) == ".xml":
            raise OtherXml(f"not a page (its root is {kind})", where=source, fix=_FIX)
        raise NoWords("no words", where=source, fix=_FIX)
    seen = words_within([[word.text for word in line] for line in lines])
    return [(page, _joined(lines, ends, seen)) for page, lines in paragraphs if any(lines)]


def root_of(text: str) -> str:
    """Returns the name of a document's first element, in lower case and without its prefix."""
    root = _ROOT.search(text)
    return root[1].lower() if root else ""


def decoded(source: Data) -> str:
    """Returns the text of a scan. Raises DataError if it cannot be decoded."""
    content = read_bytes(source)
    try:
        return content.decode(guess_encoding(content))
    except UnicodeDecodeError:
        raise DataError("not UTF-8", where=source, fix="Save the file as UTF-8") from None


def box_around(boxes: Iterable[Box]) -> Box:
    """Returns the box around boxes or points; () if there are none."""
    numbers = [number for box in boxes for number in box]
    x, y = numbers[0::2], numbers[1::2]
    return (min(x), min(y), max(x), max(y)) if y else ()


def _box(values: Mapping[str, str]) -> Box:
    """Reads the place of an element: hOCR's bbox, ALTO's HPOS and so on, coords of DjVu, points of PAGE."""
    text = values.get("points") or values.get("coords") or ""
    if found := _BBOX.search(values.get("title", "")):
        text = found[1]
    sizes = [values.get(name, "") for name in ("hpos", "vpos", "width", "height")]
    if all(map(_NUMBER.fullmatch, sizes)):
        left, top, width, height = map(float, sizes)
        return tuple(map(round, (left, top, left + width, top + height)))
    numbers = [round(float(number)) for number in _NUMBER.findall(text)]
    is_djvu = not values.get("points") and len(numbers) > 4  # the fifth is the base line
    return box_around([tuple(numbers[: 4 if is_djvu else len(numbers) // 2 * 2])])


def _joined(lines: Lines, ends: LineEnds, seen: Counter[str]) -> list[Word]:
    """Returns the words of a paragraph; one that is divided has the name of its first half."""
    words: list[Word] = []
    for line in lines:
        for number, word in enumerate(line):
            first = words[-1].text if words else ""
            whole = ends.whole(first, word.text, seen) if number == 0 else None
            if whole is None:
                words.append(word)
            else:
                ends.count(whole, whole.is_joined)
                words[-1] = words[-1]._replace(text=whole.text, spots=())
    return words


def _page_xml(text: str, source: Data) -> Iterator[tuple[int, Lines]]:
    """Yields the text regions of PAGE XML, in its reading order where it has one."""
    try:
        root = ElementTree.fromstring(text.lstrip("\ufeff \t\r\n"))
    except ElementTree.ParseError as problem:
        raise DataError(f"not valid XML ({problem})", where=source, fix="Export the page again") from None
    for element in root.iter():
        element.tag = str(element.tag).rpartition("}")[2]
    places = [found.span() for found in _TEXT_EQUIV.finditer(text) if found[1]]
    if len(texts := [*root.iter("TextEquiv")]) == len(places):
        for element, place in zip(texts, places, strict=True):
            element.set(_PLACE, "{} {}".format(*place))
    for number, page in enumerate(root.iter("Page"), 1):
        order: dict[str, int] = {}
        for group in page.findall("ReadingOrder"):
            order |= {name: len(order) + i for i, name in enumerate(_references(group))}
        count = 0
        for region in _regions(page, order):
            lines = region.findall("TextLine")
            read = [_line(line, count + i) for i, line in enumerate(lines, 1)]
            count += len(read)
            yield number, _repeated(read, region) if read else _plain(region, count)


def _references(group: Element) -> Iterator[str]:
    for each in sorted(group, key=_index):
        yield each.get("regionRef", "")
        yield from _references(each)


def _index(element: Element) -> int:
    index = element.get("index", "")
    return int(index) if index.isdecimal() else 0


def _regions(parent: Element, order: Mapping[str, int]) -> Iterator[Element]:
    regions = [each for each in parent if each.tag.endswith("Region")]
    for region in sorted(regions, key=lambda each: order.get(each.get("id", ""), len(order))):
        if region.tag == "TextRegion":
            yield region
        yield from _regions(region, order)


def _line(line: Element, number: int) -> list[Word]:
    name = line.get("id", "")
    place = Line(name or str(number), _points(line))
    words = [Word(_text(word), word.get("id", ""), place, _points(word), _spots(word)) for word in line.findall("Word")]
    found = [word for word in words if word.text] or [Word(each, name, place) for each in _text(line).split()]
    return _repeated([found], line)[0]


def _plain(region: Element, count: int) -> Lines:
    """Returns the lines of a region that has only text; `count` lines are before it."""
    lines, name = _text(region, keep_lines=True).split("\n"), region.get("id", "")
    places = (Line(str(count + i)) for i in range(1, len(lines) + 1))
    read = [[Word(word, name, at) for word in line.split()] for line, at in zip(lines, places, strict=True)]
    return _repeated(read, region)


def _repeated(lines: Lines, parent: Element) -> Lines:
    """Adds to words where the text of their line or region has them as well."""
    read, spots, number = Lines(), _spots(parent), 0
    for line in lines:
        read.append([])
        for word in line:
            also = tuple(spot._replace(number=number) for spot in spots)
            read[-1].append(word._replace(spots=word.spots + also))
            number += len(word.text.split())
    return read


def _spots(element: Element) -> tuple[Spot, ...]:
    """Returns where the text of an element is; () if it has none."""
    versions = sorted(element.findall("TextEquiv"), key=_index)
    main = next((each for each in versions if _content(each).strip()), Element(""))
    if not (place := main.get(_PLACE, "").split()):
        return ()
    has_glyphs = element.find("Glyph") is not None
    return (Spot(int(place[0]), int(place[1]), 0, has_glyphs, _index(versions[-1])),)


def _points(element: Element) -> Box:
    coords = element.find("Coords")
    return () if coords is None else _box(coords.attrib)


def _text(element: Element, keep_lines: bool = False) -> str:
    versions = sorted(element.findall("TextEquiv"), key=_index)
    text = next((text for text in (_content(version).strip() for version in versions) if text), "")
    return text if keep_lines else " ".join(text.split())


def _content(version: Element) -> str:
    return version.findtext("Unicode") or version.findtext("PlainText") or ""


class _Pages(HTMLParser):
    """Reads hOCR, ALTO and the XML of DjVu."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]  # of lines of the file
        self.paragraphs: list[tuple[int, Lines]] = []
        self._page, self._is_djvu, self._num_lines, self._at = 0, False, 0, Line()
        self._word, self._line = _Open(), _Open()
        # Of words of ALTO: whether the last is the first half of one and stands for all of it; how many of
        # those still have a second half to come, which may be in another block
        self._is_whole, self._num_halves = False, 0
        self._num_others = 0  # open elements of hOCR's other readings

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        tag, values = tag.rpartition(":")[2], {key: value or "" for key, value in attrs}
        kinds = set(values.get("class", "").split())
        self._is_djvu |= tag == "djvuxml"
        if self._is_djvu:
            kinds.add(_DJVU.get(tag, ""))
        self._word.depth += tag == self._word.tag
        self._line.depth += tag == self._line.tag
        if tag == "page" or "ocr_page" in kinds:
            self._page, self._num_lines = self._page + 1, 0
        if tag in ("page", "textblock") or kinds & {"ocr_page", "ocr_carea", "ocr_par"}:
            self.paragraphs.append((max(1, self._page), [[]]))
            self._at = Line()
        self._num_others += tag == "del" and "alt" in kinds
        name = values.get("id") or values.get("title") or values.get("coords", "")
        if tag == "textline" or kinds & _LINES:
            self._lines.append([])
            self._num_lines += 1
            self._at = Line(values.get("id") or str(self._num_lines), _box(values))
        if kinds & _LINES:
            self._line = _Open(tag, 1, name, (), self._behind)
        if kinds & {"ocrx_word", "ocr_word"} and not self._word.tag:
            self._word = _Open(tag, 1, name, _box(values), self._behind)
        elif tag == "string":
            self._add_string(values, name)
        elif tag == "glyph" and self._lines[-1]:
            word = self._lines[-1][-1]
            spots = tuple(spot._replace(is_fixed=True) for spot in word.spots)
            self._lines[-1][-1] = word._replace(spots=spots)
        elif tag == "hyp" and self._lines[-1] and not self._is_whole:
            word, sign = self._lines[-1][-1], values.get("content", "").strip() or "-"
            if word.text[-1] not in SIGNS:
                self._lines[-1][-1] = word._replace(text=word.text + sign[0])

    def _add_string(self, values: Mapping[str, str], name: str) -> None:
        """Adds a word of ALTO, which may say what it is a half of."""
        part, text = values.get("subs_type", "").lower(), values.get("content", "")
        whole = values.get("subs_content", "")
        self._is_whole = part == "hyppart1" and bool(whole)
        self._num_halves += self._is_whole
        if part == "hyppart2" and self._num_halves:
            self._num_halves -= 1
            return
        if part == "hyppart1" and not whole and text[-1:] not in SIGNS:
            text += "-"
        spots = () if self._is_whole else (Spot(self._here, self._behind),)
        self._add(whole if self._is_whole else text, name, _box(values), spots)

    @property
    def _here(self) -> int:
        line, column = self.getpos()
        return self._starts[line - 1] + column

    @property
    def _behind(self) -> int:
        return self._here + len(self.get_starttag_text() or "")

    @property
    def _lines(self) -> Lines:
        if not self.paragraphs:
            self.paragraphs.append((1, [[]]))
        return self.paragraphs[-1][1]

    @override
    def handle_data(self, data: str) -> None:
        if not self._num_others:
            self._word.text += data
            self._line.text += data

    @override
    def handle_endtag(self, tag: str) -> None:
        tag = tag.rpartition(":")[2]
        self._num_others = max(0, self._num_others - (tag == "del"))
        for each in (self._word, self._line):
            each.depth -= tag == each.tag
        if self._word.tag and self._word.depth == 0:
            spot = Spot(self._word.behind, self._here)
            self._add(self._word.text, self._word.name, self._word.box, (spot,))
            self._word = _Open()
        if self._line.tag and self._line.depth == 0:
            for i, text in enumerate([] if self._lines[-1] else self._line.text.split()):
                self._add(text, self._line.name, (), (Spot(self._line.behind, self._here, i),))
            self._line = _Open()

    def _add(self, text: str, name: str, box: Box, spots: tuple[Spot, ...]) -> None:
        if text := " ".join(text.split()):
            spots = () if self._is_djvu else spots  # DjVu has no place for a suggestion
            self._lines[-1].append(Word(text, name, self._at, box, spots))


@dataclass
class _Open:
    """An element that is being read."""

    tag: str = ""
    depth: int = 0
    name: str = ""
    box: Box = ()
    behind: int = 0  # where its content begins in the text of the file
    text: str = ""
