"""Experiment trackers: one file each, which is the only one to import the tracker's library.

interface   the interface of a tracker
following   sends the rows of a ledger that a tracker lacks
"""
