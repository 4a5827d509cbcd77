"""Runs, watched from outside while they train: a page that follows their ledgers.

series   a curve of any length in a bounded number of points
watched  a run: its curves, whether its process lives, what should alarm
app      the page and the state that it asks for
page/    the page's files
"""
