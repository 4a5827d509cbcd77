"""Predicts labels, numbers, tags or answers with a fine-tuned model.

The model may come from `electra finetune`, or be a published folder of one of transformers' classes
...ForSequenceClassification, ...ForTokenClassification or ...ForQuestionAnswering, such as a classifier, a
tagger or a cross-encoder. Answers in the file are ignored.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

from electra.artifacts.finetuning_files import FinetuningFolder
from electra.artifacts.model_files import TASK, ModelFolder
from electra.data.corpus import unknown
from electra.data.tables.lines import Place, is_blank
from electra.data.tables.table import lacks_text
from electra.data.tables.table_files import Data, Given, extension_of
from electra.exchange.configs import MAX_LENGTH, head_settings, read_config
from electra.exchange.load import KIND_PHRASES, Loaded, load
from electra.exchange.run_folder import holds_networks
from electra.exchange.source import locate
from electra.exchange.weights import read_safetensors, require_numbers
from electra.finetuning.finetuned_model import FinetunedModel, build_head, has_class
from electra.finetuning.heads.parts.contract import HeadShape
from electra.finetuning.heads.parts.modules import BertClassifier, PublishedTuned
from electra.finetuning.labelled.examples import Example, Examples
from electra.finetuning.score.evaluate import run_model
from electra.finetuning.score.records import Format, answer, as_records, format_records, join_columns
from electra.finetuning.settings import TaskOptions
from electra.finetuning.task import Cell, HeadKind, Task, as_text
from electra.finetuning.tasks import load_task
from electra.finetuning.train.dataset import note_unread
from electra.finetuning.train.saved_model import REPAIR_ADVICE, check_task, read_task
from electra.finetuning.windows.features import Tokens
from electra.finetuning.word_tags import WordTagging
from electra.foundation import durable
from electra.foundation.errors import ConfigError, DataError, ModelError
from electra.foundation.progress import doing
from electra.foundation.terminal_text import plural
from electra.model.adapted import PublishedHead
from electra.model.precision import pick_device

Text = str | tuple[str, str] | Sequence[str] | Mapping[str, Any]
"""A text; a pair of texts as a tuple; the words of a sentence as a list; or a row of a file as a mapping."""

DEFAULT_TASKS: dict[str, str] = {"classifier": "classification", "tagger": "tagging", "reader": "qa"}
"""The names of the tasks of models without task.json, by the kind of their head."""
EVERYTHING = slice(None)


@dataclass(frozen=True)
class Predictions:
    """The predictions for the examples of a file."""

    task: Task
    examples: Examples
    values: list[Any]  # one prediction per example, in the task's form; None for an example without a text
    max_length: int
    truncated: int  # the number of examples longer than `max_length` tokens
    notes: tuple[str, ...]  # how the file was read, for the user
    source: Data
    unread: tuple[str, ...] = ()  # those of the notes that are on columns of texts that are not read

    def table(self) -> list[tuple[Cell, ...]]:
        """Returns the rows of the task's table, the header first; numbers are not formatted.

        An example without a text has empty cells, or no rows in a table of words.
        """
        return self._table("")

    def _table(self, blank: Cell) -> list[tuple[Cell, ...]]:
        read = [pair for pair in zip(self.values, self.examples, strict=True) if pair[0] is not None]
        header, *rows = self.task.table([value for value, _ in read], [example for _, example in read])
        if len(read) == len(self.examples) or "word" in header:
            return [header, *rows]
        found = iter(rows)
        blanks = [(example.id, *[blank] * (len(header) - 1)) for example in self.examples]
        merged = (row if value is None else next(found) for value, row in zip(self.values, blanks, strict=True))
        return [header, *merged]

    def rows(self) -> list[tuple[str, ...]]:
        """Returns the rows of the task's table with formatted cells."""
        return as_text(self.table())

    def records(self) -> list[dict[str, Any]]:
        """Returns the user's rows with `predicted`, `probability` and other columns of the task added.

        They are None for an example without a text; a table of words has no rows of it.
        """
        table = self._table(0)
        rows, pairs = as_records(table), [*zip(self.values, self.examples, strict=True)]
        if "word" in table[0]:
            return join_columns(rows, [example for value, example in pairs if value is not None])
        records = join_columns(rows, self.examples)
        for record, row, value in zip(records, rows, self.values, strict=True):
            if value is None:
                record.update(_no_answer(row))
        return records

    def content(self, kind: Format = "tsv") -> bytes:
        """Returns the records as the content of a file.

        For questions, "json" is SQuAD's predictions file; for taggers, "words" is the file that was read, of
        a word per line, with the predicted tags. Raises DataError if it has no such lines.
        """
        if kind == "words":
            return self.task.in_file(self.source, self.values, self.examples)
        if kind == "json" and all(value is not None for value in self.values):
            official = self.task.files("", self.values, self.examples).get(".predictions.json")
            if official:
                return official
        records = self.records()
        own = {"predicted", "probability", *map(str, self._table(0)[0])} - {"id"}
        from_csv = extension_of(self.source) in (".csv", ".tsv", ".tab")
        copied = {name for record in records for name in record} - own if from_csv else ()
        return format_records(records, kind, own, copied)

    def counts(self) -> dict[str, int]:
        """Returns the frequency of each predicted label, in descending order; {} without labels."""
        labels = (str(row["label"]) for row in as_records(self.table()) if row.get("label", "") != "")
        return dict(Counter(labels).most_common())

    def by_example(self) -> list[list[dict[str, Any]]]:
        """Returns what `records` adds to each example: one row, or one for each word of a sentence."""
        found, named = [], ("id", "word")
        for value, example in zip(self.values, self.examples, strict=True):
            rows = as_records(replace(self, values=[value], examples=(example,))._table(0))
            cells = _no_answer if value is None else answer
            found.append([{n: row[n] for n in named if n in row} | cells(row) for row in rows])
        return found


