"""Writes a scan or a text again, with suggestions for its words; all else stays as it is, byte for byte.

ALTO gets an ALTERNATIVE, hOCR an `ins` and a `del` of class alt, PAGE (from 2016) a second TextEquiv, each
with how sure the readings are (WC, x_wconf and nlp, conf). Plain text gets [word|suggestion].
"""

import math
import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from html import escape, unescape
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from electra.data.tables.lines import HEAD, guess_encoding, line_end
from electra.data.tables.passages import Passage
from electra.data.tables.scanned import SCANNED, Spot, decoded, root_of
from electra.data.tables.table import read_bytes
from electra.foundation.errors import DataError
from electra.foundation.terminal_text import when

Edit = tuple[int, int, str]  # what takes the place of a part of a text
Range = tuple[int, int]
_TAG = re.compile(r"""<(?:[^"'>]|"[^"]*"|'[^']*')*>""")
_MARKUP = re.compile(rf"<!--.*?-->|<!\[.*?\]>|{_TAG.pattern}", re.DOTALL)
_CHARACTER = re.compile(r"&#?\w+;|.", re.DOTALL)  # as it is written
_UNICODE = re.compile(r"<((?:[\w.-]+:)?Unicode)(?:\s[^>]*)?>(.*?)</\1\s*>", re.DOTALL)
_SHAPE = re.compile(r"\s*<((?:[\w.-]+:)?Shape)\b.*?</\1\s*>", re.DOTALL)
_TOKEN, _NUMBER = re.compile(r"\S+"), re.compile(r"\d*\.?\d+")
_WORD, _WCONF = re.compile(r"\bocrx?_word\b"), re.compile(r"\bx_wconf\s+(\d*\.?\d+)")
_ONE_TEXT = re.compile(r"pagecontent/20(?:09|10|13)-")  # PAGE in which a word has no second TextEquiv


class Correction(NamedTuple):
    """What a model says of a word of a passage."""

    start: int  # in the passage's text
    end: int
    p: float  # that the word is right
    suggestion: str = ""
    p_suggestion: float = 0.0  # that the suggestion is


class _Change(NamedTuple):
    edit: Edit  # that puts the suggestion in the word's place
    found: Correction
    is_sure: bool


def corrected(
    file: Path, found: Iterable[tuple[Passage, Sequence[Correction]]], sure: float = math.inf
) -> tuple[bytes, tuple[int, int, int]]:
    """Returns a file's content with corrections, and how many words are marked, replaced, and neither.

    A word is replaced where `p_suggestion` is at least `sure` and no glyphs spell it. One that is divided at
    a line end or has markup within is left, and in PAGE before 2016 there is no place for a second text.
    Raises DataError if the file cannot be written as it was.
    """
    content, text, is_scan = read_bytes(file), decoded(file), file.suffix.lower() in SCANNED
    codec = guess_encoding(content)
    codec = "utf-8" if codec == "utf-8-sig" and text.encode() == content else codec
    if text.encode(codec) != content:
        raise DataError(f"is {codec} that would change", where=file, fix="Save the file as UTF-8")
    inside, edits_of = _FORMATS.get(root_of(text), _FORMATS["html"]) if is_scan else (_all, _plain)
    one_text = _ONE_TEXT.search(text)
    lines = [] if is_scan else text.split(line_end(text[:HEAD]))
    starts = [*accumulate((len(line) + 1 for line in lines), initial=0)]
    elements, edits, counts = defaultdict[Spot, list[_Change]](list), list[Edit](), [0, 0, 0]
    for passage, each in ((passage, each) for passage, several in found for each in several):
        first, spots = 0, tuple[Spot, ...]()
        if is_scan:
            at = bisect(passage.words, each.start, key=lambda word: word[0]) - 1
            first, spots = passage.words[at][0], passage.spots[at]
        else:
            line, start = lines[passage.line - 1], starts[passage.line - 1]
            lost = len(line.split()) - len(passage.text.split())  # the end of a word of the line before
            spots = (Spot(start, start + len(line), lost),)
        tokens = enumerate(_TOKEN.finditer(passage.text, first))
        number, token = next(each_token for each_token in tokens if each_token[1].end() > each.start)
        part = token[0], each.start - token.start(), each.end - token.start()
        places = [_place(text, inside(text, s), s.number + number, part, is_scan) for s in spots]
        place = places[0] if places else None
        is_sure = each.p_suggestion >= sure and bool(places) and None not in places
        is_sure = is_sure and not any(spot.is_fixed for spot in spots)
        is_left = place is None or (edits_of is _page and bool(one_text) and not is_sure)
        counts = [n + new for n, new in zip(counts, (1, is_sure, is_left), strict=True)]
        new = [(*place, escape(each.suggestion)) for place in places if place]
        if place is not None:
            elements[spots[0]._replace(number=0)].append(_Change(new[0], each, is_sure))
        edits += new[1:] if is_sure else []
    for spot, changes in elements.items():
        edits += edits_of(text, spot, changes)
    errors = "xmlcharrefreplace" if is_scan else "strict"
    return _edited(text, (0, len(text)), edits).encode(codec, errors), (counts[0], counts[1], counts[2])


