"""The command `electra embed`; vectors are computed by `electra.inference.embedding`."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from electra.artifacts.model_files import Pooling
from electra.commands.framework.command import Command, function
from electra.commands.framework.shared import OnTexts, target_of
from electra.data.tables.passages import read_passages
from electra.data.tables.printed import LineEnds, tokens_by
from electra.foundation import durable
from electra.foundation.display import display_for, json_text
from electra.foundation.options import Source
from electra.foundation.terminal_text import plural
from electra.inference.model import load

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
    """The file to write. .npy contains only the vectors (float32, one row per text; NaN for an empty text);
    .jsonl also contains the texts or the columns of the table (default: print JSON lines).
    """
    pooling: Pooling | None = None
    """How token vectors become one vector: their mean or maximum, the last token, or [CLS] (default: as in
    the model's folder, else the mean).
    """

    @override
    def run(self) -> Vectors:
        return self._embed()[1]

    def _embed(self) -> tuple[Rows, Vectors]:
        out = target_of(self.out, FORMATS, self.texts)
        model = load(self.model, device=self.device, backend=self.backend)
        ends = LineEnds(tokens_by(lambda: model.encoder.tokenizer), self.keep_hyphens)
        found = [*read_passages(self.texts, self.text_column, ends)]
        texts, rows = [each.text for each in found], [each.row for each in found]
        with display_for(self.progress) as display:
            vectors = model.embed(texts, pooling=self.pooling, allow_unknown=self.allow_unknown, progress=display)
            if out is not None:
                display.progress(f"writing {out}")
                durable.commit_file(out, _content(out.suffix.lower(), rows, vectors))
        return rows, vectors

    @override
    def main(self) -> int:
        rows, vectors = self._embed()
        if self.out is None:
            sys.stdout.write(json_text(_content(".jsonl", rows, vectors).decode()))
        else:
            count, width = vectors.shape
            sys.stdout.write(f"{plural(count, 'vector')} of {width} dimensions in {self.out}\n")
        return 0


embed = function(Embed)


def _content(kind: str, rows: Rows, vectors: Vectors) -> bytes:
    """Returns vectors, float32 [N, D], alone (.npy) or, with digits that restore them, as a column."""
    if kind == ".jsonl":
        from electra.finetuning.score.records import format_records
        from electra.inference.embedding import as_json

        columns = (as_json(vector) for vector in vectors)
        records = [{**row, "vector": each} for row, each in zip(rows, columns, strict=True)]
        return format_records(records, "jsonl")
    import numpy as np

    content = io.BytesIO()
    np.save(content, vectors)
    return content.getvalue()
