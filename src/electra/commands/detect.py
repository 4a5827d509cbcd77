"""The command `electra detect`; words are scored by `electra.inference`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from heapq import nlargest
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from typing_extensions import override

from electra.artifacts.finetuning_files import FinetuningFolder
from electra.artifacts.model_files import Scorer
from electra.commands.framework.command import Command, function
from electra.commands.framework.shared import OnTexts, target_of
from electra.commands.results.rows import Rows
from electra.data.tables.passages import CONLL, Passage, read_passages, text_files
from electra.data.tables.printed import LineEnds, tokens_by
from electra.data.tables.table_files import TABLES, split_name
from electra.foundation.config import check_at_least
from electra.foundation.display import json_text
from electra.foundation.durable import commit_file
from electra.foundation.errors import ConfigError
from electra.foundation.options import STDIN, OnCommandLine, Source, checked_path
from electra.foundation.terminal_text import make_visible, one_line, plural, when
from electra.inference.model import Model, load

if TYPE_CHECKING:
    from electra.inference.detection import Detection, Span
    from electra.inference.detector import Detector, Marking

    Found = tuple[Passage, Detection]

FORMATS = (".csv", ".jsonl", ".txt")
ADDED = ("file", "line", "score", "marked", "words")  # to the columns of a text
TEXT_SHOWN = 20  # characters of a text on each side of one of its words
FEW = 8  # marked words of a text for each of which more than one suggestion is printed
MOST, SHOWN = 20, 60  # rows and characters of their texts that --by prints
WRONG = ("wrong", "wrong_low", "wrong_high")
RATES = (0.01, 0.03, 0.1)  # of wrong words, for which the summary states the precision


@dataclass(frozen=True)
class Detect(
    OnTexts,
    Command["list[Detection]"],
    examples=(
        'electra detect tiny-en "They walked along the riyer to the old church."',
        "electra detect small-en scanned.txt --clean corrected.txt --near --out marked.csv",
        "electra detect runs/mine texts.txt --top 20",
        "electra detect tiny-en scans/ --by line --budget 30% --out worst.csv",
    ),
):
    """Mark the words of a text that look wrong or out of place, each with other words that fit."""

    texts: Annotated[Source | Iterable[str], OnCommandLine(tuple[str, ...])]
    """A text, or files or folders of texts: one per line, or in a column of a csv, tsv, jsonl or parquet
    file; - reads lines from standard input. hOCR, ALTO, PAGE and DjVu XML are read by paragraph, CoNLL by
    sentence. In Python, several texts, or several Path.
    """
    _: KW_ONLY
    by: Literal["page", "line", "text", "word"] | None = None
    """Rank pages (a .txt file is one), lines, texts (paragraphs, rows) or marked words, those that need a
    correction most first, with an estimate of their wrong words, if errors are like made-up ones.
    """
    budget: Annotated[float | str | None, OnCommandLine(str | None)] = None
    """With --by: a column `send` says what to send first, up to this share of all words (30%)."""
    false_alarms: Annotated[float | str, OnCommandLine(str)] = "1%"
    """Mark from the P(replaced) that this share of clean words reaches. It is measured on --clean, or was
    when the model was made; for a model without such a record, words are marked from the threshold that is
    best for its generator's samples (0.5 for a model that has none).
    """
    clean: Annotated[Source | Iterable[str] | None, OnCommandLine(str | None)] = None
    """Clean text like yours to measure --false-alarms on: a file; 1,000 words or more for 1%."""
    threshold: float | None = None
    """Mark words whose P(replaced) is at least this, whatever the share of false alarms."""
    scorer: Scorer = "auto"
    """What scores the words. The discriminator reads a text once; the language model, six times, with every
    sixth word masked, and is better at errors that a generator would not have made. both: the two together,
    with the word's length, capital and number of tokens. auto: the best on errors made up in the model's
    clean text, or else the language model if there is a full-size one, or the discriminator. The folder of a
    fine-tuning for the task ged scores by its probability of i; the model it began with suggests words.
    """
    suggestions: int = 3
    """How many words to suggest for each marked word, by the language model (0: none)."""
    near: bool = False
    """Suggest only near spellings of the marked word, as for scanned or typed text."""
    top: int | None = None
    """Print or write only this many words, the most suspicious of all texts first, marked or not, with their
    places. (In Python, for `out`.)
    """
    out: Source | None = None
    """The file to write: .csv or .jsonl with the columns of the input, a score of each text (the mean of
    -log(1 - P(replaced)) of its words) and the marked words; or .txt with **marked** words. A column of the
    input with the name of one of these gets the ending " (input)".
    """
    json: bool = False
    """Print a JSON object for each text, with the marked words (for --top, for each word). Offsets count
    Unicode code points, as in Python.
    """

    @override
    def run(self) -> list[Detection]:
        out, (detector, marking) = target_of(self.out, FORMATS, self.texts), self._detector()
        found = [*self._found(detector, marking)] if self.by is None else []
        rows = self._ranked(detector, marking)[0] if self.by else self._rows(found) if out else []
        if out is not None:
            commit_file(out, self._content(out.suffix.lower(), rows))
        return cast("list[Detection]", Rows(rows)) if self.by else [each for _, each in found]

    def _detector(self) -> tuple[Detector, Marking]:
        check_at_least(self, {"suggestions": 0, "top": 1})
        self._check_by()
        folder = None if isinstance(self.model, Model) else FinetuningFolder(Path(self.model).expanduser())
        if folder and self.scorer == "auto" and folder.exists() and folder.record.get("task") == "ged":
            from electra.finetuning.tagged_words import open_tagger

            suggests = self.suggestions > 0
            detector = open_tagger(folder, self.device, self.backend, self.allow_unknown, suggests)
        else:
            model: Model = load(self.model, device=self.device, backend=self.backend)
            detector = model.detector(self.scorer)
        clean = self.clean
        if isinstance(clean, str | os.PathLike):
            clean = (each.text for each in read_passages(clean, ends=self._ends(detector)))
        return detector, detector.marking(self.threshold, _share(self.false_alarms, "false_alarms"), clean)

    def _found(self, detector: Detector, marking: Marking) -> Iterator[Found]:
        texts: Iterable[str]
        if self.out or self.top or self.by:  # progress tells their number
            passages: Iterable[Passage] = [*read_passages(self.texts, self.text_column, self._ends(detector))]
            texts = [each.text for each in passages]
        else:
            source, passages = tee(read_passages(self.texts, self.text_column, self._ends(detector)))
            texts = (each.text for each in source)
        suggestions = self.suggestions if self.by in (None, "word") else 0
        how = suggestions, self.near, self.allow_unknown
        return zip(passages, detector(texts, marking.threshold, *how), strict=True)

    def _ranked(self, detector: Detector, marking: Marking) -> tuple[list[dict[str, Any]], str]:
        """Returns the rows of `by`, the most in need first, and a line on all of their words."""
        from electra.inference.worst import LOOSE, Ranked, in_order, parts, suspicion

        found, by, ranked = self._found(detector, marking), str(self.by), list[Ranked]()
        loose, marked, words, suspects = detector.marking(None, LOOSE), 0, 0, 0
        if by == "word":
            each_word = ((passage, each, word) for passage, each in found for word in each.marked)
            ranked = [Ranked(_word_row(*each), each[2].p_replaced) for each in each_word]
            return [*in_order(ranked, 1, False)][: self.top], ""
        curve = detector.calibration.curves.get(detector.scorer)
        for part in parts(found, by):
            thresholds, size = (marking.threshold, loose.threshold), len(part.words)
            above, wrong = (sum(word.p_replaced >= each for word in part.words) for each in thresholds)
            row = part.place | {"words": size, "marked": above}
            row |= dict(zip(WRONG, loose.wrong(wrong, size) or [None] * 3, strict=True)) | {"suspicion": None}
            row |= ({"send": None} if self.budget else {}) | {"text": part.text}
            ranked.append(Ranked(row, suspicion(part.words, curve), size, part.page))
            marked, words, suspects = marked + above, words + size, suspects + wrong
        rows = in_order(ranked, _share(self.budget or 1, "budget", most=1), with_pages=by == "line")
        return [*rows][: self.top], _estimate(marked, words, loose.wrong(suspects, words))

    def _check_by(self) -> None:
        if self.budget is not None:
            _share(self.budget, "budget", most=1)
            if self.by in (None, "word"):
                raise ConfigError("needs --by page, line or text", key="budget")
        if self.by is not None:
            target_of(self.out, FORMATS[:2], self.texts)
        if self.by in ("page", "line"):
            files = text_files(self.texts)
            wrong = next((file for file in files if split_name(file)[1] in (*TABLES, *CONLL)), None)
            if wrong or not (files or self.texts == STDIN):
                what = f"{wrong} has no lines or pages" if wrong else "needs files of lines or scans"
                raise ConfigError(what, key="by", fix="Use --by text")

    def _ends(self, detector: Detector) -> LineEnds:
        return LineEnds(tokens_by(lambda: detector.main.tokenizer), self.keep_hyphens)

    def _rows(self, found: Iterable[Found]) -> list[dict[str, Any]]:
        if self.top is None:
            return [
                _own(passage)
                | {"file": passage.file, "line": passage.line, "score": each.rounded_score}
                | {"marked": each.with_marks(), "words": [_word(passage, each, word) for word in each.marked]}
                for passage, each in found
            ]
        every = ((word, each) for each in found for word in each[1].words)
        worst = nlargest(self.top, every, key=lambda each: each[0].p_replaced)
        return [_word_row(passage, each, word) for word, (passage, each) in worst]

    def _content(self, kind: str, rows: list[dict[str, Any]]) -> bytes:
        from electra.finetuning.score.records import format_records

        if kind == ".jsonl":
            return format_records(rows, "jsonl")
        if kind == ".txt" and self.top is None:
            return "".join(f"{row['marked']}\n" for row in rows).encode("utf-8", "replace")
        cells = Rows(map(_cells, rows))
        if kind == ".txt":
            return f"{cells.table()}\n".encode("utf-8", "replace")
        copied = () if self.top or self.by else {name for row in rows for name in row} - {*ADDED}
        return format_records(cells, "csv", copied=copied)

    @override
    def main(self) -> int:
        if isinstance(self.texts, tuple):
            several: Any = [checked_path(each, "texts") for each in self.texts[len(self.texts) == 1 :]]
            if not all(path.exists() for path in several):
                raise ConfigError("several must be files", key="texts", fix=self.ADVICE[""])
            return replace(self, texts=several or self.texts[0]).main()
        if self.by is not None:
            return self._main_ranked()
        out, (detector, marking) = target_of(self.out, FORMATS, self.texts), self._detector()
        found = self._found(detector, marking)
        sys.stderr.writelines(f"note: {one_line(note)}\n" for note in detector.main.notes)
        from rich.console import Console

        console = Console(highlight=False, soft_wrap=True)
        is_listed, num_marked, num_words = bool(out or self.top), 0, 0

        def shown() -> Iterator[Found]:
            nonlocal num_marked, num_words
            for passage, each in found:
                num_marked, num_words = num_marked + len(each.marked), num_words + len(each.words)
                if is_listed:
                    yield passage, each
                elif self.json:
                    row = json.dumps(_own(passage) | each.to_json(), ensure_ascii=False, default=str)
                    sys.stdout.write(json_text(f"{row}\n"))
                else:
                    console.print(each.for_terminal())
                    if line := _second_line(each):
                        console.print(f"  {line}", style="dim", markup=False)

        rows = self._rows(shown())
        if out is not None:
            commit_file(out, self._content(out.suffix.lower(), rows))
            num = plural(len(rows), "word" if self.top else "text")
            sys.stdout.write(when(not self.json, f"{num} in {make_visible(str(out))}\n"))
        elif is_listed:
            text = self._content(".jsonl" if self.json else ".txt", rows).decode()
            sys.stdout.write(json_text(text) if self.json else make_visible(text))
        if self.json:
            return 0
        name = "both networks" if detector.scorer == "both" else f"the {detector.scorer.replace('-', ' ')}"
        summary = f"{num_marked} of {plural(num_words, 'word')} marked (threshold {marking.threshold:.3g}"
        console.print(f"{summary}, {marking.origin}; scored by {name})", style="dim", markup=False)
        expected = ((rate, marking.precision(rate)) for rate in RATES)
        if shares := ", ".join(f"{p:.0%} are wrong if {rate:.0%} of all are" for rate, p in expected if p):
            errors = "its dev set's errors" if detector.scorer == "tagger" else "made-up errors"
            line = f"{marking.false_alarms:.1%} of clean words and {marking.recall:.0%} of {errors}"
            console.print(f"{line} are marked, so of the marked words {shares}", style="dim", markup=False)
        return 0

    def _main_ranked(self) -> int:
        out, (detector, marking) = target_of(self.out, FORMATS, self.texts), self._detector()
        rows, line = self._ranked(detector, marking)
        sys.stderr.writelines(f"note: {one_line(note)}\n" for note in detector.main.notes)
        if out is not None:
            commit_file(out, self._content(out.suffix.lower(), rows))
            shown = plural(len(rows), str(self.by))
            sys.stdout.write(when(not self.json, f"{shown} in {make_visible(str(out))}\n{line}\n"))
        elif self.json:
            sys.stdout.write(json_text(self._content(".jsonl", rows).decode()))
        else:
            few = Rows(_cells(row | {"text": row["text"][:SHOWN]}) for row in rows[: self.top or MOST])
            more = when(len(rows) > len(few), f"... {len(rows):,} rows; --out writes them all\n")
            sys.stdout.write(make_visible(f"{few.table()}\n{more}{line}\n"))
        return 0


detect = function(Detect)


def _share(value: float | str, key: str, most: float = 0.0) -> float:
    """Reads a share below 1, or up to `most`."""
    text = str(value).strip()
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share < 1 and not 0 < share <= most:
        raise ConfigError(f"must be a share such as 1% or 0.01, not {value}", key=key)
    return share


def _estimate(marked: int, words: int, found: tuple[float, float, float] | None) -> str:
    """Returns a line on the words of everything that was ranked."""
    line = f"{marked:,} of {plural(words, 'word')} marked"
    if found is None:
        return f"{line}; no estimate of the wrong ones: the model has no record of made-up errors"
    return f"{line}; wrong, if errors are like those made up for its record: {found[0] / max(words, 1):.1%}"


def _second_line(detection: Detection) -> str:
    """Returns suggestions for the marked words or, if none is marked, the most suspicious words."""
    if not detection.marked:
        likeliest = (f"{one_line(word.text)} {word.p_replaced:.2f}" for word in detection.suspects())
        return f"most suspicious: {shown}" if (shown := ", ".join(likeliest)) else ""
    most, parts = 1 if len(detection.marked) > FEW else None, list[str]()
    for word, found in zip(detection.marked, detection.suggestions, strict=False):
        shown = ", ".join(f"{one_line(each.token)} {each.p:.2f}" for each in found[:most])
        if found:
            parts.append(f"{one_line(word.text)}: {shown}")
    return "; ".join(parts)


def _around(text: str, start: int, end: int) -> str:
    return " ".join(text[max(0, start) : end].split()[start > 0 : -1 if end < len(text) else None])


def _own(passage: Passage) -> dict[str, Any]:
    return {f"{name} (input)" if name in ADDED else str(name): cell for name, cell in passage.row.items()}


def _word(passage: Passage, detection: Detection, word: Span) -> dict[str, Any]:
    found = dict(zip(detection.marked, detection.suggestions, strict=False)).get(word, ())
    row: dict[str, Any] = {"word": word.text, "column": word.start + 1}
    if names := [name for start, name in passage.words if start <= word.start]:
        row["name"] = names[-1]
    row["p_replaced"] = float(f"{word.p_replaced:.4g}")
    return row | {"suggestions": [each.token for each in found]}


def _word_row(passage: Passage, detection: Detection, word: Span) -> dict[str, Any]:
    around = _around(detection.text, word.start - TEXT_SHOWN, word.end + TEXT_SHOWN)
    row = {"file": passage.file, "line": passage.line} | _word(passage, detection, word)
    return row | {"text": around}


def _cells(row: dict[str, Any]) -> dict[str, Any]:
    """Returns a row for a table: marked words as "hridge (bridge, ridge); ..."."""
    if "words" not in row:
        return row | {"suggestions": ", ".join(row["suggestions"])}
    if not isinstance(row["words"], list):
        return row
    found = ((each["word"], ", ".join(each["suggestions"])) for each in row["words"])
    return row | {"words": "; ".join(f"{word} ({fit})" if fit else word for word, fit in found)}
