"""Heads: one file each, found by being here.

A head file defines `HEAD` (the contract is in parts/contract.py). Dropping `mine.py` into this folder gives
`--head mine`. A file elsewhere, or a module of an installed package (entry point `electra.heads`), works as
well: foundation/extensions.py.
"""

from __future__ import annotations

from electra.finetuning.heads.parts.contract import HeadFactory
from electra.foundation.errors import ConfigError
from electra.foundation.extensions import HEADS


def load_head(name: str) -> HeadFactory:
    """The head of a file in this folder, of an installed package, or of the file at a path."""
    module = HEADS.load(name)
    if not isinstance(module.HEAD, HeadFactory):
        raise ConfigError("`HEAD` is not an electra HeadFactory", where=module.__file__)
    return module.HEAD
