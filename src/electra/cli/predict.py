"""Predict labels or numbers for the texts of a file with a fine-tuned model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from electra.cli import arguments as command_line
from electra.cli.arguments import Positional
from electra.cli.finetune import gather


@dataclass(frozen=True)
class Arguments:
    model: Positional[str]
    """What `electra finetune` wrote, or any ELECTRA classifier's folder or hub name."""
    file: Positional[Path]
    """csv, tsv or jsonl, compressed or not."""
    out: Path | None = None
    """Where to write the predictions, as tsv (none: the terminal)."""
    text_column: tuple[str, ...] = ()
    """The column of the text, or the two of a pair (none: as in fine-tuning, or the usual names)."""
    columns: tuple[str, ...] = ()
    """The columns' names, for a file without a header line."""
    device: Literal["auto", "cpu", "cuda"] = "auto"


def parse(argv: Sequence[str]) -> Arguments:
    return command_line.parse(Arguments, gather(argv, "--text-column"), verb="predict", description=__doc__ or "")


def run(arguments: Arguments) -> int:
    from collections import Counter

    from electra.durable import commit_file
    from electra.finetune.predict import predict
    from electra.finetune.tables import format_tsv

    predictions = predict(arguments.model, arguments.file, arguments.text_column, arguments.columns, arguments.device)
    rows = predictions.rows()
    content = format_tsv(rows)
    if arguments.out is None:
        sys.stdout.write(content.decode())
    else:
        commit_file(arguments.out, content)
        counts = Counter(row[1] for row in rows[1:] if len(row) > 2)  # of labels; a number stands alone
        labels = ": " + ", ".join(f"{label} {count}" for label, count in counts.most_common()) if counts else ""
        sys.stdout.write(f"{len(rows) - 1} predictions in {arguments.out}{labels}\n")
    if predictions.truncated:
        sys.stderr.write(f"{predictions.truncated} texts are longer than {predictions.max_length} tokens and were cut\n")
    return 0
