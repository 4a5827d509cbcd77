"""The five roles that tokens without text play. Their ids differ from tokenizer to tokenizer; their roles do
not.
"""

from __future__ import annotations

from typing import NamedTuple


class Specials(NamedTuple):
    """The id of each role in one vocabulary."""

    pad: int
    unk: int
    cls: int
    sep: int
    mask: int
