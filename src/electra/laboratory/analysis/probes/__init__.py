"""Probes, one file each.

A module of this folder that defines a class `Probe` beside a frozen dataclass `Config` is a probe (contract:
`electra.laboratory.analysis.contract`). A new file here gets a name on the command line, a section of the
page and the contract tests without being registered.
"""
