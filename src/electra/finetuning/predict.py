"""A fine-tuned model and a file of texts -> what the task's predictions file holds: labels with
probabilities, numbers, tags, answers.

Works with what `electra finetune` saved and with any folder of the ElectraFor... or ModernBertFor...
SequenceClassification, TokenClassification or QuestionAnswering classes. Answers in the file are ignored:
predicting is not evaluating.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from electra.artifacts.model import ModelFolder
from electra.artifacts.tuning import TuningFolder
from electra.exchange.configs import read_config
from electra.exchange.load import KIND_PHRASES, Loaded, load
from electra.exchange.run_folder import holds_networks
from electra.exchange.source import locate
from electra.exchange.weights import read_safetensors, refuse_not_finite
from electra.finetuning.heads import load_head
from electra.finetuning.heads.parts.contract import HeadShape
from electra.finetuning.heads.parts.layers import VectorHead
from electra.finetuning.labelled.examples import Examples
from electra.finetuning.runner.records import Format, as_records, join, plain, write
from electra.finetuning.runner.task_file import AGAIN, check_task, read_task
from electra.finetuning.runner.tuned_model import TunedModel, build_head, has_class
from electra.finetuning.runner.tuning import run_model
from electra.finetuning.settings import TaskOptions
from electra.finetuning.tasks import load_task
from electra.finetuning.tasks.parts.task import Cell, HeadKind, Task, as_text
from electra.finetuning.windows.features import Tokens
from electra.foundation.errors import ConfigError, DataError, ModelError
from electra.model.precision import pick_device

if TYPE_CHECKING:
    from electra.exchange.onnx_graph import ExportReport

Text = str | tuple[str, str] | Sequence[str] | Mapping[str, Any]
"""What is predicted: a text; a pair of texts as a tuple; the words of a sentence as a list; or a row as the
task's files have it."""

# The task of a model that does not name its own.
USUAL: dict[str, str] = {"classifier": "classification", "tagger": "tagging", "reader": "qa"}


@dataclass(frozen=True)
class Predictions:
    task: Task
    examples: Examples
    values: list[Any]
    max_length: int
    truncated: int  # examples longer than max_length tokens
    notes: tuple[str, ...]

    def table(self) -> list[tuple[Cell, ...]]:
        """Header first; numbers are numbers."""
        return self.task.table(self.values, self.examples)

    def rows(self) -> list[tuple[str, ...]]:
        """The table as its file has it."""
        return as_text(self.table())

    def records(self) -> list[dict[str, Any]]:
        """The columns of the user's file with `predicted`, `probability` and what else the task says."""
        return join(as_records(self.table()), self.examples)

    def content(self, kind: Format = "tsv") -> bytes:
        """What a file of this kind holds: the records; a .json of questions is the official scorers' file."""
        official = self.task.files("", self.values, self.examples).get(".predictions.json")
        return official if kind == "json" and official else write(self.records(), kind)

    def counts(self) -> dict[str, int]:
        """How often each label was predicted, most frequent first; numbers and answers are not counted."""
        header, *rows = self.table()
        if "label" not in header:
            return {}
        return dict(Counter(str(row[header.index("label")]) for row in rows).most_common())

    def of_each(self) -> list[list[dict[str, Any]]]:
        """The rows of each example as records: one row, or of a sentence one a word."""
        pairs = zip(self.values, self.examples, strict=True)
        return [as_records(self.task.table([value], [example])) for value, example in pairs]


