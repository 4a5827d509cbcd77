"""task.json in a fine-tuned model's folder: its task and settings, so that the folder works anywhere."""

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

AGAIN = "Copy, export or fine-tune the model again"
NEEDED = {"head", "pooling", "max_length"}


def task_source(name: str, task: Task) -> str:
    """Returns the name that loads the task again; the stem of your own file, which must be passed again."""
    return TASKS.name_of(name) if TASKS.identity(name) else task.name


def task_file(task: str, settings: Mapping[str, Any]) -> bytes:
    """Returns the contents of task.json, from the task's name and the recorded settings."""
    return durable.to_json({"task": task, "settings": settings})


def read_task(folder: Path) -> dict[str, Any] | None:
    """Returns the contents of task.json, checked since anybody may have written it; None if there is none.

    Raises:
        ModelError: it is invalid.
    """
    path = ModelFolder(folder).task
    if not path.is_file():
        return None
    record: dict[str, Any] = durable.read_json(path, ModelError, fix=AGAIN)
    check_task(record, path)
    return record


def check_task(record: Any, path: Path) -> None:
    """Raises ModelError if the record, read from `path`, is not a valid task with settings."""
    task, settings = (
        (record.get("task"), record.get("settings")) if isinstance(record, dict) else (None, None)
    )
    if not isinstance(task, str) or not isinstance(settings, dict):
        raise ModelError("not the task of a fine-tuned model", where=path, fix=AGAIN)
    known = {field.name for field in fields(ResolvedSettings)} - {
        "search"
    }  # recorded as True, not as a budget
    values = {name: value for name, value in settings.items() if name in known}
    if absent := NEEDED - values.keys():
        raise ModelError(f"{', '.join(sorted(absent))} missing", where=path, key="settings", fix=AGAIN)
    try:
        build(ResolvedSettings, {**values, "task": task, "data": "", "out": ""}, "settings")
    except ConfigError as error:
        raise ModelError(error.what, where=path, key=error.where or error.key, fix=AGAIN) from None
    try:
        load_head(values["head"])
    except ConfigError as error:
        raise ModelError(error.what, where=path, key="head", fix=error.fix or AGAIN) from None
