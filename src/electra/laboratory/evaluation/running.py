"""Runs a suite: every task for every model, except those that are already done.

Several processes may run a suite in one folder. Each takes tasks that are free; once all are taken, it
helps to train their seeds.

    OUT/  evaluation.json    the plan and all numbers, rewritten after every task
          evaluation.tsv     the table        evaluation.html   the page (electra.pages.suite)
          tasks/MODEL/TASK/  the folder of a fine-tuning, which can resume
          probes/MODEL/      the records of probes

A task is done when its folder holds the results, so an evaluation may be killed at any time and resumes with
the same command. Models and tasks may be added later. A change to anything that determines a number already
measured (weights, settings, files) is refused, and the message names it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from electra.artifacts.evaluation import EvaluationFolder
from electra.exchange.huggingface import exported_weights
from electra.exchange.load import load
from electra.exchange.weights import digest
from electra.finetuning.runner import baselines
from electra.finetuning.settings import CHOSEN_BY_SUITE, Settings
from electra.finetuning.tasks import load_task
from electra.foundation import durable, machine
from electra.foundation.claims import Claims, Job
from electra.foundation.config import build
from electra.foundation.errors import ConfigError, DataError, DiskError
from electra.foundation.extensions import PROBES, TASKS, is_path
from electra.foundation.jobs import run_in_turn, run_parallel
from electra.foundation.leases import Leases
from electra.foundation.machine import Device
from electra.foundation.progress import Say
from electra.foundation.signals import Stop
from electra.laboratory import analysis
from electra.laboratory.analysis.contract import ProbeDataError, named_models
from electra.laboratory.evaluation.data import find_data
from electra.laboratory.evaluation.steps import ReadyProbe, ReadyTask, Step, Work
from electra.laboratory.evaluation.suite import Suite
from electra.laboratory.evaluation.table import (
    BASELINE_KINDS,
    NO_NETWORK,
    EvaluationState,
    ModelEntry,
    format_table,
    has_baseline,
    make_record,
)


@dataclass(frozen=True)
class Options:
    """Options of an evaluation."""

    seeds: int = 1
    device: Device = "auto"
    jobs: int = 1
    """Tasks at the same time, each in its own process."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of every fine-tuning; they override the suite's."""
    probe_options: Sequence[str] = ()
    """key=value options, set in each probe that has the option; they override the suite's."""


def model_entries(
    sources: Sequence[str],
    untrained_baseline: bool,
    with_baselines: bool = True,
    baseline_model: str | None = None,
) -> list[ModelEntry]:
    """Returns the models of the table, with distinct names.

    Args:
        sources: Folders or names of models.
        untrained_baseline: Whether to add a model of the first one's shape with random weights.
        with_baselines: Whether to add the baselines that need no network.
        baseline_model: A model whose frozen encoder, with a linear model on top, becomes a baseline; None
            for no such baseline.

    Raises:
        ConfigError: Two models would share a folder, or a name has no character that a folder's may have.
        ModelError: A model was passed twice.
    """
    entries = [ModelEntry(model.name, model.source, "pretrained") for model in named_models(sources)]
    if untrained_baseline:
        entries.append(ModelEntry(f"{entries[0].name} (fresh weights)", entries[0].source, "random"))
    if baseline_model is not None:
        (frozen,) = named_models([baseline_model])
        entries.append(ModelEntry(f"{frozen.name} (frozen)", frozen.source, "frozen"))
    entries += [ModelEntry(name, "", NO_NETWORK) for name in baselines.NAMES if with_baselines]
    by_folder: dict[str, ModelEntry] = {}
    for entry in entries:
        if not entry.folder:
            clash = f"the name {entry.name!r} has no letter or digit for the name of a folder"
        elif (other := by_folder.setdefault(entry.folder, entry)) is not entry:
            clash = f"{other.name} and {entry.name} would share the folder {entry.folder!r}"
        else:
            clash = ""
        if clash:
            fix = "Rename one, or pass a link to it with another name"
            raise ConfigError(clash, where=entry.source, fix=fix)
    return entries


