"""Predict labels or numbers for the texts of a file with a fine-tuned model."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

from electra.commands.cli.arguments import Positional, Repeated
from electra.commands.cli.output import json_text
from electra.foundation.machine import Device


@dataclass(frozen=True)
class Arguments:
    model: Positional[str]
    """What `electra finetune` wrote, or any fine-tuned ELECTRA's folder or hub name."""
    file: Positional[str]
    """The file to predict: csv, tsv, jsonl, parquet or another table; for taggers also CoNLL-U, columns, or
    .txt with a sentence on each line; for questions also SQuAD's JSON. - is standard input: a table with a
    header line, JSON lines, or a text on each line.
    """
    out: str = "-"
    """Where to write the predictions, beside the file's own columns; - is the terminal. The file extension
    sets the format: .tsv, .csv, .jsonl, .parquet or .json (for questions, the file of the official scorers).
    """
    format: Literal["tsv", "csv", "jsonl", "parquet", "json"] | None = None
    """The format (default: by the extension of --out; tsv on the terminal)."""
    text_column: Repeated[tuple[str, ...]] = ()
    """The column of the text; for a pair pass the option twice (default: as in fine-tuning, or the usual
    names).
    """
    columns: tuple[str, ...] = ()
    """The columns' names, for files without a header line."""
    encoding: str | None = None
    """Encoding of csv and tsv files, such as cp1252 (default: UTF-8, or a guess where that fails)."""
    threshold: float | None = None
    """For a tagger with two labels, such as grammatical error detection: mark a word where its probability is
    at least this (default: 0.5). For questions that may have no answer: give none where the null odds exceed
    this (default: the best threshold on dev, else the published one).
    """
    scores: bool = False
    """For a tagger: write the probability of every label for each word, not of the predicted one alone."""
    device: Device = "auto"
    """Where to compute (auto: a CUDA GPU when there is one; mps: an Apple GPU)."""
    backend: Literal["torch", "onnx"] = "torch"
    """What computes: onnx runs a folder of `electra export --format onnx`, on the CPU."""


def run(arguments: Arguments) -> int:
    from electra.commands.workflow.predict import predict

    shown = arguments.out == "-"
    predictions = predict(**vars(arguments) | ({"out": None} if shown else {}))
    if shown:
        content = predictions.content(arguments.format or "tsv")
        if arguments.format == "parquet":
            sys.stdout.buffer.write(content)
        else:
            text = content.decode()
            sys.stdout.write(json_text(text) if arguments.format in ("json", "jsonl") else text)
    else:
        counts = ", ".join(f"{label} {count}" for label, count in predictions.counts().items())
        told = f"{len(predictions.rows()) - 1} predictions in {arguments.out}"
        sys.stdout.write(f"{told}{': ' if counts else ''}{counts}\n")
    if predictions.truncated:
        longer = f"longer than {predictions.max_length} tokens and were cut"
        sys.stderr.write(f"{predictions.truncated} texts are {longer}\n")
    sys.stderr.writelines(f"{note}\n" for note in predictions.notes)
    return 0
