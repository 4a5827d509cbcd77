"""Model + labelled data -> FineTuned."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from electra import durable
from electra.artifacts.session import refuse_strangers, with_article
from electra.artifacts.tuning import TuningFolder
from electra.config import build
from electra.errors import DataError, RunFolderError
from electra.workflow.artifact import Source
from electra.workflow.display import Display, Told, display_for
from electra.workflow.rows import records
from electra.workflow.tuned import FineTuned

if TYPE_CHECKING:
    import pandas

    from electra.finetuning.settings import Settings

    Table: TypeAlias = Sequence[Mapping[str, Any]] | pandas.DataFrame

TABLES = "data"  # the folder in OUT where rows are written


def finetune(
    model: Source,
    *,
    task: str,
    data: Source | Table | Mapping[str, Table],
    out: Source,
    seeds: int = 1,
    progress: Told = None,
    **settings: Any,
) -> FineTuned:
    """Fine-tune a model on labelled data in the folder `out`, over `seeds` seeds, or resume what lies there.

    model: a Model, a Run, a folder or a hub name; the encoder is tuned.
    task: a task's name ("classification", "pair", "regression", "tagging", "qa", "cola", ...) or a .py file.
    data: a file or folder; or rows (dicts, or a DataFrame) to train on, of which a tenth becomes the dev set;
        or a dict of them by split: "train", "dev", "test". Rows are written to OUT/data once, and compared
        when resumed.
    settings: any option of `electra finetune` by its name: epochs=3, learning_rate=1e-4, dev="dev.csv", ...

    Raises ConfigError for wrong settings, DataError for wrong data, RunFolderError where `out` holds
    something else or other settings, and Interrupted when asked to stop (rerun to resume).
    """
    from electra.finetuning.settings import Settings

    folder = Path(out)
    files = {"data": data} if isinstance(data, str | os.PathLike) else tables(data, folder)
    given = {**files, **settings, "task": task, "out": folder, "seeds": seeds}
    made = build(Settings, {name: _typed(name, value) for name, value in given.items()}, where="")
    with display_for(progress) as display:
        return carry_out(model, made, display)


def carry_out(model: Source, settings: Settings, display: Display) -> FineTuned:
    """Fine-tune with settings that are complete."""
    from electra.finetuning.all_seeds import finetune as train
    from electra.report.tuning import write_page

    train(os.fspath(model), settings, display.say)
    display.say(f"report: {write_page(settings.out)}")
    return FineTuned(settings.out)


def _typed(name: str, value: Any) -> Any:
    """A setting's value: one of several as a list of one, a number of trainings as on the command line."""
    if name == "search" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    several = name in ("also", "text_column", "columns")
    return [value] if several and isinstance(value, str | os.PathLike) else value


def tables(data: Table | Mapping[str, Table], out: Path) -> dict[str, Path]:
    """Write rows to OUT/data, or find them there: the settings that name their files."""
    from electra.finetuning.records import plain

    kind = TuningFolder
    refuse_strangers(out, kind.RECORD, with_article(kind.KIND), (*kind.BESIDE, TABLES))
    splits = data if isinstance(data, Mapping) else {"train": data}
    unknown = [name for name in splits if name not in ("train", "dev", "test")]
    if unknown or "train" not in splits:
        what = f"unknown split {unknown[0]!r}" if unknown else "no split 'train'"
        raise DataError(what, where="data", fix="Use train, dev and test")
    found = {}
    for name, rows in splits.items():
        path = out / TABLES / f"{name}.jsonl"
        content = "".join(json.dumps(row, ensure_ascii=False, default=plain) + "\n" for row in records(rows))
        if not path.is_file():
            durable.commit_file(path, content.encode())
        elif path.read_bytes() != content.encode():
            fix = "Use the same rows, or another `out`"
            raise RunFolderError("holds other rows than those given now", where=path, fix=fix)
        found["data" if name == "train" else name] = path
    return found
