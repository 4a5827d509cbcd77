"""Reads and writes task.json, the task and settings in the folder of a fine-tuned model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from electra.artifacts.model import ModelFolder
from electra.finetuning.heads import load_head
from electra.finetuning.settings import ResolvedSettings
from electra.finetuning.tasks.parts.task import Task
from electra.foundation import durable
from electra.foundation.config import build
from electra.foundation.errors import ConfigError, ModelError
from electra.foundation.extensions import TASKS

REPAIR_ADVICE = "Copy, export or fine-tune the model again"
REQUIRED_SETTINGS = {"head", "pooling", "max_length"}


def task_source(name: str, task: Task) -> str:
    """Returns the name to load the task by; for a file of your own, the task's (pass the file again)."""
    return TASKS.canonical_name(name) if TASKS.identity(name) else task.name


def task_file(task: str, settings: Mapping[str, Any]) -> bytes:
    """Returns the contents of task.json, from the task's name and the recorded settings."""
    return durable.to_json({"task": task, "settings": settings})


def read_task(folder: Path) -> dict[str, Any] | None:
    """Returns the validated contents of task.json; None if the folder has none.

    Raises:
        ModelError: the contents are invalid.
    """
    path = ModelFolder(folder).task
    if not path.is_file():
        return None
    record: dict[str, Any] = durable.read_json(path, ModelError, fix=REPAIR_ADVICE)
    check_task(record, path)
    return record


def check_task(record: Any, path: Path) -> None:
    """Raises ModelError if the record, read from `path`, is not a valid task with settings."""
    task, settings = (
        (record.get("task"), record.get("settings")) if isinstance(record, dict) else (None, None)
    )
    if not isinstance(task, str) or not isinstance(settings, dict):
        raise ModelError("not the task of a fine-tuned model", where=path, fix=REPAIR_ADVICE)
    # `search` is recorded as True, not as a budget.
    setting_names = {field.name for field in fields(ResolvedSettings)} - {"search"}
    values = {name: value for name, value in settings.items() if name in setting_names}
    if missing := REQUIRED_SETTINGS - values.keys():
        raise ModelError(
            f"{', '.join(sorted(missing))} missing", where=path, key="settings", fix=REPAIR_ADVICE
        )
    try:
        build(ResolvedSettings, {**values, "task": task, "data": "", "out": ""}, "settings")
    except ConfigError as error:
        raise ModelError(error.what, where=path, key=error.where or error.key, fix=REPAIR_ADVICE) from None
    try:
        load_head(values["head"])
    except ConfigError as error:
        raise ModelError(error.what, where=path, key="head", fix=error.fix or REPAIR_ADVICE) from None
