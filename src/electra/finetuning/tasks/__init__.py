"""Tasks, one file each, discovered by their presence in this folder.

A task file defines `TASK` (the contract is in parts/task.py). A file `mine.py` in this folder is available as
`--task mine` (case, hyphens and underscores do not matter), is listed among the known names, and runs through
the contract tests. A file elsewhere, or in an installed package, works as well: foundation/extensions.py.
"""

from __future__ import annotations

from electra.finetuning.tasks.parts.task import Task
from electra.foundation.errors import ConfigError
from electra.foundation.extensions import TASKS


def task_names() -> list[str]:
    """Returns the names of the built-in tasks and those of installed packages."""
    return TASKS.names()


def load_task(name: str) -> Task:
    """Returns the task of that name: of this folder, an installed package, or the .py file at that path.

    Raises:
        ConfigError: there is none, or its `TASK` is not a Task.
    """
    module = TASKS.load(name)
    if not isinstance(module.TASK, Task):
        raise ConfigError("`TASK` is not an electra Task", where=module.__file__)
    return module.TASK