def _place(text: str, content: Range, number: int, part: tuple[str, int, int], is_markup: bool) -> Range | None:
    """Returns where a part of the `number`th token of a content is; None if it is not there in one piece."""
    raw, start, (expected, *ends) = text[slice(*content)], content[0], part
    blank = _MARKUP.sub(lambda each: "\0" * len(each[0]), raw) if is_markup else raw
    tokens = [each for each in _TOKEN.finditer(blank) if each[0].strip("\0")]
    if number >= len(tokens):
        return None
    token = tokens[number][0]
    start += tokens[number].start() + len(token) - len(token.lstrip("\0"))
    written = _CHARACTER.findall(token.strip("\0")) if is_markup else [*token]
    read = [*map(unescape, written)] if is_markup else written
    offsets = dict(zip(accumulate(map(len, read), initial=0), accumulate(map(len, written), initial=0), strict=True))
    if "".join(read) != expected or not {*ends} <= {*offsets}:
        return None
    return start + offsets[ends[0]], start + offsets[ends[1]]


def _edited(text: str, part: Range, edits: Iterable[Edit]) -> str:
    """Returns a part of a text with edits, which do not overlap."""
    parts, start = list[str](), part[0]
    for at, behind, new in sorted(edits):
        parts += [text[start:at], new]
        start = behind
    return "".join([*parts, text[start : part[1]]])


def _readings(changes: Sequence[_Change]) -> tuple[list[Edit], list[Edit], float, float]:
    """Returns the edits of an element's text and of its other reading, and how sure each is."""
    named = [each for each in changes if each.found.suggestion]
    sure = [each.edit for each in changes if each.is_sure]
    p = min(each.found.p_suggestion if each.is_sure else each.found.p for each in changes)
    if len(sure) == len(named):  # the other reading is what was there
        return sure, [], p, min(each.found.p for each in changes)
    return sure, [each.edit for each in named], p, min(each.found.p_suggestion for each in named)


def _attribute(text: str, start: int, name: str) -> Range | None:
    """Returns where the value of an attribute is, of the tag that begins at `start`."""
    tag = _TAG.match(text, start)
    found = re.search(rf"""\s{name}\s*=\s*("[^"]*"|'[^']*')""", tag[0] if tag else "")
    return (start + found.start(1) + 1, start + found.end(1) - 1) if found else None


def _set(text: str, start: int, name: str, value: float | str) -> Edit:
    """Returns the edit that sets an attribute of the tag that begins at `start`."""
    if place := _attribute(text, start, name):
        return (*place, str(value))
    tag = _TAG.match(text, start)
    at = start + len((tag[0] if tag else "").rstrip("/> \t\r\n"))
    return at, at, f' {name}="{value}"'


