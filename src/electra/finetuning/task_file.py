"""task.json in a fine-tuned model's folder: what it answers, so that the folder can be used anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from electra import durable
from electra.artifacts.model import ModelFolder
from electra.errors import ModelError
from electra.extensions import TASKS, is_path
from electra.finetuning.task import Task

AGAIN = "Get it, export it or fine-tune again"


def task_source(name: str, task: Task) -> str:
    """What loads the task again: a file's whole path, or a name."""
    if is_path(name):
        return str(Path(name).expanduser().resolve())
    return name if TASKS.identity(name) else task.name  # of an installed package: as it is registered


def task_file(task: str, settings: Mapping[str, Any]) -> bytes:
    """task.json: what `finetune.json` says of it."""
    return durable.to_json({"task": task, "settings": settings})


def read_task(folder: Path) -> dict[str, Any] | None:
    """What task.json says; None where the folder has none."""
    path = ModelFolder(folder).task
    if not path.is_file():
        return None
    found = durable.read_json(path, ModelError, fix=AGAIN)
    if not isinstance(found, dict) or not isinstance(found.get("settings"), dict) or "task" not in found:
        raise ModelError("not the task of a fine-tuned model", where=path, fix=AGAIN)
    return found
