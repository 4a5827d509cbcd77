"""Other programs that keep curves: one file each, which alone imports its program.

interface   what a tracker is given, and what it must do
following   a ledger, carried into a tracker: only what it has not got yet
"""
