"""Reads spans of text, as annotation tools export them, as BIO tags of words.

A cell has a list of spans: each a list of start, end and type (doccano, GLiNER, spaCy) or an object (spaCy,
doccano, Prodigy, Label Studio, transformers' pipelines). Offsets count characters, UTF-16 units, bytes or
words, and an end is included or not. One convention is chosen for a file: that of the texts of the spans
where they come along, else by where words begin and end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, product
from typing import Any, NamedTuple

from electra.data.lines import Place
from electra.finetuning.labelled.examples import Example
from electra.finetuning.labelled.words import Spans
from electra.foundation.errors import DataError
from electra.foundation.terminal_text import plural

SPAN_COLUMNS = ("entities", "spans", "ents", "ner", "label", "labels", "annotations")  # usual names
KEYS = (  # of the objects of spans: start, end, type and, optionally, text
    ("start", "start_offset", "start_char", "begin"),
    ("end", "end_offset", "end_char", "stop"),
    ("label", "labels", "type", "tag", "entity", "entity_group", "entity_type", "category"),
    ("text", "word", "mention"),
)
WIDTHS: dict[str, Callable[[str], int]] = {
    "characters": lambda _: 1,
    "UTF-16 units": lambda character: 1 + (character > "\uffff"),
    "bytes": lambda character: len(character.encode()),
}
CLEAR = 0.9  # the share of spans that an unusual convention must fit


Convention = tuple[str, bool]  # what offsets count ("words" or of WIDTHS), and whether an end is included


class Span(NamedTuple):
    """A span as in the file."""

    start: int
    end: int
    kind: str
    text: str | None


@dataclass(frozen=True)
class AnnotatedText:
    """A text with spans."""

    where: Place | str
    text: str  # words without a text are joined by spaces
    words: Spans  # the offsets of the words in the text
    spans: tuple[Span, ...]
    has_text: bool
    num_others: int  # further annotations of the text, which are left out

    def offsets(self, span: Span, convention: Convention) -> tuple[int, int] | None:
        """Returns start and end in characters, without white space; None if the text has no such span."""
        unit, is_included = convention
        starts, ends = _borders(self.text, self.words, unit)
        start, end = starts.get(span.start, 0), ends.get(span.end + is_included, 0)
        inner = self.text[start:end].strip()
        if span.start not in starts or not inner or (is_included and self.text[end - 1].isspace()):
            return None
        start = self.text.index(inner, start)
        return start, start + len(inner)

    def fits(self, span: Span, convention: Convention) -> bool:
        """Whether a span has its own text or, if it comes without one, consists of words."""
        offsets = self.offsets(span, convention)
        if offsets is None or span.text is None:
            return offsets is not None and not any(self.cuts(*offsets))
        found, own = ("".join(text.casefold().split()) for text in (self.text[slice(*offsets)], span.text))
        return found == own  # uncased models give their words without capitals

    def cuts(self, start: int, end: int) -> tuple[bool, bool]:
        """Whether a span begins inside a word, and whether it ends inside one."""
        return all(start != word[0] for word in self.words), all(end != word[1] for word in self.words)


@lru_cache(maxsize=1)
def _borders(text: str, words: Spans, unit: str) -> tuple[dict[int, int], dict[int, int]]:
    """Returns the characters at which spans can begin and end, by what counts as their offsets."""
    if unit == "words":
        return dict(enumerate(start for start, _ in words)), dict(enumerate((end for _, end in words), 1))
    places = {place: index for index, place in enumerate(accumulate(map(WIDTHS[unit], text), initial=0))}
    return places, places


def holds_spans(cell: Any) -> bool:
    """Whether a cell has spans rather than tags; not if it has an empty list, which may be either."""
    return any(isinstance(item, list | dict) for item in (cell if isinstance(cell, list) else [cell]))


def _annotate(example: Example, text: str, cell: Any) -> AnnotatedText | None:
    """Returns an example, with its text if it has one, with its spans; None if it was not annotated.

    Of several annotations by Label Studio, the ground truth is read, or else the first.
    """
    num_others = 0
    if isinstance(cell, list) and any(isinstance(item, dict) and "result" in item for item in cell):
        valid = [item for item in cell if isinstance(item, dict) and not item.get("was_cancelled")]
        first, *others = sorted(valid, key=lambda item: not item.get("ground_truth")) or [{}]
        num_others, cell = len(others), first.get("result")
        if isinstance(cell, list):  # which has relations and choices, too
            results = [item for item in cell if isinstance(item, dict) and item.get("type") == "labels"]
            cell = [result.get("value") for result in results]
    if isinstance(cell, dict) and "start" in cell and all(isinstance(row, list) for row in cell.values()):
        cell = [dict(zip(cell, row, strict=True)) for row in zip(*cell.values(), strict=False)]
    if isinstance(cell, dict):
        cell = next((cell[name] for name in SPAN_COLUMNS if isinstance(cell.get(name), list)), [cell])
    if cell is None:
        return None
    offsets, words = example.spans, example.texts
    if not text:
        ends = [*accumulate(len(word) + 1 for word in words)]
        offsets = tuple((end - len(word) - 1, end - 1) for word, end in zip(words, ends, strict=True))
    spans = tuple(_span(item, example.where) for item in (cell if isinstance(cell, list) else [cell]))
    return AnnotatedText(example.where, text or " ".join(words), offsets, spans, bool(text), num_others)


def _span(item: Any, where: Place | str) -> Span:
    parts: list[Any] = [None] * len(KEYS)
    if isinstance(item, dict):
        parts = [next((item[name] for name in names if name in item), None) for names in KEYS]
    elif isinstance(item, list) and len(item) == len(KEYS) - 1:
        parts = [*sorted(item, key=lambda part: isinstance(part, str)), None]
    start, end, kind, text = parts
    kind = kind[0] if isinstance(kind, list) and len(kind) == 1 else kind
    if type(start) is not int or type(end) is not int or not isinstance(kind, str) or not kind.strip():
        fix = 'Write [start, end, "TYPE"], or {"start": 0, "end": 3, "label": "TYPE"}'
        raise DataError(f"expected a span with one start, end and type, not {item!r}", where=where, fix=fix)
    return Span(start, end, kind.strip(), text if isinstance(text, str) else None)


def with_tags_of_spans(
    rows: Sequence[tuple[Example, str, Any]], is_included: bool
) -> tuple[list[Example], list[str]]:
    """Returns examples with BIO tags, and notes on how their spans were read.

    A span that cuts a word is read as the whole word; of spans that share a word, the longest is read.

    Args:
        rows: examples, each with its text ("" if it has words alone) and the cell with its spans.
        is_included: whether spans of words include their end if they do not show it.

    Raises:
        DataError: a span is none, lies outside its text or has another text, or most do not fit words.
    """
    sentences = [_annotate(*row) for row in rows]
    pairs = [(sentence, span) for sentence in sentences if sentence for span in sentence.spans]
    unit, included = convention = _choose_convention(pairs, is_included)
    total, examples, cuts, num_shared = plural(len(pairs), "span"), [], list[tuple[bool, bool]](), 0
    for (example, _, _), sentence in zip(rows, sentences, strict=True):
        if sentence is None:
            examples.append(example)
            continue
        tags = ["O"] * len(example.texts)
        placed = [(*_place(sentence, span, convention), span.kind) for span in sentence.spans]
        for start, end, kind in sorted(placed, key=lambda place: place[0] - place[1]):
            covered = [i for i, word in enumerate(sentence.words) if word[0] < end and word[1] > start]
            if any(tags[i] != "O" for i in covered):
                num_shared += 1
                continue
            cuts.append(sentence.cuts(start, end))
            for i in covered:
                tags[i] = f"{'B' if i == covered[0] else 'I'}-{kind}"
        examples.append(replace(example, gold=tuple(tags)))
    if 2 * sum(map(all, cuts)) > len(pairs):
        fix = "Count characters of this text, from 0, or name its column with --text-column"
        problem = f"{sum(map(all, cuts)):,} of {total} neither begin nor end where a word does"
        raise DataError(problem, where=rows[0][0].where, fix=fix)
    num_others = sum(sentence.num_others for sentence in sentences if sentence)
    counts = {
        "further annotations of the same texts left out": num_others,
        f"of {total} left out: a longer one has some of their words": num_shared,
        f"of {total} begin or end inside a word: read as whole words": sum(map(any, cuts)),
    }
    how = f"offsets count {unit}, the end {'included' if included else 'not included'}"
    notes = [f"{count:,} {what}" for what, count in counts.items() if count]
    return examples, [f"{total} read as BIO tags; {how}", *notes]


def _place(sentence: AnnotatedText, span: Span, convention: Convention) -> tuple[int, int]:
    offsets = sentence.offsets(span, convention)
    if offsets and (span.text is None or sentence.fits(span, convention)):
        return offsets
    found = repr(sentence.text[slice(*offsets)]) if offsets else "empty or outside the text"
    own = "" if span.text is None else f"; its own text is {span.text!r}"
    problem = f"the span {span.start}-{span.end} ({span.kind}) is {found}{own}"
    raise DataError(problem, where=sentence.where, fix=f"Correct it (offsets count {convention[0]})")


def _choose_convention(pairs: Sequence[tuple[AnnotatedText, Span]], is_included: bool) -> Convention:
    has_text = any(sentence.has_text for sentence, _ in pairs)
    is_included |= any(span.start == span.end for _, span in pairs)  # which would be empty else
    usual = ("characters", False) if has_text else ("words", is_included)
    units = (
        ("characters", "words")
        if all(sentence.text.isascii() for sentence, _ in pairs)
        else (*WIDTHS, "words")
    )
    order = [usual, *product(units, (False, True))]
    told = [(sentence, span) for sentence, span in pairs if span.text is not None]
    counts = {name: sum(sentence.fits(span, name) for sentence, span in told or pairs) for name in order}
    best = max(order, key=counts.__getitem__)
    if told:
        return best
    # Where endings are part of words, spans often end before a word does.
    limit = len(pairs) * (0.5 if has_text and best[0] not in ("UTF-16 units", "bytes") else 1)
    return best if counts[best] >= CLEAR * len(pairs) and counts[usual] < limit else usual
