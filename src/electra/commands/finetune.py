"""The command `electra finetune`; training is in `electra.finetuning`. Rows from Python are checked here."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from reprlib import repr as shortened
from typing import Annotated, Any, cast

from typing_extensions import override

from electra.artifacts.finetuning_files import FinetuningFolder
from electra.commands.framework.command import Command, function
from electra.commands.results.result_folders import FineTuned
from electra.data.tables.hub_files import DATA_SET, load_data_set
from electra.data.tables.lines import Place
from electra.data.tables.passages import records
from electra.data.tables.table_files import Given
from electra.finetuning.settings import Settings
from electra.foundation.display import display_for
from electra.foundation.durable import mebibytes
from electra.foundation.errors import DataError
from electra.foundation.extensions import trust
from electra.foundation.options import OnCommandLine, Source, as_name, checked_path

Table = Sequence[Mapping[str, Any]] | Any
"""Rows: dicts, or a DataFrame."""
Data = Annotated[Source | Table | Mapping[str, Table], OnCommandLine(Path)]


@dataclass(frozen=True)
class Finetune(
    Settings,
    Command[FineTuned],
    examples=(
        "electra finetune runs/mine --task classification --data reviews.csv --out runs/reviews --seeds 3",
        "electra finetune tiny-en --task ner --data conll/ --out runs/ner",
    ),
):
    """Fine-tune a model on labelled texts, with one or more seeds.

    Writes the scores, the predictions and the model. Rerun the command to resume; if it already finished with
    the same settings, it shows the saved scores instead of training again.
    """

    model: Source
    """A run folder, a model folder, a fine-tuned model (its encoder is used), a name on the hub, or one that
    comes with the package (tiny-en, small-en).
    """
    _: KW_ONLY
    data: Data  # type: ignore[assignment]
    """A folder with train, dev (or val, valid, validation) and test files, or a single training file: csv,
    tsv, jsonl, parquet, or a format of the task (CoNLL-U, columns, SQuAD's JSON), compressed or not; or
    hub:NAME:CONFIG for a data set of the Hugging Face hub. In Python, also rows (dicts or a DataFrame), a
    tenth of which becomes the dev set, or rows by split: {"train": ..., "dev": ..., "test": ...}.
    """

    def __post_init__(self) -> None:
        Command.__post_init__(self)
        trust(self.task, self.head)

    @override
    def run(self) -> FineTuned:
        from electra.finetuning.train.all_seeds import finetune as train
        from electra.pages.finetuning_page import write_page

        folder, model = FinetuningFolder(checked_path(self.out, "out")), as_name(self.model, "model")
        data = self.data
        if isinstance(data, str | os.PathLike) and (name := as_name(data, "data")).startswith(DATA_SET):
            data = load_data_set(name, DataError)
        given = {} if isinstance(data, str | os.PathLike) else tables(data)
        values = {each.name: getattr(self, each.name) for each in fields(Settings)} | {"out": folder.path}
        values["data"] = given.get("train") or checked_path(cast(Source, data), "data")
        values |= {name: values[name] or given.get(name) for name in ("dev", "test")}
        with display_for(self.progress) as display:
            train(model, Settings(**values), display.say)
            with folder.locked():
                page = write_page(folder.path)
            display.say(f"results: {folder.results}, report: {page}")
            size, head = folder.model.weights.stat().st_size, folder.model.head
            beside = f" and {mebibytes(head.stat().st_size)} of its head" if head.is_file() else ""
            small = f"a quarter of that: electra export {folder.path} --dtype int8 --out SMALL"
            display.say(f"model: {mebibytes(size)}{beside}; {small}")
        return FineTuned(folder)


finetune = function(Finetune)


def tables(data: Table | Mapping[str, Table]) -> dict[str, Given]:
    """Returns rows by split. Raises DataError for an unknown split or an invalid row."""
    from electra.finetuning.labelled.splits import SPLIT_NAMES

    splits = data if isinstance(data, Mapping) else {"train": data}
    split_of = {name: split for split, names in SPLIT_NAMES.items() for name in names}
    if len({split_of.get(name, name) for name in splits}) == len(splits):
        splits = {split_of.get(name, name): rows for name, rows in splits.items()}
    unknown = [name for name in splits if name not in ("train", "dev", "test")]
    if unknown or "train" not in splits:
        problem = f"unknown split {unknown[0]!r}" if unknown else "no split 'train'"
        raise DataError(problem, where="data", fix="Use train, dev and test")
    return {split: _given(records(rows, split), split) for split, rows in splits.items()}


def _given(rows: Sequence[Any], split: str) -> Given:
    if not rows:
        raise DataError("no rows", where=split)
    lines = [_line(row, str(Place(split, number, False))) for number, row in enumerate(rows, 1)]
    return Given(split, "".join(lines).encode(), rows=[json.loads(line) for line in lines])


def _line(row: Any, where: str) -> str:
    if not isinstance(row, Mapping):
        raise DataError(f"{shortened(row)} is not a row", where=where, fix="Pass dicts, or a DataFrame")
    for column, value in row.items():
        try:  # UTF-8 has no lone surrogates
            json.dumps({column: value}, ensure_ascii=False, default=_plain).encode()
        except (TypeError, ValueError, RecursionError):
            problem = f"column {column!r} has {shortened(value)}, which is not text"
            fix = "Decode or replace it, or omit the column; give each column a single name"
            raise DataError(problem, where=where, fix=fix) from None
    return json.dumps(dict(row), ensure_ascii=False, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    """Like `records.json_default`, but rejects bytes and turns pandas' NA into None."""
    from electra.finetuning.score.records import json_default

    if isinstance(value, bytes | bytearray | memoryview):
        raise TypeError
    return None if type(value).__name__ == "NAType" else json_default(value)
