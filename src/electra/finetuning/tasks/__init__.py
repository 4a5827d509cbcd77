"""Tasks for your own data, one file each, and public data sets as presets of them (presets.toml).

A task file defines `TASK` (the contract is in finetuning/task.py). A file `mine.py` in this folder is
available as `--task mine` (case, hyphens and underscores do not matter), is listed among the available
tasks, and is tested by the contract tests. A file elsewhere works too (foundation/extensions.py).
"""

from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from electra.finetuning.task import Task
from electra.foundation.config import build, read_toml
from electra.foundation.extensions import TASKS

PRESETS = Path(__file__).with_name("presets.toml")


def load_task(name: str) -> Task:
    """Returns the task with this name, or in the .py file with this path; ConfigError if there is none."""
    task: Task = TASKS.load_as(name, "TASK", Task).TASK
    return task


@cache
def preset(name: str) -> ModuleType:
    """Returns a module like that of a task file, whose `TASK` is the preset with this name."""
    fields = {"name": name, "version": 1, **read_toml(PRESETS)[name]}
    module = ModuleType(f"{__name__}.{name}")
    task_class = type(import_module(f"{__name__}.{fields.pop('task')}").TASK)
    vars(module)["TASK"] = build(task_class, fields, PRESETS.name)
    return module
