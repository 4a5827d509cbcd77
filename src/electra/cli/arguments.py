"""The one module that knows the argument parser (tyro). A verb is a dataclass of arguments and a `run` function."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Sequence
from typing import Any, TypeVar

import tyro
from tyro.conf import Positional

from electra.errors import ConfigError

__all__ = ["Positional", "parse"]

T = TypeVar("T")


def parse(arguments: type[T], argv: Sequence[str], *, verb: str, description: str, default: T | None = None) -> T:
    """Parse `argv` into the dataclass `arguments`. What is wrong becomes one line; --help ends the process with code 0."""
    caught = io.StringIO()
    options: Any = {} if default is None else {"default": default}
    try:
        with contextlib.redirect_stderr(caught):
            parsed: T = tyro.cli(
                arguments,
                args=list(argv),
                prog=f"electra {verb}",
                description=description,
                config=(tyro.conf.AvoidSubcommands, tyro.conf.CascadeSubcommandArgs),
                **options,
            )
            return parsed
    except SystemExit as ended:
        if not ended.code:
            raise
        raise ConfigError(_one_line(caught.getvalue()), fix=f"See electra {verb} --help") from None


def _one_line(box: str) -> str:
    """tyro draws its complaints in a box: keep the words, and of several suggestions the nearest."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", box)
    lines = [re.sub(r"^[\s\u2500-\u257f]+|[\s\u2500-\u257f]+$", "", line) for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("For full helptext", "Argument helptext"))][1:]
    words = " ".join(lines) or "wrong options"
    said, _, suggestions = words.partition(" Perhaps you meant: ")
    return f"{said}. Perhaps you meant: {suggestions.split(' ')[0]}" if suggestions else said.rstrip(".")
