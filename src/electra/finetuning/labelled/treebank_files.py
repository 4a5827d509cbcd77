"""CoNLL-U as it is written: columns filled in a file, or a new file of running text."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from electra.data.tables.lines import Place
from electra.data.tables.table_files import Data
from electra.data.tables.word_columns import CONLLU, read_blocks
from electra.finetuning.labelled.examples import Example, Examples
from electra.finetuning.labelled.word_splitting import Spans, Splitting, is_punctuation, split_text

EMPTY = "_"


def fill(source: Data, rows: Sequence[Mapping[str, str]]) -> bytes:
    """Returns a CoNLL-U file with the columns of each word as in `rows`, and all else as it is."""
    file, rest = read_blocks(source, conllu=True), iter(rows)
    lines = []
    for _, line in file.lines:
        cells = line.split("\t")
        if len(cells) == len(file.names) and cells[0].isdecimal():
            row, new = dict(zip(file.names, cells, strict=True)), next(rest)
            cells = [new.get(name, cell) for name, cell in row.items()]
        lines.append("\t".join(cells) + "\n")
    return "".join(lines).encode()


def write(examples: Sequence[Example], rows: Sequence[Mapping[str, str]]) -> bytes:
    """Returns a CoNLL-U file of sentences; words that lie in a text without a space between say so."""
    rest, lines = iter(rows), list[str]()
    for number, example in enumerate(examples, 1):
        text = str(example.row.get("text", "")) if example.spans else " ".join(example.texts)
        lines += [f"# sent_id = {number}", f"# text = {' '.join(text.split())}"]
        ends = [end for _, end in example.spans]
        starts = [start for start, _ in example.spans[1:]]
        joined = [end == start for end, start in zip(ends, starts, strict=False)]
        for i, word in enumerate(example.texts):
            is_joined = joined[i : i + 1] == [True]
            row = {**dict.fromkeys(CONLLU, EMPTY), **next(rest)}
            row |= {"ID": str(i + 1), "FORM": word, "MISC": "SpaceAfter=No" if is_joined else EMPTY}
            lines.append("\t".join(row.values()))
        lines.append("")
    return "".join(f"{line}\n" for line in lines).encode()


def sentences_of(lines: Sequence[tuple[Place, str]], splitting: Splitting, ends: Sequence[str]) -> tuple[Examples, str]:
    """Returns the sentences of the lines of a text, and a note on how they were found.

    A paragraph is what lies between empty lines, or a line if there are none. In it, a sentence ends after
    one of the marks `ends` and punctuation that follows without a space, unless a small letter is next.
    """
    groups = [[*group] for filled, group in groupby(lines, lambda line: bool(line[1].strip())) if filled]
    is_wrapped = len(groups) > 1 and any(len(group) > 1 for group in groups)
    paragraphs = groups if is_wrapped else [[line] for group in groups for line in group]
    examples = list[Example]()
    for paragraph in paragraphs:
        text = " ".join(line.strip() for _, line in paragraph)
        words, spans = split_text(text, splitting)
        for first, last in _cuts(words, spans, ends):
            start, end = spans[first][0], spans[last - 1][1]
            own = tuple((a - start, b - start) for a, b in spans[first:last])
            row = {"text": text[start:end]}
            examples.append(Example(str(len(examples)), paragraph[0][0], words[first:last], None, row, own))
    unit = "paragraphs between empty lines" if is_wrapped else "lines"
    rule = f", and after {' '.join(ends)} unless a small letter follows" if ends else ""
    note = f"sentences end with {unit}{rule}; words are split at spaces"
    return tuple(examples), note + {"punctuation": " and punctuation"}.get(splitting, "")


def _cuts(words: Sequence[str], spans: Spans, ends: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yields the first word of each sentence, and the word behind its last."""
    first, i = 0, 0
    while i < len(words):
        i += 1
        if words[i - 1] not in ends:
            continue
        while i < len(words) and spans[i][0] == spans[i - 1][1] and all(map(is_punctuation, words[i])):
            i += 1
        if i == len(words) or not words[i][:1].islower():
            yield first, i
            first = i
    if first < len(words):
        yield first, len(words)
