"""A fine-tuned model + a file -> predictions. `FineTuned.predict` gives them as rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from electra.workflow.artifact import Source

if TYPE_CHECKING:
    from electra.finetuning.predict import Predictions


def predict(
    model: Source,
    file: Source,
    *,
    out: Source | None = None,
    text_column: Sequence[str] = (),
    columns: Sequence[str] = (),
    threshold: float | None = None,
    device: Literal["auto", "cpu", "cuda"] = "auto",
) -> Predictions:
    """Predict each row of `file`, and write the predictions to `out`, in the format of its ending.

    model: a fine-tuning, or any fine-tuned model's folder or hub name.
    Raises ModelError, DataError and ConfigError.
    """
    from electra.durable import commit_file
    from electra.finetuning.predict import predict as answers

    found = answers(os.fspath(model), Path(file), text_column, columns, device, threshold)
    if out is not None:
        commit_file(Path(out), found.content(Path(out).suffix))
    return found
