"""Run a suite: every task for every model, whatever is not done yet.

    OUT/  evaluation.json    the plan and all numbers, written anew after every task
          evaluation.tsv     the table        evaluation.html   the page (electra.pages.suite)
          tasks/MODEL/TASK/  a fine-tuning's folder, which continues by itself
          probes/MODEL/      a probe's record

The folders are the truth: a task is done when its folder says so, so a run may be killed anywhere and the
same command goes on. Models and tasks may be added later; what changes a number already measured (other
weights, settings, files) is refused by name.
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
from electra.finetuning.runner import floors
from electra.finetuning.settings import Settings
from electra.finetuning.tasks import load_task
from electra.foundation import durable, machine
from electra.foundation.config import build
from electra.foundation.errors import ConfigError, DataError, DiskError
from electra.foundation.extensions import PROBES, TASKS, is_path
from electra.foundation.jobs import Job, in_turn, side_by_side
from electra.foundation.machine import Device
from electra.foundation.progress import Say
from electra.foundation.signals import Stop
from electra.laboratory import analysis
from electra.laboratory.analysis.contract import ProbeDataError, named_models
from electra.laboratory.evaluation.data import find_data
from electra.laboratory.evaluation.steps import Asked, ReadyTask, Step, Todo
from electra.laboratory.evaluation.suite import Suite
from electra.laboratory.evaluation.table import (
    Entrant,
    Measured,
    format_table,
    has_floor,
    make_record,
)

OWN = {
    "task",
    "data",
    "dev",
    "test",
    "extra_eval",
    "out",
    "seeds",
    "seed",
    "init",
    "device",
    "baselines",
    "untrained_baseline",
}  # settings of a fine-tuning that are made here


@dataclass(frozen=True)
class Options:
    seeds: int = 1
    device: Device = "auto"
    jobs: int = 1
    """Tasks at the same time, each in a process of its own."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of every fine-tuning: these win over the suite's."""
    probe_options: Sequence[str] = ()
    """key=value, of the probes that have the option: these win as well."""


def entrants(sources: Sequence[str], random_twin: bool, with_floors: bool = True) -> list[Entrant]:
    """The models by distinct names, with the first one's fresh twin and what needs no network."""
    made = [Entrant(model.name, model.source, "pretrained") for model in named_models(sources)]
    made += [Entrant(f"{made[0].name} (fresh weights)", made[0].source, "random")] if random_twin else []
    made += [Entrant(name, "", "floor") for name in floors.NAMES if with_floors]
    by_folder: dict[str, Entrant] = {}
    for entrant in made:
        if (other := by_folder.setdefault(entrant.folder, entrant)) is not entrant or not entrant.folder:
            what = f"{other.name} and {entrant.name} would share the folder {entrant.folder!r}"
            raise ConfigError(
                what, where=entrant.source, fix="Rename one, or give a link to it with another name"
            )
    return made


