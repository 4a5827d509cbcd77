"""Model + labelled data -> FineTuned."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any, TypeAlias

from electra.artifacts.session import refuse_strangers, with_article
from electra.artifacts.tuning import TuningFolder
from electra.commands.workflow.artifact import Source, given_name, given_path
from electra.commands.workflow.display import Display, Told, display_for
from electra.commands.workflow.rows import records
from electra.commands.workflow.tuned import FineTuned
from electra.finetuning.labelled.splits import SPLIT_NAMES
from electra.foundation import durable
from electra.foundation.config import build
from electra.foundation.errors import DataError, RunFolderError
from electra.foundation.extensions import trust

if TYPE_CHECKING:
    import pandas

    from electra.finetuning.settings import Settings

    Table: TypeAlias = Sequence[Mapping[str, Any]] | pandas.DataFrame

TABLES = "data"  # the folder in OUT where rows are written
_NO_TEXT = re.compile("[\0\ud800-\udfff]")


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

    trust(task, settings.get("head", ""))
    start, folder, written = given_name(model, "model"), given_path(out, "out"), {}
    if isinstance(data, str | os.PathLike):
        files = {"data": given_path(data, "data")}
    else:
        written = tables(data)
        files = {{"train": "data"}.get(split, split): place(folder, split) for split in written}
    given = {**files, **settings, "task": task, "out": folder, "seeds": seeds}
    made = build(Settings, {name: _typed(name, value) for name, value in given.items()}, where="")
    with display_for(progress) as display, laid_out(written, folder):
        return carry_out(start, made, display)


def carry_out(model: Source, settings: Settings, display: Display) -> FineTuned:
    """Fine-tune with settings that are complete."""
    from electra.finetuning.runner.all_seeds import finetune as train
    from electra.pages.tuning import write_page

    train(os.fspath(model), settings, display.say)
    display.say(f"report: {write_page(settings.out)}")
    return FineTuned(settings.out)


def _typed(name: str, value: Any) -> Any:
    """A setting's value: one of several as a list of one, a number of trainings as on the command line."""
    if name == "search" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    several = name in ("also", "text_column", "columns")
    if name == "label_column" and isinstance(value, list):
        return tuple(value)
    return [value] if several and isinstance(value, str | os.PathLike) else value


def tables(data: Table | Mapping[str, Table]) -> dict[str, bytes]:
    """Rows as JSON lines, by split. Raises DataError for what is not a row, or holds what is not text."""
    splits = data if isinstance(data, Mapping) else {"train": data}
    usual = {name: split for split, names in SPLIT_NAMES.items() for name in names}
    if len({usual.get(name, name) for name in splits}) == len(splits):
        splits = {usual.get(name, name): rows for name, rows in splits.items()}
    unknown = [name for name in splits if name not in ("train", "dev", "test")]
    if unknown or "train" not in splits:
        what = f"unknown split {unknown[0]!r}" if unknown else "no split 'train'"
        raise DataError(what, where="data", fix="Use train, dev and test")
    return {split: _lines(records(rows, split), split) for split, rows in splits.items()}


def place(out: Path, split: str) -> Path:
    return out / TABLES / f"{split}.jsonl"


@contextmanager
def laid_out(tables: Mapping[str, bytes], out: Path) -> Iterator[None]:
    """The rows in OUT/data while a fine-tuning begins with them. One that is refused leaves nothing there."""
    kind = TuningFolder(out)
    if tables:
        refuse_strangers(out, kind.RECORD, with_article(kind.KIND), (*kind.BESIDE, TABLES))
    paths = {split: place(out, split) for split in tables}
    new = {split: path for split, path in paths.items() if not path.is_file()}
    for split, path in paths.items():
        if split not in new and path.read_bytes() != tables[split]:
            fix = "Use the same rows, or another `out`"
            raise RunFolderError("holds other rows than those given now", where=path, fix=fix)
    begun, made = kind.exists(), [folder for folder in (out / TABLES, out) if not folder.exists()]
    try:
        for split, path in new.items():
            durable.commit_file(path, tables[split])
        yield
    except BaseException as error:
        if kind.exists() == begun:
            for path in new.values():
                path.unlink(missing_ok=True)
            for folder in made:
                with suppress(OSError):  # it holds something else
                    folder.rmdir()
        if isinstance(error, DataError):  # what it says of a file is true of the rows
            for split, path in paths.items():
                where = error.where.replace(f"{path}:", f"{split} row ")
                error.where = where.replace(str(path), f"{split} rows")
        raise


def _lines(rows: Sequence[Any], split: str) -> bytes:
    if not rows:
        raise DataError("no rows", where=split)
    return "".join(_line(row, f"{split} row {number}") for number, row in enumerate(rows, 1)).encode()


def _line(row: Any, where: str) -> str:
    if not isinstance(row, Mapping):
        fix = "Give rows as dicts, or a DataFrame"
        raise DataError(f"{shortened(row)} is not a row", where=where, fix=fix)
    for column, value in row.items():
        if isinstance(column, tuple):
            fix = "Give each column one name: frame.columns = ['text', 'label']"
            raise DataError(f"{column!r} is not the name of a column", where=where, fix=fix)
        try:
            strings = _strings(json.loads(json.dumps({column: value}, default=_plain)))
        except (TypeError, ValueError, RecursionError):
            what = f"column {column!r} has {shortened(value)}, not a text"
            raise DataError(what, where=where, fix="Decode it, or leave the column out") from None
        if found := next(filter(None, map(_NO_TEXT.search, strings)), None):
            what = f"column {column!r} has the character {found[0]!a}, which is not text"
            raise DataError(what, where=where, fix="Replace it")
    return json.dumps(dict(row), ensure_ascii=False, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    """As `records.plain`, but bytes are not text, and pandas' NA is none."""
    from electra.finetuning.runner.records import plain

    if isinstance(value, bytes | bytearray | memoryview):
        raise TypeError
    return None if type(value).__name__ == "NAType" else plain(value)


def _strings(value: Any) -> Iterator[str]:
    """All texts in what JSON can hold."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from _strings(inner)
