"""The one module that knows the argument parser (tyro). A verb is a dataclass of arguments and a `run` function."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, TypeVar

import tyro
from tyro.conf import Positional

__all__ = ["Positional", "parse"]

T = TypeVar("T")


def parse(arguments: type[T], argv: Sequence[str], *, verb: str, description: str) -> T:
    """Parse `argv` into the dataclass `arguments`. Wrong options end the process with code 2 and a suggestion."""
    config: tuple[Any, ...] = (tyro.conf.FlagConversionOff, tyro.conf.HelptextFromCommentsOff) if False else ()
    return tyro.cli(arguments, args=list(argv), prog=f"electra {verb}", description=description, config=config, console_outputs=True)


def stderr(line: str) -> None:
    sys.stderr.write(line + "\n")
