"""The command `electra embed`; vectors are computed by `electra.inference.embedding`."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from electra.artifacts.model import Pooling
from electra.commands.framework.command import Command, function
from electra.commands.framework.display import display_for, json_text
from electra.commands.parts.given import read_passages
from electra.commands.parts.shared import OnTexts
from electra.commands.results.model import load
from electra.foundation import durable
from electra.foundation.errors import ConfigError
from electra.foundation.options import Source, checked_path

if TYPE_CHECKING:
    from electra.foundation.arrays import Vectors

Rows = Sequence[Mapping[str, Any]]
"""One record per text: the columns of the user's table, or only `text`."""
FORMATS = (".npy", ".jsonl")


@dataclass(frozen=True)
class Embed(
    OnTexts,
    Command["Vectors"],
    examples=(
        "electra embed tiny-en texts.txt --out vectors.npy",
        "electra embed runs/mine films.csv --text-column review --out films.jsonl",
    ),
):
    """Turn each text into a vector, to search, cluster or compare texts."""

    _: KW_ONLY
    out: Source | None = None
    """The file to write. .npy contains only the vectors (float32, one row per text); .jsonl also contains the
    texts or the columns of the table (default: print JSON lines).
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
        if out is not None and out.suffix.lower() not in FORMATS:
            fix = f"Use one of {', '.join(FORMATS)}"
            raise ConfigError(f"unrecognised file extension {out.suffix!r}", where=out, fix=fix)
        found = [*read_passages(self.texts, self.text_column)]
        texts, rows = [each.text for each in found], [each.row for each in found]
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


def write_vectors(out: Path, rows: Rows, vectors: Vectors) -> None:
    """Writes vectors, float32 [N, D], atomically: alone (.npy) or as a column `vector` (.jsonl)."""
    import numpy as np

    if out.suffix.lower() == ".jsonl":
        durable.commit_file(out, "".join(json_lines(rows, vectors)).encode("utf-8", "surrogatepass"))
    else:
        content = io.BytesIO()
        np.save(content, vectors)
        durable.commit_file(out, content.getvalue())


def json_lines(rows: Rows, vectors: Vectors) -> Iterator[str]:
    """Yields a line for each row: a JSON object with its vector, with enough digits to restore float32."""
    for row, vector in zip(rows, vectors, strict=True):
        record = {**row, "vector": [float(f"{value:.9g}") for value in vector]}
        yield json.dumps(record, ensure_ascii=False) + "\n"
