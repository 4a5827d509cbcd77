"""Reads spans of text, as annotation tools export them, as BIO tags of words.

A cell has a list of spans: each a list of start, end and type (doccano, GLiNER, spaCy) or an object (spaCy,
doccano, Prodigy, Label Studio, transformers' pipelines). One convention of offsets is chosen for a file: that
of the texts of the spans where they come along, else by where words begin and end.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, product
from reprlib import repr as shortened
from typing import Any, NamedTuple

from electra.data.tables.lines import Place
from electra.finetuning.labelled.annotations import chosen_annotation
from electra.finetuning.labelled.examples import Example
from electra.finetuning.labelled.word_splitting import Spans
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


class LabelledSpan(NamedTuple):
    """A span as in the file, and what it is in."""

    text: str
    words: Spans  # the offsets of the words in the text
    start: int
    end: int
    kind: str
    own_text: str | None

    def place(self, convention: Convention) -> tuple[int, int] | None:
        """Returns start and end in characters, without white space; None if this is not the span's text."""
        unit, is_included = convention
        starts, ends = _borders(self.text, self.words, unit)
        start, end = starts.get(self.start, len(self.text)), ends.get(self.end + is_included, 0)
        inner = self.text[start:end].strip()
        if not inner or (is_included and self.text[end - 1].isspace()):
            return None
        # Uncased models give their words without capitals.
        found, own = inner.casefold().split(), (self.own_text or inner).casefold().split()
        start = self.text.index(inner, start)
        return (start, start + len(inner)) if "".join(found) == "".join(own) else None

    def cuts(self, convention: Convention) -> tuple[bool, bool]:
        """Whether it begins inside a word or nowhere, and whether it ends there."""
        starts, ends = zip(*self.words, strict=True)
        start, end = self.place(convention) or (-1, -1)
        return start not in starts, end not in ends

    def fits(self, convention: Convention) -> bool:
        """Whether it has its own text or, if it comes without one, consists of words."""
        return self.place(convention) is not None if self.own_text else not any(self.cuts(convention))


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


def _annotation(cell: Any) -> tuple[Any, int]:
    """Returns the spans of Label Studio's chosen annotation, or the cell, and the number of others."""
    chosen, num_others = chosen_annotation(cell)
    if chosen is None:
        return cell, 0
    match chosen.get("result"):
        case [*results]:  # among them relations and choices
            labels = [each for each in results if isinstance(each, dict) and each.get("type") == "labels"]
            return [each.get("value") for each in labels], num_others
        case result:
            return result, num_others


def _spans(cell: Any, text: str, words: Spans, where: Place | str) -> list[LabelledSpan]:
    match cell:
        case {"start": [*_]}:
            cell = [dict(zip(cell, row, strict=True)) for row in zip(*cell.values(), strict=False)]
        case {}:
            cell = next((cell[name] for name in SPAN_COLUMNS if isinstance(cell.get(name), list)), [cell])
    spans = []
    for item in cell if isinstance(cell, list) else [cell]:
        match item:
            case {}:
                parts = [next((item[name] for name in names if name in item), None) for names in KEYS]
                if type(parts[2]) is int:  # doccano's number of a label
                    parts[2] = str(parts[2])
            case [_, _, _]:
                parts = [*sorted(item, key=lambda part: isinstance(part, str)), None]
            case _:
                parts = [None] * len(KEYS)
        are_flags = any(isinstance(part, bool) for part in parts)
        match parts:
            case [int(start), int(end), (str(kind) | [str(kind)]), own] if kind.strip() and not are_flags:
                own = own if isinstance(own, str) else None
                spans.append(LabelledSpan(text, words, start, end, kind.strip(), own))
            case _:
                problem = f"expected a span with one start, end and type, not {shortened(item)}"
                fix = 'Write [start, end, "TYPE"], or {"start": 0, "end": 3, "label": "TYPE"}'
                raise DataError(problem, where=where, fix=fix)
    return spans


