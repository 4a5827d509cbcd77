"""Suites: many tasks, several seeds, one or more models, and one table with the published numbers.

`suites/*.toml` define suites (read by `suite.py`), `data.py` finds each task's files, `steps.py` runs a task
or probe for one model, `running.py` runs all that are left to do, `table.py` makes the record from the
folders of finished tasks, and `published.toml` holds published numbers with their sources. The page is drawn
by `electra.pages.suite` from the record alone.
"""
