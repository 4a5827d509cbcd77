"""Reads texts whose entities are marked inside or beside them, as rows of a text and its spans.

brat        a text, and a file of the same name that ends in .ann: "T1<tab>PER 0 5<tab>Clara"
PubTator    "1|t|title", "1|a|abstract", then "1<tab>0<tab>5<tab>Clara<tab>PER"
inline      "<PER>Clara</PER> left", "<ENAMEX TYPE="PER">Clara</ENAMEX> left", "[Clara](PER) left"
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from electra.data.tables.lines import Place, guess_encoding
from electra.data.tables.table import read_bytes
from electra.data.tables.table_files import Data
from electra.foundation.errors import DataError

Rows = list[tuple[Place, dict[str, Any]]]
_ENTITY = re.compile(r"T\d+\t(\S+) ([\d ;]+)\t(.*)")  # of brat; parts of an entity are separated by ;
_TITLE = re.compile(r"(\d+)\|([ta])\|(.*)")
_MENTION = re.compile(r"(\d+)\t(\d+)\t(\d+)\t([^\t]*)\t([^\t]+)(?:\t.*)?")
_HTML = "a|b|i|u|p|em|br|h[1-6]|li|t[dhr]|[uo]l|su[bp]|div|span|strong|small|code|pre|table|title|html|body"
_INLINE = {  # layout -> how it marks an entity
    "inline tags": re.compile(
        rf"<(?P<type>(?!(?:{_HTML})\b)\w+)(?:\s+\w+=[\"']?(?P<named>[\w.-]+)[\"']?)?[^<>]*>(?P<text>[^<>]+)</(?P=type)>"
    ),
    "inline <START:TYPE> text <END>": re.compile(r"<START:(?P<type>[\w.-]+)>(?P<text>[^<>]+)<END>"),
    "inline [text](TYPE)": re.compile(
        r"\[(?P<text>[^\[\]]+)\](?:\((?P<type>[\w.:-]+)\)|\{\"entity\": ?\"(?P<named>[\w.:-]+)\"[^{}]*\})"
    ),
    "inline [TYPE text]": re.compile(r"\[(?P<type>[A-Z]{2,}) (?P<text>[^\[\]]+)\]"),
}


def read_marked(source: Data, lines: Sequence[tuple[Place, str]]) -> tuple[str, Rows]:
    """Returns the name of the layout and a row for each text, with columns text and spans; "" for no layout.

    `lines` are those of the file. Raises DataError for an entity of brat in no single line of the text.
    """
    ann = source.with_suffix(".ann") if isinstance(source, Path) else None
    if ann is not None and ann.is_file():
        return f"brat's entities of {ann.name}", _brat(source, ann)
    filled = [line for _, line in lines if line.strip()]
    if filled and _TITLE.fullmatch(filled[0]):
        return "PubTator", list(_pubtator(lines))
    if not any("\t" in line for line in filled):
        for name, mark in _INLINE.items():
            if 3 * sum(mark.search(line) is not None for line in filled) > len(filled):
                bullet = "- " if all(line.startswith(("- ", "##")) for line in filled) else ""  # as in Rasa's
                texts = [(place, line) for place, line in lines if line.strip() and not line.startswith("##")]
                return name, [(place, _inline(line.removeprefix(bullet), mark)) for place, line in texts]
    return "", []


def _span(start: int, end: int, kind: str, text: str) -> dict[str, Any]:
    return {"start": start, "end": end, "label": kind, "text": text}


def _brat(source: Data, ann: Path) -> Rows:
    """Returns the lines of a text with their entities; offsets count the characters of the whole text."""
    content, found = read_bytes(source), list[tuple[int, int, str, Place]]()
    text = content.decode(guess_encoding(content))
    for number, line in enumerate(read_bytes(ann).decode("utf-8-sig").splitlines(), 1):
        if match := _ENTITY.fullmatch(line):
            numbers = [int(each) for each in re.findall(r"\d+", match[2])]
            found.append((min(numbers), max(numbers), match[1], Place(str(ann), number)))
    rows: Rows = []
    start = num_placed = 0
    for number, line in enumerate(text.split("\n"), 1):
        end = start + len(line)
        inside = [each for each in found if start <= each[0] and each[1] <= end]
        num_placed += len(inside)
        spans = [_span(a - start, b - start, kind, text[a:b]) for a, b, kind, _ in inside]
        if line.strip():
            rows.append((Place(str(source), number), {"text": line, "spans": spans}))
        start = end + 1
    if num_placed < len(found):
        breaks = [index for index, character in enumerate(text) if character == "\n"]
        lost = [each for each in found if each[1] > len(text) or any(each[0] <= i < each[1] for i in breaks)]
        problem = f"the entity {lost[0][0]}-{lost[0][1]} is in no single line of {source}"
        raise DataError(problem, where=lost[0][3], fix="Delete its line")
    return rows


def _pubtator(lines: Sequence[tuple[Place, str]]) -> Iterator[tuple[Place, dict[str, Any]]]:
    rows: dict[str, tuple[Place, dict[str, Any]]] = {}
    for place, line in lines:
        if match := _TITLE.fullmatch(line):
            _, row = rows.setdefault(match[1], (place, {"id": match[1], "text": "", "spans": []}))
            row["text"] = match[3] if match[2] == "t" else f"{row['text']} {match[3]}"
        elif (match := _MENTION.fullmatch(line)) and match[1] in rows:
            span = _span(int(match[2]), int(match[3]), match[5], match[4])
            rows[match[1]][1]["spans"].append(span)
    yield from rows.values()


def _inline(line: str, mark: re.Pattern[str]) -> dict[str, Any]:
    """Returns a line without its marks, and the spans that they show."""
    text, spans, end = "", [], 0
    for match in mark.finditer(line):
        text += line[end : match.start()]
        found = match.groupdict()
        inner, kind = found["text"], found.get("named") or found["type"]
        spans.append(_span(len(text), len(text) + len(inner), kind, inner))
        text, end = text + inner, match.end()
    return {"text": text + line[end:], "spans": spans}
