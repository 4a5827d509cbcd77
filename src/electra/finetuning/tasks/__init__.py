"""Tasks, one file each; a file in this folder is found without registration.

A task file defines `TASK` (the contract is in parts/task.py). A file `mine.py` in this folder is available as
`--task mine` (case, hyphens and underscores do not matter), is listed among the available tasks, and is
tested by the contract tests. A file elsewhere or in an installed package works too
(foundation/extensions.py).
"""

from __future__ import annotations

from electra.finetuning.tasks.parts.task import Task
from electra.foundation.errors import ConfigError
from electra.foundation.extensions import TASKS


def task_names() -> list[str]:
    """Returns the names of the built-in tasks and those of installed packages."""
    return TASKS.names()


def load_task(name: str) -> Task:
    """Returns the task with this name, built in or from an installed package, or the task in a .py file.

    Args:
        name: the name of the task, or the path of the file.

    Raises:
        ConfigError: there is no such task, or its `TASK` is not a Task.
    """
    module = TASKS.load(name)
    if not isinstance(module.TASK, Task):
        raise ConfigError("`TASK` is not an electra Task", where=module.__file__)
    return module.TASK
