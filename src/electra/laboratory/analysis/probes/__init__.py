"""One file for each probe.

A module of this folder that defines a class `Probe` beside a frozen dataclass `Config` is a probe
(contract: `electra.laboratory.analysis.contract`). Dropping a file in gives it a name on the command line, a
section of the page and the contract tests. Nothing is registered by hand.
"""
