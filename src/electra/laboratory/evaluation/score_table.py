"""The record of an evaluation: all scores from the folders of finished tasks.

Numbers in the record are shares (0.57). The page shows points (57.0), as papers do.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from electra.artifacts.evaluation_files import EvaluationFolder
from electra.finetuning.score.metrics import summary
from electra.finetuning.tasks import load_task
from electra.foundation import durable
from electra.foundation.errors import RunFolderError
from electra.laboratory.evaluation.suite import Average, Suite, TaskEntry

FORMAT = 1
COPIED_RESULTS = ("train_samples", "eval_samples", "test_samples", "epochs", "learning_rate", "max_length")


@dataclass(frozen=True)
class ModelEntry:
    """A model of the table, or a baseline."""

    name: str
    source: str  # its folder or name; "" for a baseline, which has no network

    @property
    def folder(self) -> str:
        """The name of its folder: its own name, with only letters, digits, "_", "." and hyphens."""
        return re.sub(r"[^\w.-]+", "-", self.name).strip("-")

    @property
    def init(self) -> str:
        """What it is in records: "pretrained", or "floor" for a baseline."""
        return "pretrained" if self.source else "floor"


@dataclass(frozen=True)
class EvaluationState:
    """The parts of an evaluation, and the failures so far."""

    folder: EvaluationFolder
    suite: Suite
    models: Sequence[ModelEntry]
    plan: Mapping[str, Any]
    notes: Mapping[str, Sequence[str]]  # task -> remarks on its files
    failures: dict[tuple[str, str], str] = field(default_factory=dict)  # (task, model) -> why it failed


def write_record(state: EvaluationState) -> dict[str, Any]:
    """Writes evaluation.json, from what is done so far, and returns its contents."""
    suite = state.suite
    rows = [row for entry in suite.task for row in _task_rows(state, entry)]
    record = {
        "format": FORMAT,
        "title": suite.title,
        "about": suite.about,
        "models": [{"name": model.name, **state.plan["models"][model.name]} for model in state.models],
        "rows": rows,
        "averages": [_average(state, average, rows) for average in suite.average],
        "failures": [{"task": task, "model": model, "reason": why} for (task, model), why in state.failures.items()],
        "plan": state.folder.merged_with_recorded(state.plan),  # others may have added to it
    }
    state.folder.write_record(record)
    return record


def _task_rows(state: EvaluationState, entry: TaskEntry) -> list[dict[str, Any]]:
    results = {model.name: _results(state, model, entry) for model in state.models}
    planned = state.plan["tasks"].get(entry.name, {})
    settings, limits = planned.get("settings", {}), {"limit_train": "training", "limit_eval": "scored"}
    metrics = entry.metrics or load_task(entry.task).metrics[:1]
    remarks = [*state.notes.get(entry.name, ())]
    limited = {name: settings[key] for key, name in limits.items() if settings.get(key)}
    remarks += [f"at most {number:,} {name} examples, by option" for name, number in limited.items()]
    remarks += [entry.note] if entry.note else []
    remarks += [
        f"{model}: some seeds failed, {reason}"
        for (task, model), reason in state.failures.items()
        if task == entry.name and results[model]
    ]

    def row(metric: str, is_primary: bool) -> dict[str, Any]:
        shown = metric.replace("f0_5", "F0.5").replace("f1", "F1").replace("_", " ")
        title = f"{entry.title.rpartition(', ')[0] or entry.name}, {shown}"
        scores = {
            model.name: _score(result, entry.split, metric)
            if (result := results[model.name])
            else _absent(state, entry, model)
            for model in state.models
        }
        return {
            "metric": metric,
            "split": {"eval": "dev"}.get(entry.split, entry.split),
            "scores": scores,
            "task": entry.name,
            "title": entry.title if is_primary else title,
            "remarks": remarks if is_primary else [],
        }

    return [row(metric, metric == metrics[0]) for metric in (metrics if planned else metrics[:1])]


def _results(state: EvaluationState, model: ModelEntry, entry: TaskEntry) -> dict[str, Any] | None:
    path = state.folder.task(model.folder, entry.name).results
    if not path.exists() or entry.name not in state.plan["tasks"]:
        return None
    results: dict[str, Any] = durable.read_json(path, RunFolderError)
    return results


def _score(result: Mapping[str, Any], split: str, metric: str) -> dict[str, Any]:
    key = f"{split}_{metric}"
    values = result.get(f"{key}_by_seed", [])
    score = {"status": "done", **summary(values), "n": len(values), "by_seed": values}
    if result.get(key) is None:
        score["reason"] = result.get(f"{key}_reason", "the file has no labels")
    score["seconds_per_seed"] = result["seconds"] / len(result["seeds"])
    return {**score, **{name: result.get(name) for name in COPIED_RESULTS}, "notes": result["notes"]}


def _absent(state: EvaluationState, entry: TaskEntry, model: ModelEntry) -> dict[str, Any]:
    task = entry.name
    if task not in state.plan["tasks"]:
        return {"status": "no data"}
    if (task, model.name) in state.failures:
        return {"status": "failed", "reason": state.failures[task, model.name]}
    if not model.source and not has_baseline(entry):
        return {"status": "no baseline"}
    return {"status": "waiting"}


def has_baseline(entry: TaskEntry) -> bool:
    """Whether the baselines support a task: not span extraction."""
    return load_task(entry.task).head != "reader"


def _average(state: EvaluationState, average: Average, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns each model's mean over tasks of its median over seeds, for tasks that every model has done."""
    # Reversed, so that a task's first row wins, which has its primary metric.
    primary_rows = {row["task"]: row for row in reversed(rows) if row["task"] in average.tasks}

    def median(task: str, model: ModelEntry) -> float | None:
        value: float | None = primary_rows[task]["scores"][model.name].get("median")
        return value

    def mean(values: Sequence[Any]) -> float | None:
        return sum(values) / len(values) if values and None not in values else None

    models = [model for model in state.models if model.source]
    common_tasks = [task for task in average.tasks if None not in [median(task, model) for model in models]]
    return {
        "title": average.title,
        "about": average.about,
        "tasks": list(average.tasks),
        "over": common_tasks,
        "scores": {each.name: mean([median(task, each) for task in common_tasks]) for each in state.models},
    }
