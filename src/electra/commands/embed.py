from __future__ import annotations

import sys
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from electra.artifacts.model import Pooling
from electra.commands.framework.command import Command, Source, function
from electra.commands.framework.display import display_for
from electra.commands.framework.output import json_text
from electra.commands.parts.shared import OnBackend
from electra.commands.parts.vectors import Rows, Texts, check_format, json_lines, texts_of, write_vectors
from electra.commands.results.artifact import given_path
from electra.commands.results.model import load

if TYPE_CHECKING:
    from electra.foundation.arrays import Vectors


@dataclass(frozen=True)
class Embed(
    OnBackend,
    Command["Vectors"],
    group="Use",
    examples=(
        "electra embed tiny-en texts.txt --out vectors.npy",
        "electra embed runs/mine films.csv --text-column review --out films.parquet",
    ),
):
    """Turn each text into a vector, to search, cluster or compare texts."""

    model: Source
    """A run folder, a model folder, or a name on the hub."""
    texts: Texts
    """A text, or a file of texts: one on each line, or in a column of a csv, tsv, jsonl or parquet; - reads
    the lines of standard input. In Python also several texts.
    """
    _: KW_ONLY
    out: Source | None = None
    """The file to write. .npy holds the vectors alone (float32, one row per text); .jsonl and .parquet also
    hold the texts or the table's columns (default: .jsonl on the terminal).
    """
    text_column: str = "text"
    """The column of a table that holds the texts."""
    pooling: Pooling | None = None
    """What represents the whole text: the mean or the largest values of its tokens, the last one, or [CLS]
    (default: as the model's folder says, the mean where it says nothing).
    """

    def run(self) -> Vectors:
        return self._embed()[1]

    def _embed(self) -> tuple[Rows, Vectors]:
        out = None if self.out is None else given_path(self.out, "out")
        if out is not None:
            check_format(out)
        texts, rows = texts_of(self.texts, self.text_column)
        model = load(self.model, device=self.device, backend=self.backend)
        with display_for(self.progress if out is not None else "quiet") as display:
            vectors = model.embed(texts, pooling=self.pooling, progress=display)
        if out is not None:
            write_vectors(out, rows, vectors)
        return rows, vectors

    def main(self) -> int:
        rows, vectors = self._embed()
        if self.out is None:
            for line in json_lines(rows, vectors):
                sys.stdout.write(json_text(line))
        else:
            count, width = vectors.shape
            sys.stdout.write(f"{count:,} vector{'s' * (count != 1)} of {width} in {self.out}\n")
        return 0


embed = function(Embed)