def evaluate(
    suite: Suite,
    models: Sequence[ModelEntry],
    roots: Sequence[Path],
    out: Path,
    *,
    options: Options,
    say: Say,
    stop: Stop,
) -> dict[str, Any] | None:
    """Runs all tasks and probes that are not done yet.

    Returns:
        The contents of evaluation.json, or None if a stop was requested before the end.

    Raises:
        ConfigError: An option is invalid.
        DataError: There are no data for any task or probe.
        DiskError: A file cannot be written.
    """
    suite = with_probe_options(suite, options.probe_options)
    ready_tasks = find_tasks(suite, options, roots)
    probes = find_probes(suite, roots)
    if not ready_tasks and not probes:
        names = ", ".join([entry.name for entry in suite.probe] + [entry.name for entry in suite.task])
        fix = "Pass the folder that holds a folder of data for each task"
        raise DataError(f"no data for any task ({names})", where=", ".join(map(str, roots)), fix=fix)
    plan = make_plan(suite.title, models, ready_tasks, probes)
    folder = EvaluationFolder(out)
    with folder.session(say=say, stop=stop, shared=True) as session:
        say = session.say  # also writes to log.txt
        if session.resumed:
            session.begin({"plan": plan})
        notes = {task.entry.name: task.files.notes for task in ready_tasks}
        state = EvaluationState(folder, suite, models, plan, folder.merged_with_recorded(plan), notes)
        for entry in suite.task:
            if entry.name not in plan["tasks"]:
                say(f"{entry.name}: no data")
        write(state)
        session.share()
        steps = steps_of(suite, models, ready_tasks, probes, folder=folder, options=options)
        step_of = {Job(step.title, step.run): step for step in steps}
        leases, processes = Leases(folder.leases), options.jobs

        def is_done(job: Job) -> bool:
            step = step_of[job]
            return step.is_done() or (step.helper > 0 and (step.name, step.model.name) in state.failures)

        claims = Claims(step_of, leases, is_done)
        threads = max(1, machine.default_threads() // processes)
        for job in (
            run_in_turn(claims, say=say, stop=stop)
            if processes == 1
            else run_parallel(claims, processes, threads=threads, say=say, stop=stop)
        ):
            step = step_of[job]
            key = step.name, step.model.name
            if isinstance(job.error, DiskError):
                raise job.error  # other failures do not stop the evaluation
            if job.error is not None:
                say(f"{job.name}: failed, {job.error}")
                state.failures[key] = str(job.error)
            elif step.helper:
                continue
            elif job.done_elsewhere:
                say(f"{job.name}: already done")
            if job.state == "done":
                state.failures.pop(key, None)  # clears the failure of a helper
            with session.exclusive():
                write(state)
        if any(job.state in ("waiting", "stopped") for job in step_of):
            say("stopped; rerun the command to resume")
            return None
        with session.exclusive():
            record = write(state)
            folder.record_digests()
            if not state.failures:
                leases.clear()
        return record


def steps_of(
    suite: Suite,
    models: Sequence[ModelEntry],
    ready_tasks: Sequence[ReadyTask],
    probes: Sequence[ReadyProbe],
    *,
    folder: EvaluationFolder,
    options: Options,
) -> list[Step]:
    """Returns a step for each task and probe with each model it applies to, then the helpers' steps.

    A task has a helper for each seed but one.
    """

    def applies(work: Work, model: ModelEntry, helper: int) -> bool:
        if isinstance(work, ReadyProbe):  # probes measure what pre-training taught
            return model.init == "pretrained" and helper == 0
        if model.init in BASELINE_KINDS:
            return has_baseline(suite, work.entry.name) and helper == 0
        return True

    all_work: list[Work] = [*probes, *ready_tasks]
    return [
        Step(model, work, folder, options.seeds, options.device, helper)
        for helper in range(options.seeds)
        for work in all_work
        for model in models
        if applies(work, model, helper)
    ]


def remaining_work(
    suite: Suite, models: Sequence[ModelEntry], roots: Sequence[Path], out: Path, options: Options
) -> list[str]:
    """Returns a line for each thing left to do, with the process that is working on it, if any."""
    suite, folder = with_probe_options(suite, options.probe_options), EvaluationFolder(out)
    ready_tasks, probes = find_tasks(suite, options, roots), find_probes(suite, roots)
    steps = steps_of(suite, models, ready_tasks, probes, folder=folder, options=options)
    return [line for step in steps for line in step.left()]


def find_tasks(suite: Suite, options: Options, roots: Sequence[Path]) -> list[ReadyTask]:
    """Returns the tasks that have data, after checking the names and settings of all tasks.

    Raises:
        DataError: A root folder is missing, or a task lacks a metric that the suite lists.
        ConfigError: A setting is invalid or is chosen by the evaluation.
    """
    ready_tasks = []
    for root in roots:
        if not root.exists():
            raise DataError("no such folder", where=root, fix="Check `data`")
    for entry in suite.task:
        task = load_task(entry.task)
        settings, where = {**entry.settings, **options.settings}, f"{entry.name}.settings"
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
            ready_tasks.append(ReadyTask(entry, files, task.version, settings))
    return ready_tasks


def with_probe_options(suite: Suite, texts: Sequence[str]) -> Suite:
    """Returns the suite with the options `texts` (key=value) set in its probes, if it has any."""
    if not suite.probe:
        return suite  # the option may be passed with any suite
    options = analysis.options_for([entry.path for entry in suite.probe], texts)
    probes = (replace(entry, options={**entry.options, **options[entry.path]}) for entry in suite.probe)
    return replace(suite, probe=tuple(probes))


def find_probes(suite: Suite, roots: Sequence[Path]) -> list[ReadyProbe]:
    """Returns the probes that have data. A probe whose inputs are all optional needs at least one of them.

    Raises:
        ConfigError: A probe cannot be loaded, or an option is invalid.
    """
    ready_probes = []
    for entry in suite.probe:
        try:
            data = analysis.create(entry.path, entry.options).find(roots)
        except ProbeDataError:
            continue
        if data:
            ready_probes.append(ReadyProbe(entry, data))
    return ready_probes


def make_plan(
    title: str, models: Sequence[ModelEntry], ready_tasks: Sequence[ReadyTask], probes: Sequence[ReadyProbe]
) -> dict[str, Any]:
    """Returns the plan, with which a resumed evaluation must agree.

    Loads each model once, so that one that cannot be loaded is refused before any work begins.
    """
    networks = {}
    for source in dict.fromkeys(model.source for model in models if model.init != NO_NETWORK):
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
        "models": {
            model.name: {"source": model.source, "init": model.init, **networks.get(model.source, {})}
            for model in models
        },
        "tasks": {
            task.entry.name: {
                "task": TASKS.canonical_name(task.entry.task)
                if is_path(task.entry.task)
                else task.entry.task,
                **TASKS.identity(task.entry.task),
                "version": task.version,
                "settings": task.settings,
                "files": task.files.digests(),
            }
            for task in ready_tasks
        },
        "probes": {
            probe.entry.name: {
                "options": probe.entry.options,
                "version": analysis.create(probe.entry.path, probe.entry.options).version,
                **PROBES.identity(probe.entry.path),
                "files": file_digests(probe.data),
            }
            for probe in probes
        },
    }
    as_read_back: dict[str, Any] = json.loads(json.dumps(plan, default=str))
    return as_read_back


def file_digests(data: Mapping[str, Sequence[Path]]) -> dict[str, str]:
    """Returns the SHA-256 of each file, by FOLDER/NAME."""
    return {
        f"{path.parent.name}/{path.name}": durable.sha256(path) for paths in data.values() for path in paths
    }


def write(state: EvaluationState) -> dict[str, Any]:
    """Writes evaluation.json and evaluation.tsv, and returns the record."""
    # Other processes may have added to the plan.
    merged_plan = state.folder.merged_with_recorded(state.merged_plan)
    record = make_record(replace(state, merged_plan=merged_plan))
    state.folder.write_record(record)
    durable.commit_file(state.folder.table, format_table(record))
    return record
