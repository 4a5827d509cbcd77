"""Turn each text into a vector, to search, cluster or compare texts."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from electra.commands.cli.arguments import Positional
from electra.commands.cli.output import json_text
from electra.foundation.machine import Device


@dataclass(frozen=True)
class Arguments:
    model: Positional[str]
    """A run folder, a model folder, or a name on the hub."""
    texts: Positional[str]
    """A text, or a file of texts: one on each line, or in a column of a csv, tsv, jsonl or parquet; - reads
    the lines of standard input.
    """
    out: Path | None = None
    """The file to write. .npy holds the vectors alone (float32, one row per text); .jsonl and .parquet also
    hold the texts or the table's columns (default: .jsonl on the terminal).
    """
    text_column: str = "text"
    """The column of a table that holds the texts."""
    pooling: Literal["auto", "mean", "max", "last", "cls"] = "auto"
    """What represents the whole text: the mean of its tokens, or [CLS] (auto: as the model's folder says)."""
    device: Device = "auto"
    """Where to compute (auto: a CUDA GPU when there is one; mps: an Apple GPU)."""
    backend: Literal["torch", "onnx"] = "torch"
    """What computes: onnx runs a folder of `electra export --format onnx`, on the CPU."""


def run(arguments: Arguments) -> int:
    from electra.commands.workflow.display import Terminal
    from electra.commands.workflow.model import load
    from electra.commands.workflow.vectors import check_format, json_lines, texts_of, write_vectors

    if arguments.out is not None:
        check_format(arguments.out)
    texts, rows = texts_of(arguments.texts, arguments.text_column)
    model = load(arguments.model, device=arguments.device, backend=arguments.backend)
    pooling = None if arguments.pooling == "auto" else arguments.pooling
    if arguments.out is None:
        for line in json_lines(rows, model.embed(texts, pooling=pooling)):
            sys.stdout.write(json_text(line))
        return 0
    with Terminal(lines=True) as display:
        vectors = model.embed(texts, pooling=pooling, progress=display)
    write_vectors(arguments.out, rows, vectors)
    count, width = vectors.shape
    sys.stdout.write(f"{count:,} vector{'s' * (count != 1)} of {width} in {arguments.out}\n")
    return 0
