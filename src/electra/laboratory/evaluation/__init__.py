"""Suites of tasks for several models: `score_table.py` makes the record of what `tasks.py` has finished."""