@dataclass(frozen=True)
class Predictor:
    """A fine-tuned model, loaded once to predict many times."""

    loaded: Loaded
    task: Task
    max_length: int
    tuned: TunedModel

    def __call__(  # noqa: PLR0917
        self,
        file: Path,
        text_column: Sequence[str] = (),
        columns: Sequence[str] = (),
        threshold: float | None = None,
        encoding: str | None = None,
        scores: bool = False,
    ) -> Predictions:
        """Predict each row of `file`. scores: of a tagger, the probability of each label for each word."""
        task = self.task if threshold is None else self.task.at_threshold(threshold)
        task = task.with_every_score() if scores else task
        if encoding:
            task.refuse_unless_table("encoding")
        if text_column and len(text_column) not in (counts := {len(names) for names in task.texts}):
            what = f"{len(text_column)} columns, and this model reads {' or '.join(map(str, sorted(counts)))}"
            raise ConfigError(what, key="text_column")
        texts = (tuple(text_column),) if text_column else task.texts
        header = tuple(columns) or task.header
        usual = () if text_column else task.usual_texts
        unlabelled = replace(task, texts=texts, usual_texts=usual, header=header, label=(), encoding=encoding)
        split = unlabelled.read(file, labelled=False)
        examples = tuple(replace(example, gold=None) for example in split.examples)
        windows = task.featurize(examples, Tokens(self.loaded.tokenizer), self.max_length)
        pad, device = self.loaded.tokenizer.specials.pad, self.loaded.device
        outputs, _ = run_model(self.tuned, windows, task, pad=pad, device=device)
        notes = (*split.notes, *windows.notes, *([task.rule] if task.rule else []))
        values = task.predict(outputs, windows, examples)
        return Predictions(task, examples, values, self.max_length, windows.truncated, notes)

    def texts(
        self, given: Sequence[Text], threshold: float | None = None, scores: bool = False
    ) -> Predictions:
        """Predict texts, pairs (tuples), sentences as lists of words, or rows as the task's files have them.

        They take the way through a file that rows of files take.
        """
        columns, rows = as_rows(given)
        with tempfile.TemporaryDirectory(prefix="electra-") as folder:
            file = Path(folder) / "texts.jsonl"
            lines = "".join(json.dumps(row, default=plain) + "\n" for row in rows)
            file.write_text(lines, encoding="utf-8")
            try:
                found = self(file, columns, threshold=threshold, scores=scores)
            except DataError as error:  # what it says of the file is true of what was given
                what, where = (
                    said.replace(f"{file}:", "row ").replace(str(file), "the texts")
                    for said in (error.what, error.where)
                )
                raise DataError(what, where=where, key=error.key, fix=error.fix) from None
        read = {example.where for example in found.examples}
        if missing := [number for number in range(1, len(rows) + 1) if f"{file}:{number}" not in read]:
            raise DataError("a sentence without words", where=f"row {missing[0]}", fix="Leave it out")
        if columns:
            return found
        own = zip(found.examples, rows, strict=True)  # the values as they were given, dates and all
        return replace(found, examples=tuple(replace(example, row=row) for example, row in own))


def open_predictor(
    model: str, device: str = "auto", backend: Literal["torch", "onnx"] = "torch"
) -> Predictor:
    """`model`: a fine-tuning, its model folder, or a fine-tuned model's folder or hub name.

    backend: "onnx" runs a folder that `export_tuned` wrote, on the CPU.
    """
    if backend == "onnx":
        return _open_graph(locate(model))
    loaded, record = open_tuned(model)
    task, max_length = task_of(loaded, record)
    tuned = tuned_model(loaded, task, record)
    return Predictor(loaded, task, max_length, tuned.to(pick_device(device)))


def _open_graph(folder: Path) -> Predictor:
    from electra.exchange.onnx_session import OnnxEncoder, load_onnx
    from electra.finetuning.runner.onnx_model import GraphModel

    loaded, record = load_onnx(folder, "encoder"), read_task(folder)
    if record is None:
        refuse_untuned(loaded)
    task, max_length = task_of(loaded, record)
    assert isinstance(loaded.encoder, OnnxEncoder)
    return Predictor(loaded, task, max_length, GraphModel(loaded.encoder, task.head in ("tagger", "reader")))


def export_tuned(model: str, out: Path, *, int8: bool = False) -> ExportReport:
    """Write a fine-tuned model as a folder with an ONNX graph; how it compares."""
    from electra.finetuning.runner.onnx_model import write_tuned

    loaded, record = open_tuned(model)
    task, _ = task_of(loaded, record)
    return write_tuned(loaded, task, tuned_model(loaded, task, record), record, out, int8)


def predict(  # noqa: PLR0917
    model: str,
    file: Path,
    text_column: Sequence[str] = (),
    columns: Sequence[str] = (),
    device: str = "auto",
    threshold: float | None = None,
) -> Predictions:
    """Predict each row of `file`, as `Predictor` does, by what `open_predictor` opens."""
    return open_predictor(model, device)(file, text_column, columns, threshold)


def as_rows(given: Sequence[Text]) -> tuple[tuple[str, ...], list[Mapping[str, Any]]]:
    """(names of the columns of the text, rows); no names where the rows are the user's."""
    kind = next((one for one in (str, tuple, Mapping, Iterable) if isinstance(given[0], one)), None)
    for number, item in enumerate(given, 1):
        if kind is None or not isinstance(item, kind) or (kind is tuple and len(item) != 2):
            fix = "Give texts, pairs as tuples, sentences as lists of words, or rows as dicts"
            raise DataError(f"{item!r} is not a text like the others", where=f"text {number}", fix=fix)
    if kind is str:
        return ("text",), [{"text": text} for text in given]
    if kind is tuple:
        return ("text_a", "text_b"), [dict(zip(("text_a", "text_b"), pair, strict=True)) for pair in given]
    if kind is Mapping:
        return (), [dict(row) for row in given]  # type: ignore[arg-type]
    return ("words",), [{"words": list(words)} for words in given]


def is_tuned(model: str) -> bool:
    """Whether this is a fine-tuning, or the folder of a fine-tuned model."""
    folder = locate(model)
    if TuningFolder(folder).exists():
        return True
    if holds_networks(folder):
        return False
    here = ModelFolder(folder)
    return read_config(folder).kind in USUAL or here.head.is_file() or here.task.is_file()


