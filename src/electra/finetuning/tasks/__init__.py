"""Tasks: one file each, found by being here.

A task file defines `TASK` (the contract is in parts/task.py). Dropping `mine.py` into this folder gives
`--task mine` (case, hyphens and underscores do not matter), its place in the error that lists the known
names, and the contract tests. A file elsewhere, or in an installed package, works as well: extensions.py.
"""

from __future__ import annotations

from electra.finetuning.tasks.parts.task import Task
from electra.foundation.errors import ConfigError
from electra.foundation.extensions import TASKS


def task_names() -> list[str]:
    return TASKS.names()


def load_task(name: str) -> Task:
    """The task of a file in this folder, of an installed package, or of the file at a path."""
    module = TASKS.load(name)
    if not isinstance(module.TASK, Task):
        raise ConfigError("`TASK` is not an electra Task", where=module.__file__)
    return module.TASK
