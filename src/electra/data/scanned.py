"""Reads the words of scanned pages: hOCR and ALTO.

Both are read by Python's HTML parser, which expands no entities but characters; a file that declares others
is refused. A text is a paragraph, or what its file puts outside of any; a word divided at the end of a line
is joined.
"""

from __future__ import annotations

from html.parser import HTMLParser
from typing import NamedTuple

from typing_extensions import override

from electra.data.lines import guess_encoding
from electra.data.table_files import Data
from electra.data.tables import read_bytes
from electra.foundation.errors import DataError, NoWords

SCANNED = (".hocr", ".alto", ".xml", ".html", ".htm", ".xhtml")


class Word(NamedTuple):
    """A word of a page, and the id (or, without one, the place on the page) that its file gives it."""

    text: str
    name: str


def read_paragraphs(source: Data) -> list[tuple[int, list[Word]]]:
    """Returns the page, from 1, and the words of each paragraph; NoWords if none, DataError for entities."""
    content = read_bytes(source)
    try:
        text = content.decode(guess_encoding(content))
    except UnicodeDecodeError:
        raise DataError("not UTF-8", where=source, fix="Save the file as UTF-8") from None
    if "<!entity" in text.lower():
        raise DataError("declares entities", where=source, fix="Save the page without its <!ENTITY> lines")
    parser = _Pages()
    parser.feed(text)
    parser.close()
    found = [(page, words) for page, words in parser.paragraphs if words]
    if not found:
        fix = "Pass hOCR (ocrx_word) or ALTO (String), or extract the text into a .txt file"
        raise NoWords("no words of hOCR or ALTO", where=source, fix=fix)
    return found


class _Pages(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.paragraphs: list[tuple[int, list[Word]]] = []
        self._page, self._is_first_of_line = 0, False
        self._open = self._name = self._text = ""  # the tag of the hOCR word that is being read, its id, text
        self._depth = 0

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        tag, values = tag.rpartition(":")[2], {key: value or "" for key, value in attrs}
        kinds = set(values.get("class", "").split())
        self._depth += tag == self._open
        if tag == "page" or "ocr_page" in kinds:
            self._page += 1
        if tag in ("page", "textblock") or kinds & {"ocr_page", "ocr_carea", "ocr_par"}:
            self.paragraphs.append((max(1, self._page), []))
        if tag == "textline" or kinds & {"ocr_line", "ocr_header", "ocr_caption", "ocr_textfloat"}:
            self._is_first_of_line = True
        name = values.get("id") or values.get("title", "")
        if kinds & {"ocrx_word", "ocr_word"} and not self._open:
            self._open, self._depth, self._name, self._text = tag, 1, name, ""
        elif tag == "string" and values.get("subs_type", "").lower() != "hyppart2":
            self._add(values.get("subs_content") or values.get("content", ""), name)

    @override
    def handle_data(self, data: str) -> None:
        self._text += data

    @override
    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag.rpartition(":")[2] == self._open
        if self._open and self._depth == 0:
            self._open = ""
            self._add(self._text, self._name)

    def _add(self, text: str, name: str) -> None:
        text = " ".join(text.split())
        if not text:
            return
        if not self.paragraphs:
            self.paragraphs.append((1, []))
        words = self.paragraphs[-1][1]
        if self._is_first_of_line and words and words[-1].text[-1] in "-\xad\xac" and text[0].islower():
            words[-1] = Word(words[-1].text[:-1] + text, words[-1].name)
        else:
            words.append(Word(text, name))
        self._is_first_of_line = False
