"""A fine-tuned model + a file -> predictions. `FineTuned.predict` gives them as rows."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from electra.commands.workflow.artifact import Source, given_name, given_path, several
from electra.foundation.errors import DataError
from electra.foundation.machine import Device

if TYPE_CHECKING:
    from electra.finetuning.predict import Predictions
    from electra.finetuning.runner.records import Format
    from electra.finetuning.tasks.parts.task import Task

STANDARD_INPUT = "-"


def predict(
    model: Source,
    file: Source,
    *,
    out: Source | None = None,
    text_column: str | Sequence[str] = (),
    columns: str | Sequence[str] = (),
    encoding: str | None = None,
    threshold: float | None = None,
    scores: bool = False,
    device: Device = "auto",
    format: Format | None = None,
    backend: Literal["torch", "onnx"] = "torch",
) -> Predictions:
    """Predict each row of `file`, and write the predictions to `out`, beside the columns of the file.

    model: a fine-tuning, or any fine-tuned model's folder or hub name.
    file: "-" is standard input: rows of a table with its header line, JSON lines, or a text on each line.
    threshold: of a tagger with two labels, the probability from which a word is marked; for questions that
        may have no answer, the null odds above which none is given.
    scores: of a tagger, the probability of each label for each word.
    encoding: of a csv or tsv (None: UTF-8, or what else it looks like).
    format: of `out` (None: by its ending).
    backend: "onnx" runs a folder with a graph, on the CPU.
    Raises ModelError, DataError and ConfigError.
    """
    from electra.finetuning.predict import open_predictor
    from electra.finetuning.runner.records import format_of
    from electra.foundation.durable import commit_file

    target = None if out is None else given_path(out, "out")
    kind = format_of(target, format)
    predictor = open_predictor(given_name(model, "model"), device, backend)
    text_column, columns = several(text_column, "text_column"), several(columns, "columns")
    with as_file(given_name(file, "file"), predictor.task, text_column, columns) as path:
        found = predictor(path, text_column, columns, threshold, encoding, scores)
    if target is not None:
        commit_file(target, found.content(kind))
    return found


@contextmanager
def as_file(name: str, task: Task, text_column: Sequence[str], columns: Sequence[str]) -> Iterator[Path]:
    """The path of a file; what comes through a pipe becomes one, named by what it looks like."""
    path = Path("/dev/stdin" if name == STANDARD_INPUT else name)
    if name != STANDARD_INPUT and (path.is_file() or not path.exists()):
        yield path
        return
    if path.is_dir():
        raise DataError("this is a folder", where=path, fix="Give a file")
    content = sys.stdin.buffer.read() if path == Path("/dev/stdin") else path.read_bytes()
    first = content.lstrip().partition(b"\n")[0].decode("utf-8", "replace")
    ending = "jsonl" if first.startswith("{") else "tsv" if "\t" in first else "csv"
    if task.head == "reader":
        ending = "json" if first.rstrip() == "{" or '"paragraphs"' in first or '"data"' in first else "jsonl"
    elif task.head == "tagger" and ending != "jsonl":
        ending = "txt"
    elif ending != "jsonl" and not columns:
        cells = {cell.strip(' "\r') for cell in re.split("[\t,;]", first)}
        texts = (tuple(text_column),) if text_column else task.texts
        single = next((names[0] for names in texts if len(names) == 1), None)
        if single is not None and not any(set(names) <= cells for names in texts):
            lines = content.removesuffix(b"\n").decode("utf-8", "replace").split("\n") if content else []
            rows = (json.dumps({single: line.removesuffix("\r")}) + "\n" for line in lines)
            ending, content = "jsonl", "".join(rows).encode()
    with tempfile.TemporaryDirectory(prefix="electra-") as folder:
        spooled = Path(folder) / f"standard-input.{ending}"
        spooled.write_bytes(content)
        yield spooled