def _value(text: str, start: int, name: str) -> str:
    return text[slice(*(_attribute(text, start, name) or (0, 0)))]


def _lowered(before: str, p: float, is_new: bool) -> str:
    """Returns how sure a text is; what was less sure stays so unless the text `is_new`."""
    return before if _NUMBER.fullmatch(before) and float(before) < p and not is_new else str(p)


# What a format does with the changes of an element


def _all(text: str, spot: Spot) -> Range:
    return spot.start, spot.end


def _plain(text: str, spot: Spot, changes: Sequence[_Change]) -> Iterator[Edit]:
    for (start, end, _), found, is_sure in changes:
        yield start, end, found.suggestion if is_sure else f"[{text[start:end]}|{found.suggestion}]"


def _hocr(text: str, spot: Spot, changes: Sequence[_Change]) -> Iterator[Edit]:
    for (start, end, new), found, is_sure in changes:
        readings = [(text[start:end], found.p), (new, found.p_suggestion)][:: -1 if is_sure else 1]
        both = "".join(
            f'<{tag} class="alt" title="nlp {-math.log(max(p, 1e-9)):.2f}">{reading}</{tag}>'
            for tag, (reading, p) in zip(("ins", "del"), readings, strict=True)
        )
        if new:
            yield start, end, f'<span class="alternatives">{both}</span>'
    tag = text.rfind("<", 0, spot.start)
    if _WORD.search(text, tag, spot.start):
        sure, _, p, _ = _readings(changes)
        title = _value(text, tag, "title")
        new = f"{title}{when(title, '; ')}x_wconf {round(100 * p)}"
        if before := _WCONF.search(title):
            value = _lowered(before[1], round(100 * p), bool(sure))
            new = f"{title[: before.start(1)]}{value}{title[before.end(1) :]}"
        yield _set(text, tag, "title", new)


def _content(text: str, spot: Spot) -> Range:
    return _attribute(text, spot.start, "CONTENT") or (spot.end, spot.end)


def _alto(text: str, spot: Spot, changes: Sequence[_Change]) -> Iterator[Edit]:
    sure, other, p, _ = _readings(changes)
    value = _lowered(_value(text, spot.start, "WC"), round(p, 2), bool(sure))
    yield from [*sure, _set(text, spot.start, "WC", value)]
    if sure and (place := _attribute(text, spot.start, "CC")):  # of each letter
        yield text.rfind("CC", 0, place[0]), place[1] + 1, ""
    if sure or other:
        name = text[spot.start + 1 : spot.end].split(maxsplit=1)[0]
        alternative = f"{name.removesuffix('String')}ALTERNATIVE"
        new = f"<{alternative}>{_edited(text, _content(text, spot), other)}</{alternative}>"
        shape = _SHAPE.match(text, spot.end)
        at, is_empty = shape.end() if shape else spot.end, text[spot.end - 2] == "/"
        yield (spot.end - 2, spot.end, f">{new}</{name}>") if is_empty else (at, at, new)


def _unicode(text: str, spot: Spot) -> Range:
    found = _UNICODE.search(text, spot.start, spot.end)
    return found.span(2) if found else (spot.end, spot.end)


def _page(text: str, spot: Spot, changes: Sequence[_Change]) -> Iterator[Edit]:
    sure, other, p, p_other = _readings(changes)
    value = _lowered(_value(text, spot.start, "conf"), round(p, 2), bool(sure))
    yield from [*sure, _set(text, spot.start, "conf", value)]
    if (sure or other) and not _ONE_TEXT.search(text):
        values = {"index": spot.last + 1, "conf": round(p_other, 2)}
        more = [_set(text, spot.start, name, value) for name, value in values.items()]
        yield spot.end, spot.end, _edited(text, spot[:2], [*other, *more])


_FORMATS = {"alto": (_content, _alto), "pcgts": (_unicode, _page), "html": (_all, _hocr)}
