"""Suites of tasks for several models.

`suite.py` reads a suite and finds its files, `tasks.py` runs all that is left to do, and `table.py`
makes the record from the folders of finished tasks.
"""
