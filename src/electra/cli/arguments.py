"""The one module that knows the argument parser (tyro). A verb is a dataclass of arguments and a `run`
function.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
import typing
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

import tyro
from tyro.conf import Positional
from tyro.conf import (
    UseAppendAction as Repeated,
)  # Repeated[tuple[str, ...]]: one value each time, --x a --x b

from electra.errors import ConfigError

__all__ = ["Positional", "Repeated", "parse"]

T = TypeVar("T")


def parse(
    arguments: type[T], argv: Sequence[str], *, verb: str, description: str, default: T | None = None
) -> T:
    """Parse `argv` into the dataclass `arguments`. What is wrong becomes one line; --help ends the process
    with code 0.
    """
    _name_positionals(arguments)
    caught = io.StringIO()
    options: Any = {} if default is None else {"default": default}
    try:
        with contextlib.redirect_stderr(caught):
            parsed: T = tyro.cli(
                arguments,
                args=_switches_spelled(argv, set(_switches(arguments))),
                prog=f"electra {verb}",
                description=description,
                config=(tyro.conf.AvoidSubcommands, tyro.conf.CascadeSubcommandArgs),
                **options,
            )
            return parsed
    except SystemExit as ended:
        if not ended.code:
            raise
        said, near = _complaint(caught.getvalue())
        raise ConfigError(said, fix=f"{near}See electra {verb} --help") from None


def _name_positionals(arguments: type) -> None:
    """Positional arguments are called by their field's name in --help, where tyro would show the type."""
    hints = typing.get_type_hints(arguments, include_extras=True)
    for field in dataclasses.fields(arguments):
        hint = hints[field.name]
        if typing.get_origin(hint) is typing.Annotated and tyro.conf.Positional in hint.__metadata__:
            shown = (
                field.name.upper()
                if field.default in (dataclasses.MISSING, ())
                else f"[{field.name.upper()}]"
            )
            arguments.__annotations__[field.name] = typing.Annotated[hint, tyro.conf.arg(metavar=shown)]


def _switches(kind: type, prefix: str = "--") -> Iterator[str]:
    """The options of a dataclass that are either on or off."""
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        name, hint = prefix + field.name.replace("_", "-"), hints[field.name]
        if hint is bool:
            yield name
        elif isinstance(hint, type) and dataclasses.is_dataclass(hint):
            yield from _switches(hint, f"{name}.")


def _switches_spelled(argv: Sequence[str], switches: set[str]) -> list[str]:
    """`--lowercase False`, as recipes and other programs write it, is `--no-lowercase` to tyro."""
    spelled: list[str] = []
    for word in argv:
        name, equals, value = word.partition("=")
        if not equals and spelled:
            name, value = spelled[-1], word
        if name.replace("_", "-") not in switches or value.lower() not in ("true", "false"):
            spelled.append(word)
            continue
        if not equals:
            spelled.pop()
        section, dot, last = name.removeprefix("--").rpartition(".")
        spelled.append(name if value.lower() == "true" else f"--{section}{dot}no-{last}")
    return spelled


def _complaint(box: str) -> tuple[str, str]:
    """What is wrong, and which option was meant. tyro draws a box, cut by rules: first the complaint, then
    options that are near.
    """
    text = re.sub(r"\x1b\[[0-9;]*m", "", box)
    lines = [
        re.sub(r"^[\s\u2500-\u257f]+|[\s\u2500-\u257f]+$", "", line)
        for line in text.splitlines()
        if line.strip()
    ][1:]
    parts: list[list[str]] = [[]]
    for line in lines:
        if line.strip("-"):
            parts[-1].append(line)
        elif parts[-1]:
            parts.append([])
    said = " ".join(parts[0]).removesuffix("(required)").strip().rstrip(".") or "wrong options"
    near = [
        line.split()[0].rstrip(",")
        for part in parts
        if part[:1] == ["Perhaps you meant:"]
        for line in part
        if line.startswith("--")
    ]
    typed = next((word.rstrip(",") for word in said.split() if word.startswith("--")), "")
    nearest = get_close_matches(typed, near, n=1, cutoff=0.0)
    stray = said.removeprefix("Unrecognized options: ")
    if stray != said and not stray.startswith("-"):
        return f"{stray}: no option takes this here", "What has no option of its own goes side by side. "
    return said, f"Did you mean {nearest[0]}? " if nearest else ""
