"""Experiment trackers: one file for each, the only one that imports the tracker's library.

interface   the interface of a tracker
following   sends the rows of a ledger that a tracker lacks
"""
