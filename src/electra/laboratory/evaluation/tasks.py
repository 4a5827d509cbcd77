"""Runs a suite: every task with every model, except those that are already done.

Each task with one model is a piece of work (`electra.foundation.work`), which is done when its folder holds
the results. A change to anything that determines a number already measured (weights, settings, files) is
refused, and the message names it.
"""

import gc
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from typing_extensions import override

from electra.artifacts.evaluation_files import EvaluationFolder
from electra.artifacts.finetuning_files import FinetuningFolder
from electra.exchange.huggingface import exported_weights
from electra.exchange.load import load
from electra.exchange.weights import digest
from electra.finetuning.score import baselines
from electra.finetuning.settings import AUTO, CHOSEN_BY_SUITE, Settings
from electra.finetuning.tasks import load_task
from electra.finetuning.train.all_seeds import finetune
from electra.foundation import durable
from electra.foundation.config import build
from electra.foundation.errors import ConfigError, DataError, DiskError, ElectraError, RunFolderError
from electra.foundation.extensions import TASKS, is_path
from electra.foundation.machine import Device
from electra.foundation.options import as_path
from electra.foundation.progress import Say
from electra.foundation.signals import Stop
from electra.foundation.work import Piece, run_pieces
from electra.laboratory.analysis.contract import named_models
from electra.laboratory.evaluation.score_table import EvaluationState, ModelEntry, has_baseline, write_record
from electra.laboratory.evaluation.suite import Suite, TaskEntry, TaskFiles, find_data


@dataclass(frozen=True)
class ReadyTask:
    """A task whose data have been found."""

    entry: TaskEntry
    files: TaskFiles
    version: int  # the version of the fine-tuning task
    settings: Mapping[str, Any]

    def describe(self) -> dict[str, Any]:
        """Returns the task as in the plan."""
        name = self.entry.task
        known = {"task": TASKS.canonical_name(name) if is_path(name) else name, **TASKS.identity(name)}
        return {**known, "version": self.version, "settings": self.settings, "files": self.files.digests()}


@dataclass(frozen=True, kw_only=True)
class Scoring(Piece):
    """A task with one model."""

    key: tuple[str, str]  # the name of the task, and that of the model
    seeds: int

    @override
    def is_finished(self) -> bool:
        path = self.folder / self.record
        wanted = set(range(self.seeds))
        return path.exists() and wanted <= set(durable.read_json(path, RunFolderError)["seeds"])


def model_entries(sources: Sequence[str], with_baselines: bool = True) -> list[ModelEntry]:
    """Returns the models of the table, then the baselines. Raises ConfigError if two would share a folder."""
    entries = [ModelEntry(model.name, model.source) for model in named_models(sources)]
    entries += [ModelEntry(name, "") for name in baselines.NAMES if with_baselines]
    by_folder: dict[str, ModelEntry] = {}
    for entry in entries:
        other = by_folder.setdefault(entry.folder, entry)
        if other is not entry or not entry.folder:
            problem = f"{other.name} and {entry.name} would share the folder {entry.folder!r}"
            if not entry.folder:
                problem = f"the name {entry.name!r} has no letter or digit for the name of a folder"
            fix = "Rename one, or pass a link to it with another name"
            raise ConfigError(problem, where=entry.source, fix=fix)
    return entries


def evaluate(
    suite: Suite,
    models: Sequence[ModelEntry],
    roots: Sequence[Path],
    out: Path,
    *,
    settings: Mapping[str, Any],
    seeds: int,
    device: Device,
    say: Say,
    stop: Stop,
) -> dict[str, Any]:
    """Runs all tasks that are not done yet, and returns the contents of evaluation.json, with failures.

    `settings` are those of every fine-tuning; they override the suite's.
    """
    tasks = find_tasks(suite, settings, roots)
    if not tasks:
        names = ", ".join(entry.name for entry in suite.task)
        fix = "Pass the folder that holds a folder of data for each task"
        raise DataError(f"no data for any task ({names})", where=", ".join(map(str, roots)), fix=fix)
    plan, folder = make_plan(suite.title, models, tasks), EvaluationFolder(out)
    with folder.session(say=say, stop=stop, shared=True) as session:
        if session.resumed:
            session.begin({"plan": plan})
        notes = {task.entry.name: task.files.notes for task in tasks}
        state = EvaluationState(folder, suite, models, plan, notes)
        for name in (entry.name for entry in suite.task if entry.name not in plan["tasks"]):
            session.say(f"{name}: no data")
        write_record(state)
        session.share()

        def ended(piece: Any, error: ElectraError | None) -> None:
            if isinstance(error, DiskError):
                raise error  # other failures do not stop the evaluation
            if error is not None:
                session.say(f"{piece.name}: failed, {error}")
                state.failures[piece.key] = str(error)
            with session.exclusive():
                write_record(state)

        run_pieces(pieces_of(state, tasks, seeds, device), say=session.say, stop=stop, ended=ended)
        with session.exclusive():
            return write_record(state)