def with_tags_of_spans(rows: Sequence[tuple[Example, str, Any]], is_included: bool, notes: list[str]) -> list[Example]:
    """Returns examples with BIO tags, and adds notes on how their spans were read to `notes`.

    A span that cuts a word is read as the whole word; of spans that share a word, the longest is read. Each
    row has an example, its text ("" if it has words alone) and the cell with its spans. `is_included`:
    whether spans of words include their end if they do not show it. Raises DataError for a span that is none,
    lies outside its text or has another text, and if most do not fit words.
    """
    examples, annotated, num_others = [example for example, _, _ in rows], dict[int, list[LabelledSpan]](), 0
    for index, (example, text, cell) in enumerate(rows):
        spans, others = _annotation(cell)
        num_others += others
        words = example.spans
        if not text:
            ends = [*accumulate(len(word) + 1 for word in example.texts)]
            words = tuple((e - 1 - len(word), e - 1) for word, e in zip(example.texts, ends, strict=True))
        if spans is not None:
            annotated[index] = _spans(spans, text or " ".join(example.texts), words, example.where)
    everything = [span for spans in annotated.values() for span in spans]
    have_texts = any(text for _, text, _ in rows)
    unit, included = convention = _choose_convention(everything, have_texts, is_included)
    total, num_cut, num_inside, num_shared = plural(len(everything), "span"), 0, 0, 0
    for index, spans in annotated.items():
        tags = ["O"] * len(examples[index].texts)
        placed = [(*_place(span, convention, examples[index].where), span) for span in spans]
        for start, end, span in sorted(placed, key=lambda place: place[0] - place[1]):
            covered = [i for i, word in enumerate(span.words) if word[0] < end and word[1] > start]
            if any(tags[i] != "O" for i in covered):
                num_shared += 1
                continue
            cuts = span.cuts(convention)
            num_cut, num_inside = num_cut + any(cuts), num_inside + all(cuts)
            for i in covered:
                tags[i] = f"{'B' if i == covered[0] else 'I'}-{span.kind}"
        examples[index] = replace(examples[index], gold=tuple(tags))
    if 2 * num_inside > len(everything):
        fix = "Count characters of this text, from 0, or name its column with --text-column"
        problem = f"{num_inside:,} of {total} neither begin nor end where a word does"
        raise DataError(problem, where=rows[0][0].where, fix=fix)
    if kinds := sorted({span.kind for span in everything if span.kind.isdecimal()}, key=int):
        listed = ", ".join(kinds[:5]) + (", ..." if len(kinds) > 5 else "")
        notes.append(f"types of spans are numbers ({listed}), as ids in doccano: names would be clearer")
    counts = {
        "further annotations of the same texts left out": num_others,
        f"of {total} left out: a longer one has some of their words": num_shared,
        f"of {total} begin or end inside a word: read as whole words": num_cut,
    }
    how = f"offsets count {unit}, the end {'included' if included else 'not included'}"
    notes.append(f"{total} read as BIO tags; {how}")
    notes += [f"{count:,} {what}" for what, count in counts.items() if count]
    return examples


def _place(span: LabelledSpan, convention: Convention, where: Place | str) -> tuple[int, int]:
    if place := span.place(convention):
        return place
    own = "" if span.own_text is None else f", or its text is not {span.own_text!r}"
    problem = f"the span {span.start}-{span.end} ({span.kind}) is empty or outside the text{own}"
    raise DataError(problem, where=where, fix=f"Correct it (offsets count {convention[0]})")


def _choose_convention(spans: Sequence[LabelledSpan], have_texts: bool, is_included: bool) -> Convention:
    is_included |= any(span.start == span.end for span in spans)  # which would be empty else
    usual = ("characters", False) if have_texts else ("words", is_included)
    is_ascii = all(span.text.isascii() for span in spans)
    units = ("characters", "words") if is_ascii else (*WIDTHS, "words")
    order = [usual, *product(units, (False, True))]
    told = [span for span in spans if span.own_text is not None]
    counts = {each: sum(span.fits(each) for span in told or spans) for each in order}
    best = max(order, key=counts.__getitem__)
    if told:
        return best
    # Where endings are part of words, spans often end before a word does.
    limit = len(spans) * (0.5 if have_texts and best[0] not in ("UTF-16 units", "bytes") else 1)
    return best if counts[best] >= CLEAR * len(spans) and counts[usual] < limit else usual
