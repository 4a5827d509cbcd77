"""Probes, one file each.

A module in this folder that defines a class `Probe` and a frozen dataclass `Config` is a probe (its contract
is `electra.laboratory.analysis.contract`). A new file here gets a name on the command line, a section on the
page and the contract tests without being registered.
"""
