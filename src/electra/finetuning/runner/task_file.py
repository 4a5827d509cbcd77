"""task.json in a fine-tuned model's folder: what it answers, so that the folder can be used anywhere."""

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

AGAIN = "Get it, export it or fine-tune again"
NEEDED = {"head", "pooling", "max_length"}


def task_source(name: str, task: Task) -> str:
    """The name that loads the task again; of the user's own file its stem, because it must be named again."""
    return TASKS.name_of(name) if TASKS.identity(name) else task.name


def task_file(task: str, settings: Mapping[str, Any]) -> bytes:
    """task.json: what `finetune.json` says of it."""
    return durable.to_json({"task": task, "settings": settings})


def read_task(folder: Path) -> dict[str, Any] | None:
    """What task.json says, which may be a stranger's; None where the folder has none."""
    path = ModelFolder(folder).task
    if not path.is_file():
        return None
    found: dict[str, Any] = durable.read_json(path, ModelError, fix=AGAIN)
    check_task(found, path)
    return found


def check_task(found: Any, path: Path) -> None:
    """Raises ModelError where this, read from `path`, does not say what a fine-tuned model answers."""
    task, settings = (found.get("task"), found.get("settings")) if isinstance(found, dict) else (None, None)
    if not isinstance(task, str) or not isinstance(settings, dict):
        raise ModelError("not the task of a fine-tuned model", where=path, fix=AGAIN)
    known = {field.name for field in fields(ResolvedSettings)} - {"search"}  # which the record only mentions
    given = {name: value for name, value in settings.items() if name in known}
    if absent := NEEDED - given.keys():
        raise ModelError(f"lacks {', '.join(sorted(absent))}", where=path, key="settings", fix=AGAIN)
    try:
        build(ResolvedSettings, {**given, "task": task, "data": "", "out": ""}, "settings")
    except ConfigError as error:
        raise ModelError(error.what, where=path, key=error.where or error.key, fix=AGAIN) from None
    try:
        load_head(given["head"])
    except ConfigError as error:
        raise ModelError(error.what, where=path, key="head", fix=error.fix or AGAIN) from None
