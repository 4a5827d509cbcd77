"""Heads, one file each, discovered by their presence in this folder.

A head file defines `HEAD` (the contract is in parts/contract.py). A file `mine.py` in this folder is
available as `--head mine`. A file elsewhere, or a module of an installed package (entry point
`electra.heads`), works as well: foundation/extensions.py.
"""

from __future__ import annotations

from electra.finetuning.heads.parts.contract import HeadFactory
from electra.foundation.errors import ConfigError
from electra.foundation.extensions import HEADS


def load_head(name: str) -> HeadFactory:
    """Returns the head of that name: of this folder, an installed package, or the .py file at that path.

    Raises:
        ConfigError: there is none, or its `HEAD` is not a HeadFactory.
    """
    module = HEADS.load(name)
    if not isinstance(module.HEAD, HeadFactory):
        raise ConfigError("`HEAD` is not an electra HeadFactory", where=module.__file__)
    return module.HEAD