@dataclass(frozen=True)
class Predictor:
    """A loaded fine-tuned model, which can predict many times."""

    loaded: Loaded
    task: Task
    max_length: int
    tuned: FinetunedModel
    allow_unknown: bool = False  # whether any share of unknown tokens is accepted

    def __call__(  # noqa: PLR0917
        self,
        source: Data,
        text_column: Sequence[str] = (),
        columns: Sequence[str] = (),
        threshold: float | None = None,
        scores: bool = False,
        part: slice = EVERYTHING,
    ) -> Predictions:
        """Predicts each row of a file, or of data in memory; of `part`, if not all.

        The options are those of `electra predict`. Raises ConfigError if one does not apply to the model,
        DataError if the file is invalid, RunFailed if the model's outputs are not finite, and TokenizerError
        if too many tokens are unknown.
        """
        task = self.task if threshold is None else self.task.at_threshold(threshold)
        task = task.with_every_score() if scores else task
        if text_column and len(text_column) not in (counts := {len(names) for names in task.texts}):
            expected = " or ".join(map(str, sorted(counts)))
            problem = f"must name {expected} columns for this model, not {len(text_column)}"
            raise ConfigError(problem, key="text_column")
        task = replace(task, header=tuple(columns) or task.header)
        unlabelled = replace(task, label=())
        if text_column:
            unlabelled = replace(unlabelled, texts=(tuple(text_column),))
        doing(f"reading {source}" if isinstance(source, Path) else "reading")
        split = unlabelled.read(source, labelled=False)
        examples = tuple(replace(example, gold=None) for example in split.examples[part])
        tokens, pad = Tokens(self.loaded.tokenizer), self.loaded.tokenizer.specials.pad
        tokens.tokenizer.counted = unknown.Count()
        values, truncated = list[Any]([None] * len(examples)), 0
        unread = (*note_unread(split.unread[: split.unread_texts]),)
        notes = [*split.notes, *unread]
        if read := [i for i, example in enumerate(examples) if not _is_blank(example, task)]:
            written = tuple(examples[i] for i in read)
            windows = task.featurize(written, tokens, self.max_length)
            unknown.warn(tokens.tokenizer, self.allow_unknown)
            doing(f"predicting: {len(written):,} examples")
            outputs, _ = run_model(self.tuned, windows, task, pad=pad, device=self.loaded.device)
            for i, value in zip(read, task.predict(outputs, windows, written), strict=True):
                values[i] = value
            notes, truncated = [*notes, *windows.notes], windows.truncated
        if blank := len(examples) - len(read):
            notes.append(f"{blank:,} of {plural(len(examples), 'text')} are empty and get no answer")
        notes += [task.rule] if task.rule else []
        return Predictions(task, examples, values, self.max_length, truncated, tuple(notes), source, unread)

    def texts(
        self,
        inputs: Sequence[Text],
        threshold: float | None = None,
        scores: bool = False,
        part: slice = EVERYTHING,
    ) -> Predictions:
        """Predicts texts, pairs (tuples), sentences as lists of words, or rows of a table as mappings.

        There must be at least one. Options and errors are those of `__call__`.
        """
        columns, rows = as_rows(inputs)
        given = Given("the texts", rows=rows)
        predictions = self(given, columns, threshold=threshold, scores=scores, part=part)
        places = [example.where for example in predictions.examples]
        numbers = [place.number for place in places if isinstance(place, Place)]
        if columns:
            return predictions
        # The rows as passed, with the types of numpy and pandas.
        as_passed = zip(predictions.examples, numbers, strict=True)
        examples = tuple(replace(example, row=rows[number - 1]) for example, number in as_passed)
        return replace(predictions, examples=examples)


