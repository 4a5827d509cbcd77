"""Tasks, one file each; a file in this folder is found without registration.

A task file defines `TASK` (the contract is in parts/task.py). A file `mine.py` in this folder is available as
`--task mine` (case, hyphens and underscores do not matter), is listed among the available tasks, and is
tested by the contract tests. A file elsewhere or in an installed package works too
(foundation/extensions.py).
"""

from __future__ import annotations

from electra.finetuning.tasks.parts.task import Task
from electra.foundation.extensions import TASKS


def load_task(name: str) -> Task:
    """Returns the task with this name, built in or from an installed package, or the task in a .py file.

    Args:
        name: the name of the task, or the path of the file.

    Raises:
        ConfigError: there is no such task, or its `TASK` is not a Task.
    """
    task: Task = TASKS.load_as(name, "TASK", Task).TASK
    return task
