"""The record of an evaluation: every number from the folders of finished tasks, the published ones beside
them, and what forbids comparing. Numbers in the record are shares (0.57); the table and the page show points
(57.0), as papers do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from electra.artifacts.evaluation import EvaluationFolder
from electra.data.delimited import format_tsv
from electra.finetuning.metrics.scores import summary
from electra.finetuning.tasks import load_task
from electra.foundation import durable
from electra.foundation.errors import RunFolderError
from electra.laboratory.evaluation.published import Column, columns_for
from electra.laboratory.evaluation.suite import Average, ProbeEntry, Suite, TaskEntry

FORMAT = 1
METRIC_NAMES = {
    "f1": "F1",
    "f1_macro": "macro F1",
    "f0_5": "F0.5",
    "exact_match": "exact match",
    "best_exact_match": "best exact match",
    "best_f1": "best F1",
}
ENOUGH = 0.99  # of the published number of examples: QQP loses a few malformed rows


@dataclass(frozen=True)
class Entrant:
    """A model in the table."""

    name: str
    source: str
    init: Literal["pretrained", "random", "floor"]
    """pretrained: as the source has it; random: fresh weights in its shape; floor: no network at all."""

    @property
    def folder(self) -> str:
        return re.sub(r"[^\w.-]+", "-", self.name).strip("-")


@dataclass(frozen=True)
class Measured:
    """Where an evaluation stands."""

    folder: EvaluationFolder
    suite: Suite
    entrants: Sequence[Entrant]
    plan: Mapping[str, Any]
    known: Mapping[str, Any]  # the plan with what earlier commands asked and this one does not
    notes: Mapping[str, Sequence[str]]  # task -> what was done to find its data
    failures: dict[tuple[str, str], str] = field(default_factory=dict)  # (task, model) -> why


def make_record(measured: Measured) -> dict[str, Any]:
    suite = measured.suite
    rows = [row for entry in suite.probe for row in _probe_rows(measured, entry)]
    rows += [row for entry in suite.task for row in _task_rows(measured, entry)]
    groups = list(
        dict.fromkeys([*(entry.group for entry in suite.task), *(entry.group for entry in suite.probe)])
    )
    rows.sort(key=lambda row: groups.index(row["group"]))
    columns = columns_for([*(row["task"] for row in rows), *(average.published for average in suite.average)])
    averages = [_average(measured, average, rows, columns) for average in suite.average]
    return {
        "format": FORMAT,
        "title": suite.title,
        "about": suite.about,
        "models": [
            {"name": entrant.name, **measured.plan["models"][entrant.name]} for entrant in measured.entrants
        ],
        "rows": rows,
        "averages": averages,
        "published": [
            {
                "title": column.title,
                "source": column.source,
                "how": column.how,
                "other_examples": column.other_examples,
            }
            for column in columns
        ],
        "failures": [
            {"task": task, "model": model, "reason": reason}
            for (task, model), reason in measured.failures.items()
        ],
        "plan": measured.known,
    }


def _task_rows(measured: Measured, entry: TaskEntry) -> list[dict[str, Any]]:
    """A row for each metric, and below them one for each further file."""
    results = {entrant.name: _results(measured, entrant, entry) for entrant in measured.entrants}
    done = [result for result in results.values() if result]
    metrics = entry.metrics or load_task(entry.task).metrics[:1]
    metrics = metrics if entry.name in measured.plan["tasks"] else metrics[:1]
    limits = _limits(measured.plan["tasks"].get(entry.name, {}).get("settings", {}))
    sizes = _sizes(done, entry.full, entry.split) if entry.full else limits
    remarks = [*measured.notes.get(entry.name, ()), *sizes, *([entry.note] if entry.note else [])]
    failed = {model: reason for (task, model), reason in measured.failures.items() if task == entry.name}
    remarks += [f"{model}: seeds are missing, {reason}" for model, reason in failed.items() if results[model]]

    def row(split: str, metric: str, full: Sequence[int], **more: Any) -> dict[str, Any]:
        scores = {
            entrant.name: _score(result, split, metric)
            if (result := results[entrant.name])
            else _absent(measured, entry.name, entrant)
            for entrant in measured.entrants
        }
        comparable = bool(done and full) and not _sizes(done, full, split)
        told = {"group": entry.group, "metric": metric, "split": {"eval": "dev"}.get(split, split)}
        return {**told, "scores": scores, "comparable": comparable, **more}

    rows = []
    for metric in metrics:
        first = metric == metrics[0]
        title = (
            entry.title
            if first
            else f"{entry.title.rpartition(', ')[0] or entry.name}, {METRIC_NAMES.get(metric, metric)}"
        )
        published = _published(entry.name, metric, first)
        rows.append(
            row(
                entry.split,
                metric,
                entry.full,
                task=entry.name,
                title=title,
                published=published,
                remarks=remarks if first else [],
            )
        )
    for further in entry.further:
        split = next(
            (name for name in further.files if any(f"{name}_samples" in result for result in done)), ""
        )
        full = (entry.full[0], further.full) if entry.full and further.full else ()
        below = row(
            split,
            metrics[0],
            full,
            task=further.name,
            title=further.title,
            remarks=_sizes(done, full, split) if split else [],
        )
        rows.append({**below, "published": _published(further.name, metrics[0], True)})
    return rows


def _results(measured: Measured, entrant: Entrant, entry: TaskEntry) -> dict[str, Any] | None:
    path = measured.folder.task(entrant.folder, entry.name).results
    if not path.exists() or entry.name not in measured.plan["tasks"]:
        return None
    found: dict[str, Any] = durable.read_json(path, RunFolderError)
    return found


def _score(result: Mapping[str, Any], split: str, metric: str) -> dict[str, Any]:
    if not split:
        return {"status": "no data"}
    key = f"{split}_{metric}"
    values = result.get(f"{key}_by_seed", [])
    return {
        "status": "done",
        **summary(values),
        "n": len(values),
        "by_seed": values,
        **(
            {}
            if result.get(key) is not None
            else {"reason": result.get(f"{key}_reason", "there is no file with answers")}
        ),
        "seconds_per_seed": result["seconds"] / len(result["seeds"]),
        **{
            name: result.get(name)
            for name in (
                "train_samples",
                "eval_samples",
                "test_samples",
                "epochs",
                "learning_rate",
                "max_length",
            )
        },
        "notes": result["notes"],
    }


def _absent(measured: Measured, task: str, entrant: Entrant) -> dict[str, Any]:
    if task not in measured.plan["tasks"] and task not in measured.plan["probes"]:
        return {"status": "no data"}
    if (task, entrant.name) in measured.failures:
        return {"status": "failed", "reason": measured.failures[task, entrant.name]}
    if entrant.init == "floor" and not has_floor(measured.suite, task):
        return {"status": "no floor"}
    return {"status": "waiting"}


def has_floor(suite: Suite, name: str) -> bool:
    """Whether a task can be done without a network: spans of a text cannot, and probes ask networks."""
    return any(entry.name == name and load_task(entry.task).head != "reader" for entry in suite.task)


def _limits(settings: Mapping[str, Any]) -> list[str]:
    """Examples left out on purpose."""
    told = {"limit_train": "training examples", "limit_eval": "scored examples"}
    return [f"{settings[key]:,} {what} at most, by option" for key, what in told.items() if settings.get(key)]


def _sizes(done: Sequence[Mapping[str, Any]], full: Sequence[int], split: str) -> list[str]:
    """What differs in size from the data behind published numbers."""
    if not full or not done:
        return []
    train, scored = done[0]["train_samples"], done[0].get(f"{split}_samples", 0)
    remarks = []
    if train < ENOUGH * full[0]:
        remarks.append(f"trained on {train:,} of {full[0]:,} examples")
    if scored < ENOUGH * full[1]:
        remarks.append(f"scored on {scored:,} of {full[1]:,} examples")
    return remarks


def _probe_rows(measured: Measured, entry: ProbeEntry) -> list[dict[str, Any]]:
    """A row for each headline number of any model."""
    records = {}
    for entrant in measured.entrants:
        path = measured.folder.probes(entrant.folder).probe(entry.name)
        if path.exists() and entry.name in measured.plan["probes"]:
            records[entrant.name] = durable.read_json(path, RunFolderError)
    keys = dict.fromkeys(key for record in records.values() for key in record["headline"])
    if not keys:
        scores = {entrant.name: _absent(measured, entry.name, entrant) for entrant in measured.entrants}
        empty = {
            "metric": "",
            "title": entry.name,
            "split": "all",
            "published": {},
            "comparable": False,
            "remarks": [],
        }
        return [{"group": entry.group, "task": entry.name, "scores": scores, **empty}]
    rows = []
    benchmarks = list(dict.fromkeys(key.rpartition(": ")[0] for key in keys))
    for key in sorted(keys, key=lambda key: benchmarks.index(key.rpartition(": ")[0])):
        task, _, metric = key.rpartition(": ")
        first = next(record for record in records.values() if key in record["headline"])
        files = sum(file["folder"] == task for found in first["data"].values() for file in found)
        remarks = [f"{files} of {entry.full[task]} files"] if files != entry.full.get(task, files) else []
        remarks += (
            [f"the first {limit} pairs of each file, by option"]
            if (limit := entry.options.get("limit"))
            else []
        )
        rows.append(
            {
                "group": entry.group,
                "task": task or entry.name,
                "metric": metric,
                "title": key,
                "split": "all",
                "scores": {
                    entrant.name: _estimate(measured, entry.name, records, entrant, key)
                    for entrant in measured.entrants
                },
                "published": _published(task, metric, False),
                "comparable": task in entry.full and not remarks,
                "remarks": remarks,
            }
        )
    return rows


def _estimate(
    measured: Measured, probe: str, records: Mapping[str, Any], entrant: Entrant, key: str
) -> dict[str, Any]:
    if entrant.init == "pretrained" and entrant.name not in records:
        return _absent(measured, probe, entrant)
    estimate = records[entrant.name]["headline"].get(key) if entrant.name in records else None
    if estimate is None:
        return {"status": "not asked", "reason": "a probe asks networks that were pre-trained for it"}
    value = estimate["value"]
    return {
        "status": "done",
        **summary([value]),
        "n": 1,
        "by_seed": [value],
        "low": estimate["low"],
        "high": estimate["high"],
    }


def _published(task: str, metric: str, first: bool) -> dict[str, float]:
    found = {column.title: column.score(task, metric, first) for column in columns_for([task])}
    return {title: value for title, value in found.items() if value is not None}


def _average(
    measured: Measured, average: Average, rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]
) -> dict[str, Any]:
    """The mean over tasks of the medians over seeds, over the tasks that every model has done; published
    numbers and floors over the same tasks, where they have a number for each.
    """
    first = {
        row["task"]: row for row in reversed(rows) if row["task"] in average.tasks
    }  # a task's first row: its primary metric
    models = [entrant.name for entrant in measured.entrants if entrant.init != "floor"]

    def mean(model: str) -> float | None:
        values = [first[task]["scores"][model].get("median") for task in shared]
        return sum(values) / len(values) if values and None not in values else None

    shared = [
        name
        for name in average.tasks
        if all(first[name]["scores"][model].get("median") is not None for model in models)
    ]
    complete = len(shared) == len(average.tasks)
    published = {}
    for column in columns:
        values = [first[name]["published"].get(column.title) for name in shared]
        if complete and average.published in column.scores:
            published[column.title] = round(column.scores[average.published] / 100, 6)
        elif values and None not in values:
            published[column.title] = sum(values) / len(values)
    return {
        "group": average.group,
        "title": average.title,
        "about": average.about,
        "tasks": list(average.tasks),
        "over": shared,
        "scores": {entrant.name: mean(entrant.name) for entrant in measured.entrants},
        "published": published,
        "comparable": complete and all(first[name]["comparable"] for name in shared),
    }


def format_table(record: Mapping[str, Any]) -> bytes:
    """The table as an unquoted tsv, in points; in parentheses published numbers not to be compared."""
    models, published = [model["name"] for model in record["models"]], record["published"]
    header = ["task", "metric", "split"]
    header += [
        f"{model}: {what}" for model in models for what in ("median", "mean", "sd", "n", "seconds per seed")
    ]
    lines = [[*header, *(column["title"] for column in published), "remarks"]]
    for row in record["rows"]:
        line = [row["task"], row["metric"], row["split"]]
        for model in models:
            score = row["scores"][model]
            numbers = [points(score.get(name)) for name in ("median", "mean", "sd")]
            numbers[0] = numbers[0] or {"done": "not defined"}.get(score["status"], score["status"])
            seconds = score.get("seconds_per_seed")
            line += [*numbers, str(score.get("n", "")), "" if seconds is None else f"{seconds:.1f}"]
        lines.append([*line, *_beside(row, published), "; ".join(row["remarks"])])
    for average in record["averages"]:
        line = [f"average of {len(average['over'])} of {len(average['tasks'])}", "", ""]
        for model in models:
            line += [points(average["scores"][model]), "", "", "", ""]
        lines.append(
            [
                *line,
                *_beside(average, published),
                f"{average['title']}. {average['about']} Over {', '.join(average['over'])}",
            ]
        )
    return format_tsv(lines)


def _beside(row: Mapping[str, Any], published: Sequence[Mapping[str, Any]]) -> list[str]:
    shown = [
        (points(row["published"].get(column["title"])), column["other_examples"]) for column in published
    ]
    return [f"({text})" if text and (other or not row["comparable"]) else text for text, other in shown]


def points(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f}"