def evaluate(
    suite: Suite,
    models: Sequence[Entrant],
    roots: Sequence[Path],
    out: Path,
    *,
    options: Options,
    say: Say,
    stop: Stop,
) -> dict[str, Any] | None:
    """Run what is not done; the contents of evaluation.json. None when asked to stop before the end."""
    suite = with_probe_options(suite, options.probe_options)
    jobs = find_jobs(suite, options, roots)
    probes = find_probes(suite, roots)
    if not jobs and not probes:
        wanted = ", ".join([entry.name for entry in suite.probe] + [entry.name for entry in suite.task])
        fix = "Pass the folder that holds a folder of data for each task"
        raise DataError(f"no data for any task ({wanted})", where=", ".join(map(str, roots)), fix=fix)
    plan = make_plan(suite.title, models, jobs, probes)
    folder = EvaluationFolder(out)
    with folder.session(say=say, stop=stop) as session:
        say = session.say  # to log.txt as well
        if session.resumed:
            session.begin({"plan": plan})
        measured = Measured(
            folder,
            suite,
            models,
            plan,
            folder.with_earlier(plan),
            {job.entry.name: job.found.notes for job in jobs},
        )
        for entry in suite.task:
            if entry.name not in plan["tasks"]:
                say(f"{entry.name}: no data")
        write(measured)
        todos: list[Todo] = [*probes, *jobs]
        steps = [
            Step(entrant, todo, folder, options.seeds, options.device)
            for todo in todos
            for entrant in models
            if (
                entrant.init == "pretrained"  # a probe asks what pre-training has taught
                if not isinstance(todo, ReadyTask)
                else entrant.init != "floor" or has_floor(suite, todo.entry.name)
            )
        ]
        at_once, running = options.jobs, [Job(step.title, step.run) for step in steps]
        outcomes = (
            in_turn(running, say=say, stop=stop)
            if at_once == 1
            else side_by_side(
                running, at_once, threads=max(1, machine.usual_threads() // at_once), say=say, stop=stop
            )
        )
        step_of = dict(zip(running, steps, strict=True))
        for job in outcomes:
            if isinstance(job.error, DiskError):
                raise job.error  # a task that fails leaves the others alone; a full disk ends it all
            if job.error is not None:
                say(f"{job.name}: failed, {job.error}")
                measured.failures[step_of[job].name, step_of[job].entrant.name] = str(job.error)
            write(measured)
        if any(job.state in ("waiting", "stopped") for job in running):
            say("stopped; rerun the command to resume")
            return None
        record = write(measured)
        folder.record_digests()
        return record


def find_jobs(suite: Suite, options: Options, roots: Sequence[Path]) -> list[ReadyTask]:
    """The tasks with data. Whatever is wrong about names and settings is found here, before any work."""
    jobs = []
    for root in roots:
        if not root.exists():
            raise DataError("no such folder", where=root, fix="Check `data`")
    for entry in suite.task:
        task = load_task(entry.task)
        settings = {**entry.settings, **options.settings}
        settings |= {
            name: [settings[name]]
            for name in ("text_column", "columns")
            if isinstance(settings.get(name), str)
        }
        reserved = sorted(OWN & settings.keys())
        if reserved:
            raise ConfigError(
                "the evaluation itself decides this setting",
                where=f"{entry.name}.settings.{reserved[0]}",
                fix="Leave it out",
            )
        build(
            Settings,
            {**settings, "task": entry.task, "data": Path(), "out": Path()},
            where=f"{entry.name}.settings",
        )
        unknown = [metric for metric in entry.metrics if metric not in task.metrics]
        if unknown:
            fix = f"It has {', '.join(task.metrics)}"
            raise DataError(
                f"{entry.task} has no metric {unknown[0]!r}", where=f"{entry.name}.metrics", fix=fix
            )
        found = find_data(entry, task, roots)
        if found is not None:
            jobs.append(ReadyTask(entry, found, task.version, settings))
    return jobs


def with_probe_options(suite: Suite, given: Sequence[str]) -> Suite:
    if not suite.probe:
        return suite  # one command line for every suite
    options = analysis.options_for([entry.path for entry in suite.probe], given)
    return replace(
        suite,
        probe=tuple(
            replace(entry, options={**entry.options, **options[entry.path]}) for entry in suite.probe
        ),
    )


def find_probes(suite: Suite, roots: Sequence[Path]) -> list[Asked]:
    """The probes with data. Those whose inputs are all optional have none when nothing at all is found."""
    found = []
    for entry in suite.probe:
        try:
            data = analysis.create(entry.path, entry.options).find(roots)
        except ProbeDataError:
            continue
        if data:
            found.append((entry, data))
    return found


def make_plan(
    title: str, models: Sequence[Entrant], jobs: Sequence[ReadyTask], probes: Sequence[Asked]
) -> dict[str, Any]:
    """What must agree when an evaluation goes on. Loads each model once: one that fails is told at once."""
    described = {}
    for source in dict.fromkeys(model.source for model in models if model.init != "floor"):
        loaded = load(source, "encoder")
        described[source] = {
            "weights": digest(exported_weights(loaded.encoder, None)),
            "parameters": sum(parameter.numel() for parameter in loaded.encoder.parameters()),
            "layers": loaded.config.num_layers,
            "hidden_size": loaded.config.hidden_size,
            "kind": loaded.kind,
        }
    plan = {
        "suite": title,
        "models": {
            model.name: {"source": model.source, "init": model.init, **described.get(model.source, {})}
            for model in models
        },
        "tasks": {
            job.entry.name: {
                "task": TASKS.name_of(job.entry.task) if is_path(job.entry.task) else job.entry.task,
                **TASKS.identity(job.entry.task),
                "version": job.version,
                "settings": job.settings,
                "files": job.found.digests(),
            }
            for job in jobs
        },
        "probes": {
            entry.name: {
                "options": entry.options,
                "version": analysis.create(entry.path, entry.options).version,
                **PROBES.identity(entry.path),
                "files": digests(data),
            }
            for entry, data in probes
        },
    }
    plain: dict[str, Any] = json.loads(json.dumps(plan, default=str))
    return plain


def digests(data: Mapping[str, Sequence[Path]]) -> dict[str, str]:
    return {
        f"{path.parent.name}/{path.name}": durable.sha256(path) for paths in data.values() for path in paths
    }


def write(measured: Measured) -> dict[str, Any]:
    record = make_record(measured)
    measured.folder.write_record(record)
    durable.commit_file(measured.folder.table, format_table(record))
    return record