def pieces_of(state: EvaluationState, tasks: Sequence[ReadyTask], seeds: int, device: Device) -> list[Scoring]:
    """Returns a piece of work for each task with each model that it applies to."""
    pieces: list[Scoring] = []
    for ready, model in product(tasks, state.models):
        name, title = ready.entry.name, f"{ready.entry.name}, {model.name}"
        if model.source or has_baseline(ready.entry):
            tuned, key = state.folder.task(model.folder, name), (name, model.name)
            work = partial(score_task, ready, model, tuned.path, seeds, device)
            wanted = seeds if model.source else 1
            pieces.append(Scoring(title, tuned.path, tuned.results.name, work, key=key, seeds=wanted))
    return pieces


def score_task(
    ready: ReadyTask, model: ModelEntry, out: Path, seeds: int, device: Device, *, say: Say, stop: Stop
) -> None:
    """Fine-tunes a model on a task, or fits a baseline, and writes all_results.json."""
    others = {"test": ready.files.test, "extra_eval": ready.files.also}
    settings = score_settings(ready, out, **others, seeds=seeds, device=device)
    try:
        if not model.source:
            results = baselines.measure(model.name, settings)
            durable.commit_json(FinetuningFolder(as_path(settings.out)).results, results)
        else:
            finetune(model.source, settings, say, stop)
    finally:
        gc.collect()  # frees the model and its tokenised data before the next piece


def score_settings(ready: ReadyTask, out: Path, **fixed: Any) -> Settings:
    """Returns the settings with which a task scores any model: the same procedure, so the same head, for all.

    `auto` would choose a head for each model; here it is `transformers`. `fixed` are further settings.
    """
    fixed |= {"task": ready.entry.task, "data": ready.files.train, "dev": ready.files.dev, "out": out}
    values = {**ready.settings, **fixed, "baselines": False}  # they have their own columns
    settings = build(Settings, values, where=f"{ready.entry.name}.settings")
    return replace(settings, head="transformers") if settings.head == AUTO else settings


def find_tasks(suite: Suite, settings_of_all: Mapping[str, Any], roots: Sequence[Path]) -> list[ReadyTask]:
    """Returns the tasks that have data; checks all. `settings_of_all` override those of the suite."""
    for root in roots:
        if not root.exists():
            raise DataError("no such folder", where=root, fix="Check `data`")
    ready = []
    for entry in suite.task:
        task = load_task(entry.task)
        settings, where = {**entry.settings, **settings_of_all}, f"{entry.name}.settings"
        for name in ("text_column", "columns"):
            if isinstance(settings.get(name), str):
                settings[name] = [settings[name]]
        if reserved := sorted(CHOSEN_BY_SUITE & settings.keys()):
            problem = "the evaluation chooses this setting"
            raise ConfigError(problem, where=f"{where}.{reserved[0]}", fix="Remove it")
        build(Settings, {**settings, "task": entry.task, "data": Path(), "out": Path()}, where=where)
        if unknown := [metric for metric in entry.metrics if metric not in task.metrics]:
            problem, fix = f"{entry.task} has no metric {unknown[0]!r}", f"It has {', '.join(task.metrics)}"
            raise DataError(problem, where=f"{entry.name}.metrics", fix=fix)
        if (files := find_data(entry, task, roots)) is not None:
            ready.append(ReadyTask(entry, files, task.version, settings))
    return ready


def make_plan(title: str, models: Sequence[ModelEntry], tasks: Sequence[ReadyTask]) -> dict[str, Any]:
    """Returns the plan, with which a resumed evaluation must agree; refuses models that cannot be loaded."""
    networks = {}
    for source in dict.fromkeys(model.source for model in models if model.source):
        loaded = load(source, "encoder")
        networks[source] = {
            "weights": digest(exported_weights(loaded.encoder, None)),
            "parameters": sum(parameter.numel() for parameter in loaded.encoder.parameters()),
            "layers": loaded.config.num_layers,
            "hidden_size": loaded.config.hidden_size,
            "kind": loaded.kind,
        }
    plan = {
        "suite": title,
        "models": {m.name: {"source": m.source, "init": m.init} | networks.get(m.source, {}) for m in models},
        "tasks": {task.entry.name: task.describe() for task in tasks},
    }
    as_read_back: dict[str, Any] = json.loads(json.dumps(plan, default=str))
    return as_read_back
