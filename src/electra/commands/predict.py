"""The command `electra predict`; predictions are made by `electra.finetuning.predict`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from typing_extensions import override

from electra.commands.framework.command import Command, function
from electra.commands.framework.shared import OnBackend
from electra.data.tables.passages import is_file
from electra.data.tables.table import read_bytes, read_lines
from electra.data.tables.table_files import Data, Given, is_saved_dataset, split_name
from electra.data.text_settings import AllowUnknown
from electra.foundation.display import json_text
from electra.foundation.errors import ConfigError, DataError
from electra.foundation.options import STDIN, Names, RepeatedNames, Source, as_name, as_strings, checked_path
from electra.foundation.terminal_text import decode_argument

if TYPE_CHECKING:
    from electra.finetuning.predict import Predictions
    from electra.finetuning.task import Task


@dataclass(frozen=True)
class Predict(
    AllowUnknown,
    OnBackend,
    Command["Predictions"],
    examples=(
        "electra predict runs/reviews new.csv --out predictions.csv",
        'echo "a fine film" | electra predict runs/reviews -',
    ),
):
    """Predict labels, numbers or answers for the texts in a file with a fine-tuned model."""

    model: Source
    """A folder that electra finetune wrote, or the folder or hub name of a published classifier, tagger,
    cross-encoder or question answering model of any encoder that electra reads.
    """
    file: Source
    """The texts: a file (csv, tsv, jsonl, parquet or another table; .txt with one text per line; for tagging
    also CoNLL-U or columns; for questions also SQuAD's JSON); a single text; or - for standard input (a table
    with a header line, JSON lines, or one text per line).
    """
    _: KW_ONLY
    out: Source | None = None
    """The file to write, with the columns of the input and the predictions (default: print them). Its
    extension sets the format: .tsv, .csv, .jsonl, or .json (for questions, in the format of the
    official SQuAD scorer). A column of the input with the name of a prediction gets the ending " (input)".
    For tagging, files such as .conllu and .conll can be written as they were read, with the predicted tag
    in its column (without one, in MISC or a further column).
    """
    format: Literal["tsv", "csv", "jsonl", "json"] | None = None
    """The output format (default: by the extension of --out; tsv on the terminal)."""
    text_column: RepeatedNames = ()
    """The column with the text; for pairs, pass the option twice (default: the columns used in fine-tuning,
    or the usual names).
    """
    columns: Names = ()
    """Column names for files without a header line."""
    threshold: float | None = None
    """For taggers with two labels, such as grammatical error detection: mark words whose probability is at
    least this. With several labels per text: predict those whose probability is above this. For questions
    that may have no answer: answer none if the no-answer score exceeds this (default: 0.5; for questions the
    best threshold on dev, or else the published one).
    """
    scores: bool = False
    """For taggers: write the probability of every label for each word, not only of the predicted label."""

    @property
    def _target(self) -> Path | None:
        return None if self.out is None or self.out == "-" else checked_path(self.out, "out")

    @override
    def run(self) -> Predictions:
        from electra.finetuning.predict import open_predictor
        from electra.finetuning.score.records import format_of
        from electra.foundation.durable import commit_file

        kind, out = format_of(self._target, self.format), self._target
        file = Path(as_name(self.file, "file"))
        if out is not None and out.is_file() and file.is_file() and file.samefile(out):
            raise ConfigError("is the file of the texts", key="out", fix="Choose another name")
        name, allow = as_name(self.model, "model"), self.allow_unknown
        predictor = open_predictor(name, self.device, self.backend, allow_unknown=allow)
        endings = {split_name(file)[1], *predictor.task.writes}
        if kind == "words" and out is not None and out.suffix.lower() not in endings:
            fix = "End the name as that of the texts, or in .tsv"
            raise ConfigError("not the format of the texts", key="out", fix=fix)
        columns, texts = as_strings(self.columns, "columns"), as_strings(self.text_column, "text_column")
        source = source_of(as_name(self.file, "file"), predictor.task, texts, columns)
        predictions = predictor(source, texts, columns, self.threshold, self.scores)
        if out is not None:
            commit_file(out, predictions.content(kind))
        return predictions

    @override
    def main(self) -> int:
        predictions = self.run()
        if self._target is None:
            text = predictions.content(self.format or "tsv").decode()
            sys.stdout.write(json_text(text) if self.format in ("json", "jsonl") else text)
        else:
            counts = ", ".join(f"{label} {count}" for label, count in predictions.counts().items())
            written = f"{len(predictions.rows()) - 1} predictions in {self.out}"
            sys.stdout.write(f"{written}{': ' if counts else ''}{counts}\n")
        if predictions.truncated:
            texts = "text was" if predictions.truncated == 1 else "texts were"
            limit = f"truncated to {predictions.max_length} tokens"
            sys.stderr.write(f"{predictions.truncated} {texts} {limit}\n")
        sys.stderr.writelines(f"{note}\n" for note in predictions.notes)
        return 0


predict = function(Predict)


def source_of(name: str, task: Task, text_column: Sequence[str] = (), columns: Sequence[str] = ()) -> Data:
    """Returns what `name` names: a file, or a text, piped input or the lines of a .txt file as `Given`."""
    path = Path(name)
    is_stdin = name in (STDIN, "/dev/stdin")
    if is_stdin or (path.exists() and not path.is_file() and not path.is_dir()):
        name, content = "standard input", sys.stdin.buffer.read() if is_stdin else path.read_bytes()
    elif not name.strip() or (" " in name.strip() and not is_file(path)):
        name, content = "the text", decode_argument(name).encode("utf-8", "surrogatepass")
    elif not path.exists() and not path.suffix:
        fix = "Pipe a text of one word into electra predict MODEL -"
        raise DataError("no such file", where=name, fix=fix)
    elif path.is_dir() and not is_saved_dataset(path):
        raise DataError("is a folder, not a file", where=path, fix="Pass a file")
    elif task.head == "classifier" and path.is_file() and split_name(path)[1] == ".txt":
        content = read_bytes(path)
    else:
        return path
    # Content without a file name: in the format that the task can read and its first line suggests.
    if not content.strip():
        raise DataError("no text", where=name, fix="Pass a text, or a file")
    first_line = content.lstrip().partition(b"\n")[0].decode("utf-8-sig", "replace")
    single_column = next((names[0] for names in task.texts if len(names) == 1), None)
    if first_line.startswith("["):
        with suppress(ValueError, RecursionError):
            items = json.loads(content)
            if all(isinstance(item, dict) for item in items):
                return Given(name, content, ".json")
            if single_column is not None and all(isinstance(item, str) for item in items):
                return Given(name, rows=[{single_column: item} for item in items])
    ending = ".jsonl" if first_line.startswith("{") else ".tsv" if "\t" in first_line else ".csv"
    if task.head == "reader":
        is_squad = first_line.rstrip() == "{" or '"paragraphs"' in first_line or '"data"' in first_line
        return Given(name, content, ".json" if is_squad else ".jsonl")
    if task.head == "tagger" and ending != ".jsonl":
        return Given(name, content, ".txt")
    is_line = name == "the text" and b"\n" not in content
    cells = {cell.strip(' "\r').casefold() for cell in re.split("[\t,;]", first_line)}
    is_header = bool(text_column) or any({each.casefold() for each in names} <= cells for names in task.texts)
    if ending == ".jsonl" or columns or (is_header and not is_line) or single_column is None:
        return Given(name, content, ending)
    # The task reads single texts, the first line is no header, and no column was named: lines are rows.
    lines = read_lines(Given(name, content, ".txt"))
    return Given(name, rows=[{single_column: line} for _, line in lines])