def refuse_tuned(model: str) -> None:
    """What exports pre-trained networks has no use for a fine-tuned model."""
    if is_tuned(model):
        tuning = TuningFolder(locate(model))
        what, where = (
            "fine-tuned, and a Hugging Face folder already",
            tuning.model if tuning.exists() else model,
        )
        fix = "Copy or push it; `electra export --format onnx` makes a graph of it"
        raise ModelError(what, where=where, fix=fix)


def open_tuned(model: str) -> tuple[Loaded, Mapping[str, Any] | None]:
    """A fine-tuned model, and the record of its fine-tuning where that is known."""
    folder = TuningFolder(Path(model))
    if folder.exists():
        if not folder.model.path.is_dir():
            raise ModelError("this fine-tuning has no model folder", where=folder, fix="It is not finished")
        return load(folder.model.path, "encoder"), _checked_record(folder)
    around, loaded = TuningFolder(Path(model).parent), load(model, "encoder")
    if around.exists():
        return loaded, _checked_record(around)
    here = ModelFolder(Path(loaded.folder))
    if record := read_task(here.path):
        return loaded, record
    if here.head.is_file():
        what = f"{here.head.name} is here, but not the {here.task.name} that says what it is"
        raise ModelError(what, where=here.path, fix="Pass the fine-tuning's folder")
    refuse_untuned(loaded)
    return loaded, None


def _checked_record(folder: TuningFolder) -> Mapping[str, Any]:
    record: Mapping[str, Any] = folder.record
    check_task(record, folder.path / folder.RECORD)
    return record


def refuse_untuned(loaded: Loaded) -> None:
    if loaded.kind not in USUAL:
        kind = KIND_PHRASES.get(loaded.kind, "an encoder without a head")
        what = f"this is {kind}, and a fine-tuned classifier, tagger or reader is needed"
        raise ModelError(what, where=loaded.folder, fix="Run electra finetune")


def task_of(loaded: Loaded, record: Mapping[str, Any] | None) -> tuple[Task, int]:
    """The task and its longest input. Labels are the model's; columns and length as it was trained, or the
    usual ones where that is not known.
    """
    config = ModelFolder(Path(loaded.folder)).record
    if record:
        task, settings = load_task(record["task"]), record["settings"]
        length, positions = settings["max_length"], loaded.config.max_positions
        if length > positions:
            what = f"texts of {length:,} tokens, and the model has {positions:,} positions"
            raise ModelError(what, where=loaded.folder, key="max_length", fix=AGAIN)
        task = load_head(settings["head"]).adapted(task.configured(TaskOptions.of(settings)))
        return task.rebuilt(loaded.labels, config), length
    usual = load_task(USUAL[loaded.kind])
    if loaded.kind == "classifier":
        pairs = load_task("pair").texts
        entails = any("entail" in name.lower() for name in loaded.labels)  # labels of pairs alone
        usual = replace(usual, texts=pairs if entails else (*pairs, *usual.texts))
    return usual.rebuilt(loaded.labels, config), loaded.config.max_positions


def tuned_model(loaded: Loaded, task: Task, record: Mapping[str, Any] | None) -> TunedModel:
    """The saved encoder with the head saved in its weights, or in the file beside them."""
    if record and task.head == "vectors":
        return TunedModel(loaded.encoder, VectorHead(record["settings"]["pooling"]))
    beside = ModelFolder(Path(loaded.folder)).head
    style = "transformers"
    made = record["settings"] if record else {}
    if record and not has_class(task.head, made["head"], loaded.config.architecture, made["pooling"]):
        if not beside.is_file():
            raise ModelError("missing: the head of this model", where=beside, fix=AGAIN)
        weights, style, pooling = (
            read_safetensors(beside),
            record["settings"]["head"],
            record["settings"]["pooling"],
        )
        kind, num_outputs = task.head, task.num_outputs
    else:
        weights, pooling = loaded.head_weights, loaded.pooling
        kind, num_outputs = cast(HeadKind, loaded.kind), loaded.head_weights["output.bias"].numel()
    head = build_head(style, HeadShape(kind, loaded.config, num_outputs, pooling), seed=0)
    refuse_not_finite(weights, beside)
    own = head.state_dict()
    try:
        common = weights.keys() & own.keys()  # older heads have other names, which they know themselves
        if any(weights[name].is_floating_point() != own[name].is_floating_point() for name in common):
            raise ValueError("numbers of another kind")
        head.load_state_dict(weights)
    except (RuntimeError, ValueError):  # names, shapes or kinds
        raise ModelError("not the head of this model", where=beside, fix="Rerun electra finetune") from None
    return TunedModel(loaded.encoder, head)
