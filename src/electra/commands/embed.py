"""The command `electra embed`; vectors are computed by `electra.inference.embedding`."""

from __future__ import annotations

import sys
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from typing_extensions import override

from electra.artifacts.model import Pooling
from electra.commands.framework.command import Command, function
from electra.commands.framework.display import display_for, json_text
from electra.commands.parts.shared import OnTexts
from electra.commands.parts.vectors import Rows, check_format, json_lines, texts_of, write_vectors
from electra.commands.results.model import load
from electra.foundation.options import Source, checked_path

if TYPE_CHECKING:
    from electra.foundation.arrays import Vectors


@dataclass(frozen=True)
class Embed(
    OnTexts,
    Command["Vectors"],
    examples=(
        "electra embed tiny-en texts.txt --out vectors.npy",
        "electra embed runs/mine films.csv --text-column review --out films.parquet",
    ),
):
    """Turn each text into a vector, to search, cluster or compare texts."""

    _: KW_ONLY
    out: Source | None = None
    """The file to write. .npy contains only the vectors (float32, one row per text); .jsonl and .parquet also
    contain the texts or the columns of the table (default: print JSON lines).
    """
    pooling: Pooling | None = None
    """How token vectors become one vector: their mean or maximum, the last token, or [CLS] (default: as in
    the model's folder, else the mean).
    """

    @override
    def run(self) -> Vectors:
        return self._embed()[1]

    def _embed(self) -> tuple[Rows, Vectors]:
        out = None if self.out is None else checked_path(self.out, "out")
        if out is not None:
            check_format(out)
        texts, rows = texts_of(self.texts, self.text_column)
        model = load(self.model, device=self.device, backend=self.backend)
        with display_for(self.progress) as display:
            vectors = model.embed(
                texts, pooling=self.pooling, allow_unknown=self.allow_unknown, progress=display
            )
            if out is not None:
                display.progress(f"writing {out}")
                write_vectors(out, rows, vectors)
        return rows, vectors

    @override
    def main(self) -> int:
        rows, vectors = self._embed()
        if self.out is None:
            for line in json_lines(rows, vectors):
                sys.stdout.write(json_text(line))
        else:
            count, width = vectors.shape
            sys.stdout.write(f"{count:,} vector{'s' * (count != 1)} of {width} dimensions in {self.out}\n")
        return 0


embed = function(Embed)