def open_predictor(
    model: str,
    device: str = "auto",
    backend: Literal["torch", "onnx"] = "torch",
    *,
    allow_unknown: bool = False,
) -> Predictor:
    """Loads a fine-tuned model, from the folder of a fine-tuning, a model folder or the hub.

    The backend "onnx" runs a folder that `export_tuned` wrote, on the CPU whatever `device` is. Raises
    ModelError if the model is missing, damaged or not fine-tuned, or its fine-tuning is unfinished; and
    ConfigError if there is no such device, or the file of the model's own task or head is missing.
    """
    doing(f"loading {model}")
    record: Mapping[str, Any] | None
    if backend == "onnx":
        from electra.exchange.onnx_graph import OnnxEncoder, load_onnx
        from electra.finetuning.onnx_model import GraphModel

        folder = locate(model)
        loaded, record = load_onnx(folder, "encoder"), read_task(folder)
        task, max_length = task_of(loaded, record)
        assert isinstance(loaded.encoder, OnnxEncoder)
        tuned: FinetunedModel = GraphModel(loaded.encoder, task.head in ("tagger", "reader"))
    else:
        loaded, record = open_tuned(model)
        task, max_length = task_of(loaded, record)
        tuned = tuned_model(loaded, task, record).to(pick_device(device))
    return Predictor(loaded, task, max_length, tuned, allow_unknown)


def export_tuned(source: str, out: Path) -> float:
    """Writes a fine-tuned model, named as for `open_predictor`, as a folder `out` with an ONNX graph.

    Returns the largest difference between the outputs of the graph and the model. Raises ModelError if the
    model is missing, damaged or not fine-tuned, its head cannot be exported, the graph's outputs differ, or
    `out` cannot be written; and ConfigError if a library that this needs is not installed.
    """
    from electra.exchange.onnx_graph import commit_graph
    from electra.finetuning.onnx_model import FinetunedGraph

    loaded, record = open_tuned(source)
    task, _ = task_of(loaded, record)
    model = tuned_model(loaded, task, record)
    if model.head.not_in_graphs:
        fix = "Fine-tune with `head` transformers"
        raise ModelError(model.head.not_in_graphs, where=loaded.folder, fix=fix)
    settings = {**ModelFolder(loaded.folder).record, "dtype": "float32"}
    graph = FinetunedGraph(model, types=loaded.config.reads_token_types)
    further: dict[str, durable.Content] = {}
    if record:
        further[TASK] = durable.to_json({name: record[name] for name in ("task", "settings")})
    return commit_graph(loaded, graph, out, settings, f" and fine-tuned for {task.name}", further)


