"""The five roles of tokens without text; their ids differ from tokenizer to tokenizer."""

from __future__ import annotations

from typing import NamedTuple


class Specials(NamedTuple):
    """The id of each role in one vocabulary."""

    pad: int
    unk: int
    cls: int
    sep: int
    mask: int
