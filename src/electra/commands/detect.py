"""The command `electra detect`; words are scored by `electra.inference`."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from heapq import nlargest
from itertools import groupby, islice, tee
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from typing_extensions import override

from electra.artifacts.finetuning_files import FinetuningFolder
from electra.artifacts.model_files import Scorer
from electra.commands.framework.command import Command, function
from electra.commands.framework.shared import OnTexts, target_of
from electra.commands.results.rows import Rows
from electra.data.tables.passages import CONLL, Passage, read_passages, text_files
from electra.data.tables.printed import LineEnds, tokens_by
from electra.data.tables.scanned import SCANNED
from electra.data.tables.table_files import TABLES, split_name
from electra.foundation.config import check_at_least
from electra.foundation.display import json_text
from electra.foundation.durable import commit_file, sha256
from electra.foundation.errors import ConfigError, Note, NoWords
from electra.foundation.options import STDIN, OnCommandLine, Source, checked_path
from electra.foundation.progress import doing
from electra.foundation.terminal_text import make_visible, one_line, plural, when
from electra.inference.model import Model, load

if TYPE_CHECKING:
    from electra.artifacts.journal import Journal
    from electra.inference.detection import Detection, Span
    from electra.inference.detector import Detector, Marking

    Found = tuple[Passage, Detection]

FORMATS = (".csv", ".jsonl", ".txt")
ADDED = ("file", "line", "score", "marked", "words")  # to the columns of a text
TEXT_SHOWN = 20  # characters of a text on each side of one of its words
FEW = 8  # marked words of a text for each of which more than one suggestion is printed
MOST, SHOWN = 20, 60  # rows and characters of their texts that --by prints
ROWS = 1000  # that are in memory while a file is written
SETTINGS = (
    "by",
    "budget",
    "scorer",
    "suggestions",
    "near",
    "text_column",
    "keep_hyphens",
    "copies",
    "correct",
)
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
        "electra detect tiny-en scans/ --near --copies checked/ --correct 90%",
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
    copies: Source | None = None
    """Folder for a copy of each scan (ALTO, hOCR, PAGE XML) or .txt file, the same but for marked words:
    these have a suggestion beside them and the model's confidence; in a .txt file, [word|suggestion].
    """
    correct: Annotated[float | str | None, OnCommandLine(str | None)] = None
    """In copies, replace a word from this probability that it is wrong and the suggestion right (95%)."""
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
        if self.by or self.copies:
            return cast("list[Detection]", Rows(self._ranked(detector, marking)[0]))
        found = [*self._found(detector, marking)]
        if out is not None:
            commit_file(out, self._content(out.suffix.lower(), self._rows(found)))
        return [each for _, each in found]

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

    def _found(self, detector: Detector, marking: Marking, texts: Any = None, is_long: bool = False) -> Iterator[Found]:
        source = read_passages(texts or self.texts, self.text_column, self._ends(detector))
        if (self.out or self.top or self.by) and not is_long:  # progress tells their number
            passages: Iterable[Passage] = [*source]
            texts = [each.text for each in passages]
        else:
            source, passages = tee(source)
            texts = (each.text for each in source)
        suggestions = self.suggestions if self.by in (None, "word") or self.copies else 0
        how = suggestions, self.near, self.allow_unknown
        return zip(passages, detector(texts, marking.threshold, *how), strict=True)

    def _ranked(self, detector: Detector, marking: Marking) -> tuple[Iterator[dict[str, Any]], int, str]:
        """Writes the output and copies; returns rows, the most in need first, how many, and a summary."""
        from electra.artifacts.journal import Journal
        from electra.inference.worst import LOOSE, Ranked, in_order

        out, folder = target_of(self.out, FORMATS, self.texts), target_of(self.copies, (), self.texts)
        beside = out or folder
        networks = [each for each in (detector.discriminator, detector.language_model) if each is not None]
        model = [sha256(file) for each in networks for file in sorted(each.folder.glob("*.*")) if file.is_file()]
        options = [str(getattr(self, name)) for name in SETTINGS]
        journal = Journal(beside and beside.with_name(f".{beside.name}.part"), [*model, marking.threshold, *options])
        self._read_files(detector, marking, journal)
        ranked = [Ranked(*row) for _, rows in journal.files.values() for row in rows]
        budget = _share(self.budget or 1, "budget", most=1)

        def rows() -> Iterator[dict[str, Any]]:
            return islice(in_order(ranked, budget, with_pages=self.by == "line"), self.top)

        if out is not None:
            commit_file(out, partial(self._write, out.suffix.lower(), rows()))
        journal.close()
        sums = [[0] * 5, *(sums for sums, _ in journal.files.values())]
        marked, words, suspects, replaced, left = map(sum, zip(*sums, strict=True))
        line = _estimate(marked, words, detector.marking(None, LOOSE).wrong(suspects, words))
        if left:
            why = "divided at a line end, with markup within, or in PAGE before 2016"
            warnings.warn(f"{plural(left, 'marked word')} left without a suggestion: {why}", Note, stacklevel=2)
        if folder is not None:
            line += f"\n{plural(len(sums) - 1, 'file')} in {folder}: {plural(replaced, 'word')} replaced"
        return rows(), min(len(ranked), self.top or len(ranked)), line

    def _write(self, kind: str, rows: Iterator[dict[str, Any]], path: Path) -> None:
        size = ROWS if self.by != "word" else None  # words of scans have a column more
        with open(path, "wb") as file:
            for i, few in enumerate(iter(lambda: [*islice(rows, size)], [])):
                content = self._content(kind, few)
                file.write(content if kind == ".jsonl" or i == 0 else content.partition(b"\n")[2])

    def _read_files(self, detector: Detector, marking: Marking, journal: Journal) -> None:
        """Reads the files that the journal lacks; a pipe has a new name each time."""
        names, copies, files = dict[str, str](), self._copies(), text_files(self.texts)
        for file in files:
            names[str(file)] = f"{file} {sha256(file) if file.is_file() else token_hex()}"
        journal.files = {name: read for name, read in journal.files.items() if name in names.values()}
        left = [file for file in files if names[str(file)] not in journal.files]
        if len(left) < len(files):
            said = f"{len(files) - len(left)} of {plural(len(files), 'file')} were read before it stopped"
            warnings.warn(said, Note, stacklevel=2)
        if files and not left:
            return
        found = self._found(detector, marking, left if len(left) < len(files) else None, len(left) > 1)
        try:
            for i, (name, members) in enumerate(groupby(found, key=lambda each: each[0].file), 1):
                read = self._of_file(detector, marking, [*members], copies.get(name))
                journal.add(names.get(name, name), read)
                doing("detecting", i / len(left) if len(left) > 1 else None)
        except NoWords:
            if not journal.files:
                raise
        for file in left:
            if (name := names[str(file)]) not in journal.files:  # it has no words
                if copies:
                    commit_file(copies[str(file)], file.read_bytes())
                journal.add(name, ([0] * 5, []))

    def _of_file(
        self, detector: Detector, marking: Marking, found: list[Found], copy: Path | None
    ) -> tuple[list[int], list[Any]]:
        """Returns sums (words that are marked, all, suspects, replaced, left) and `Ranked`; writes a copy."""
        from electra.data.tables.corrections import corrected
        from electra.inference.worst import LOOSE, Ranked, corrections, parts, suspicion

        sums, ranked = [0] * 5, list[Ranked]()
        if copy is not None:
            sure = _share(self.correct, "correct", most=1) if self.correct is not None else 2.0
            each_text = [(passage, corrections(each)) for passage, each in found]
            content, counts = corrected(Path(found[0][0].file), each_text, sure)
            commit_file(copy, content)
            sums[3:] = counts[1:]
        if self.by == "word":
            each_word = ((passage, each, word) for passage, each in found for word in each.marked)
            ranked = [Ranked(json.dumps(_word_row(*each)), each[2].p_replaced) for each in each_word]
        curve, loose = detector.calibration.curves.get(detector.scorer), detector.marking(None, LOOSE)
        for part in parts(found, "page" if self.by in (None, "word") else self.by):
            thresholds, size = (marking.threshold, loose.threshold), len(part.words)
            above, wrong = (sum(word.p_replaced >= each for word in part.words) for each in thresholds)
            sums[:3] = sums[0] + above, sums[1] + size, sums[2] + wrong
            if self.by == "word":
                continue
            row = part.place | {"words": size, "marked": above}
            row |= dict(zip(WRONG, loose.wrong(wrong, size) or [None] * 3, strict=True)) | {"suspicion": None}
            row |= ({"send": None} if self.budget else {}) | {"text": part.text}
            ranked.append(Ranked(json.dumps(row), suspicion(part.words, curve), size, part.page))
        return sums, ranked

    def _copies(self) -> dict[str, Path]:
        """Returns the copy of each file. Raises ConfigError for one that cannot have suggestions."""
        if (folder := target_of(self.copies, (), self.texts)) is None:
            return {}
        files, texts = text_files(self.texts), self.texts
        other = next((file for file in files if file.suffix.lower() not in (*SCANNED, ".txt")), None)
        if other or not files:
            what = f"{other} has no place for suggestions" if other else "needs files of scans or .txt files"
            raise ConfigError(what, key="copies", fix="Pass hOCR, ALTO, PAGE XML or .txt files")
        root = texts if isinstance(texts, str | os.PathLike) and os.path.isdir(texts) else None
        copies = {str(file): folder / (file.relative_to(root) if root else file.name) for file in files}
        written = {os.path.realpath(copy) for copy in copies.values()}
        if len(written) < len(files) or written & {os.path.realpath(file) for file in files}:
            raise ConfigError("would overwrite a file", key="copies", fix="Choose a new folder")
        return copies

    def _check_by(self) -> None:
        if self.budget is not None:
            _share(self.budget, "budget", most=1)
            if self.by == "word" or not (self.by or self.copies):
                raise ConfigError("needs --by page, line or text", key="budget")
        if self.correct is not None:
            _share(self.correct, "correct", most=1)
            if self.copies is None:
                raise ConfigError("needs --copies", key="correct")
        self._copies()
        if self.by or self.copies:
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
        if self.by or self.copies:
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
        detector, marking = self._detector()
        rows, count, line = self._ranked(detector, marking)
        sys.stderr.writelines(f"note: {one_line(note)}\n" for note in detector.main.notes)
        if self.json and self.out is None:
            sys.stdout.write(json_text(self._content(".jsonl", [*rows]).decode()))
        elif self.out is not None:
            shown = f"{plural(count, self.by or 'page')} in {make_visible(str(self.out))}"
            sys.stdout.write(when(not self.json, f"{shown}\n{line}\n"))
        else:
            few = Rows(_cells(row | {"text": row["text"][:SHOWN]}) for row in islice(rows, self.top or MOST))
            more = when(count > len(few), f"... {count:,} rows; --out writes them all\n")
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