def as_rows(inputs: Sequence[Text]) -> tuple[tuple[str, ...], list[Mapping[str, Any]]]:
    """Returns the names of text columns (() of rows) and a row for each input; DataError if they differ."""
    first = next((item for item in inputs if not lacks_text(item)), "")
    kind = next((kind for kind in (str, tuple, Mapping, Iterable) if isinstance(first, kind)), None)
    inputs = ["" if lacks_text(item) and kind is str else item for item in inputs]
    for number, item in enumerate(inputs, 1):
        if kind is None or not isinstance(item, kind) or (kind is tuple and len(item) != 2):
            problem = f"the type of {item!r} is not supported, or not that of the first text"
            fix = "Pass texts, pairs as tuples, sentences as lists of words, or rows as dicts"
            raise DataError(problem, where=f"text {number}", fix=fix)
    if kind is Mapping:
        return (), [dict(row) for row in inputs]  # type: ignore[arg-type]
    names = {str: ("text",), tuple: ("text_a", "text_b")}.get(kind, ("words",))  # type: ignore[arg-type]
    return names, [dict(zip(names, item if kind is tuple else [item], strict=True)) for item in inputs]


def _no_answer(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what `answer` adds to a record, all None."""
    names = [*answer(row)]
    if "predicted" in names and any(name.startswith("p(") for name in row) and "probability" not in names:
        names.insert(1, "probability")
    return dict.fromkeys(names)


def _is_blank(example: Example, task: Task) -> bool:
    """Whether an example has no text: no word of a sentence, or not each of its texts."""
    found = map(is_blank, example.texts)
    return all(found) if task.head == "tagger" else any(found)


def is_tuned(model: str) -> bool:
    """Whether `model`, a folder or hub name, is fine-tuned; ModelError if there is no such model."""
    folder = locate(model)
    if FinetuningFolder(folder).exists():
        return True
    if holds_networks(folder):
        return False
    model_folder = ModelFolder(folder)
    is_ours = model_folder.head.is_file() or model_folder.task.is_file()
    return is_ours or read_config(folder).kind in DEFAULT_TASKS


def open_tuned(model: str) -> tuple[Loaded, Mapping[str, Any] | None]:
    """Returns a fine-tuned model and its record, if any, of "task" and "settings"; ModelError if damaged."""
    folder, parent = FinetuningFolder(Path(model)), FinetuningFolder(Path(model).parent)
    if folder.exists() and not folder.model.path.is_dir():
        fix = "Rerun electra finetune to finish it"
        raise ModelError("an unfinished fine-tuning, without a model", where=folder, fix=fix)
    loaded = load(folder.model.path if folder.exists() else model, "encoder")
    if tuning := next((each for each in (folder, parent) if each.exists()), None):
        check_task(tuning.record, tuning.path / tuning.RECORD)
        return loaded, tuning.record
    model_folder = ModelFolder(Path(loaded.folder))
    if record := read_task(model_folder.path):
        return loaded, record
    if model_folder.head.is_file():
        problem = f"{model_folder.head.name} without {model_folder.task.name}, which describes it"
        raise ModelError(problem, where=model_folder.path, fix="Pass the fine-tuning's folder")
    return loaded, None


def task_of(loaded: Loaded, record: Mapping[str, Any] | None) -> tuple[Task, int]:
    """Returns the task of a model, and the maximum number of tokens of an input.

    The labels are the model's. The columns and the length are those of its fine-tuning, or defaults if
    `record` is None. Raises ModelError if the model has no head, or the recorded length exceeds its
    positions; and ConfigError if the file of the model's own task or head is missing.
    """
    if not record and loaded.kind not in DEFAULT_TASKS:
        kind = KIND_PHRASES.get(loaded.kind, "an encoder without a head")
        problem = f"expected a fine-tuned classifier, tagger or reader, not {kind}"
        raise ModelError(problem, where=loaded.folder, fix="Run electra finetune")
    folder = Path(loaded.folder)
    config = ModelFolder(folder).record | head_settings(folder)
    if record:
        task, settings = load_task(record["task"]), record["settings"]
        length, positions = settings["max_length"], loaded.config.max_positions
        if length > positions:
            problem = f"{length:,} tokens, but the model has {positions:,} positions"
            raise ModelError(problem, where=loaded.folder, key="max_length", fix=REPAIR_ADVICE)
        task = task.with_options(TaskOptions.of(settings))
        if columns := tuple(settings.get("read_columns", ())):
            task = task.preferring(columns)
        return task.rebuilt(loaded.labels, config), length
    default_task = load_task(DEFAULT_TASKS[loaded.kind])
    if loaded.kind == "classifier":
        texts = load_task("pair").texts
        if not any("entail" in name.lower() for name in loaded.labels):
            texts = (*texts, *default_task.texts)
        default_task = replace(default_task, texts=texts)
    if isinstance(default_task, WordTagging):
        default_task = replace(default_task, as_written=True)
    length = min(loaded.config.max_positions, config.get(MAX_LENGTH, loaded.config.max_positions))
    return default_task.rebuilt(loaded.labels, config), length


def tuned_model(loaded: Loaded, task: Task, record: Mapping[str, Any] | None) -> FinetunedModel:
    """Returns the saved encoder with its head; ModelError if that is missing, unfit or not finite."""
    if isinstance(loaded.head, PublishedHead):
        return FinetunedModel(loaded.encoder, PublishedTuned(loaded.head, loaded.kind))
    settings = record["settings"] if record else {}
    file = ModelFolder(Path(loaded.folder)).head
    head_name, pooling = "transformers", read_config(file.parent).pooling
    if record and not has_class(task.head, settings["head"], loaded.config.architecture, settings["pooling"]):
        if not file.is_file():
            raise ModelError("the file of the head's weights is missing", where=file, fix=REPAIR_ADVICE)
        weights, head_name, pooling = read_safetensors(file), settings["head"], settings["pooling"]
        kind, num_outputs = task.head, task.num_outputs
    else:
        weights, file = loaded.head_weights, loaded.folder
        kind, num_outputs = cast(HeadKind, loaded.kind), len(weights.get("output.bias", ()))
    separate_texts = settings.get("separate_texts", False)
    shape = HeadShape(kind, loaded.config, num_outputs, pooling, separate_texts=separate_texts)
    head = build_head(head_name, shape, seed=0)
    if "pooler.weight" in weights:
        head = BertClassifier(loaded.config, num_outputs)
    expected_weights = head.state_dict()
    whole = {name for name, weight in expected_weights.items() if not weight.is_floating_point()}
    require_numbers({name: weight for name, weight in weights.items() if name not in whole}, file)
    try:
        # Older heads may use other names, which `load_state_dict` maps.
        for key in weights.keys() & expected_weights.keys():
            if weights[key].is_floating_point() != expected_weights[key].is_floating_point():
                raise ValueError("integers instead of floating-point numbers, or the reverse")
        head.load_state_dict(weights)
    except (RuntimeError, ValueError):  # names, shapes or types differ
        raise ModelError("not the head of this model", where=file, fix=REPAIR_ADVICE) from None
    return FinetunedModel(loaded.encoder, head)
