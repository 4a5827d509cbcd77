"""Every verb as a function of artifacts and plain values, with an artifact for a result.

The command line parses and calls these; a notebook calls the same. Nothing here prints or ends the process on
its own: what is said goes to the `progress` of the call (see `display.py`).
"""
