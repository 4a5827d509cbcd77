"""Suites: many tasks, several seeds, one or more models, one table beside the published numbers.

`suites/*.toml` say what a suite holds (`suite.py` reads them), `data.py` finds each task's files,
`running.py` does what is not done yet, `table.py` makes the record from the folders of finished tasks,
`published.toml` holds other people's numbers with their sources. The page is drawn by `electra.pages.suite`
from the record alone.
"""
