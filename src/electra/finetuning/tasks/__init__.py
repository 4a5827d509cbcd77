"""Tasks for your own data, one file each, and public data sets as presets of them (presets.toml).

A task file defines `TASK` (the contract is in parts/task.py). A file `mine.py` in this folder is available as
`--task mine` (case, hyphens and underscores do not matter), is listed among the available tasks, and is
tested by the contract tests. A file elsewhere works too (foundation/extensions.py).
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from electra.finetuning.tasks.parts.task import Task
from electra.foundation.extensions import TASKS


def load_task(name: str) -> Task:
    """Returns the task with this name, or the task in a .py file.

    Args:
        name: the name of the task, or the path of the file.

    Raises:
        ConfigError: there is no such task, or its `TASK` is not a Task.
    """
    task: Task = TASKS.load_as(name, "TASK", Task).TASK
    return task


@cache
def preset(name: str) -> ModuleType:
    """Returns a module like that of a task file, whose `TASK` is the preset with this name."""
    fields = _tuples(
        tomllib.loads(Path(__file__).with_name("presets.toml").read_text(encoding="utf-8"))[name]
    )
    module = ModuleType(f"{__name__}.{name}")
    task_class = type(import_module(f"{__name__}.{fields.pop('task')}").TASK)
    vars(module)["TASK"] = task_class(**({"name": name, "version": 1} | fields))
    return module


def _tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tuples(inner) for key, inner in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
