"""Predict labels or numbers for the texts of a file with a fine-tuned model."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from electra.cli.arguments import Positional, Repeated


@dataclass(frozen=True)
class Arguments:
    model: Positional[str]
    """What `electra finetune` wrote, or any fine-tuned ELECTRA's folder or hub name."""
    file: Positional[Path]
    """What the task reads: csv, tsv, jsonl or parquet; for tagging also CoNLL-U and columns; for questions
    also SQuAD's JSON.
    """
    out: Path | None = None
    """Where to write the predictions: tsv, or csv or JSON where the name ends so; JSON of questions is the
    official scorers' file (default: the terminal).
    """
    text_column: Repeated[tuple[str, ...]] = ()
    """The column of the text; for a pair pass the option twice (default: as in fine-tuning, or the usual
    names).
    """
    columns: tuple[str, ...] = ()
    """The columns' names, for a file without a header line."""
    threshold: float | None = None
    """For questions that may have no answer: none is given where null odds exceed this (default: what was
    best on dev, else the published one).
    """
    device: Literal["auto", "cpu", "cuda"] = "auto"


def run(arguments: Arguments) -> int:
    from collections import Counter

    from electra.durable import commit_file
    from electra.finetuning.predict import predict
    from electra.labelled.tables import format_csv, format_tsv

    predictions = predict(
        arguments.model,
        arguments.file,
        arguments.text_column,
        arguments.columns,
        arguments.device,
        arguments.threshold,
    )
    rows = predictions.rows()
    ending = arguments.out.suffix if arguments.out else ""
    content = (
        predictions.to_json()
        if ending == ".json"
        else format_csv(rows)
        if ending == ".csv"
        else format_tsv(rows)
    )
    if arguments.out is None:
        sys.stdout.write(content.decode())
    else:
        commit_file(arguments.out, content)
        labelled = (
            rows[0].index("label") if "label" in rows[0] else None
        )  # numbers and answers are not counted
        counts = Counter(row[labelled] for row in rows[1:]) if labelled is not None else Counter()
        labels = (
            ": " + ", ".join(f"{label} {count}" for label, count in counts.most_common()) if counts else ""
        )
        sys.stdout.write(f"{len(rows) - 1} predictions in {arguments.out}{labels}\n")
    if predictions.truncated:
        sys.stderr.write(
            f"{predictions.truncated} texts are longer than {predictions.max_length} tokens and were cut\n"
        )
    for note in predictions.notes:
        sys.stderr.write(note + "\n")
    return 0
