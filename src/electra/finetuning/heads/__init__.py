"""Heads, one file each; a file in this folder is found without registration.

A head file defines `HEAD` (the contract is in parts/contract.py). A file `mine.py` in this folder is
available as `--head mine`. A file elsewhere works too (foundation/extensions.py).
"""

from electra.finetuning.heads.parts.contract import HeadFactory
from electra.finetuning.settings import AUTO
from electra.foundation.extensions import HEADS


def load_head(name: str) -> HeadFactory:
    """Returns the head with this name, or the head in the .py file with this path.

    "auto" is `transformers`, unless and until the runner chooses another. Raises ConfigError if there is no
    such head, or its `HEAD` is not a HeadFactory.
    """
    head: HeadFactory = HEADS.load_as("transformers" if name == AUTO else name, "HEAD", HeadFactory).HEAD
    return head
