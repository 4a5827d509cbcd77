"""The one module that knows the argument parser (tyro): a verb is a dataclass of arguments and a `run`."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import io
import re
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import tyro
from tyro.conf import Positional
from tyro.conf import (
    UseAppendAction as Repeated,
)  # Repeated[tuple[str, ...]]: one value each time, --x a --x b

from electra.foundation.errors import ConfigError

__all__ = ["Positional", "Repeated", "choices", "expand", "parse", "part"]

T = TypeVar("T")
METAVARS = {str: "TEXT", int: "N", float: "X", Path: "PATH", bool: "{True,False}"}


def parse(
    arguments: type[T],
    argv: Sequence[str],
    *,
    verb: str,
    description: str,
    default: T | None = None,
    aliases: Mapping[str, str] = {},
    first: Sequence[str] = (),
) -> T:
    """Parse `argv` into the dataclass `arguments`. What is wrong becomes one line; --help ends the process
    with code 0.

    first: options of sections that --help shows among those of none.
    """
    with_help = any(word in ("-h", "--help") for word in argv)
    _show_plainly(arguments, with_help)
    argv = expand(argv, arguments, aliases)
    _refuse_repeated(argv, arguments)
    caught, shown = io.StringIO(), arguments
    options: Any = {} if default is None else {"default": default}
    if with_help and first and default is not None:
        shown, options["default"] = _with_first(arguments, default, first)
    try:
        with contextlib.redirect_stderr(caught):
            parsed: T = tyro.cli(
                shown,
                args=_switches_spelled(argv, arguments),
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
        if said.startswith("Unrecognized options: --") and not near:
            word = said.removeprefix("Unrecognized options: ").split(",")[0]
            known = [
                *aliases,
                *(f"--{name.rpartition('.')[2].removeprefix('--')}" for name, _ in _options(arguments)),
            ]
            near = "".join(f"Did you mean {name}? " for name in get_close_matches(word, known, n=1))
        raise ConfigError(said, fix=f"{near}See electra {verb} --help") from None


def expand(argv: Sequence[str], arguments: type, aliases: Mapping[str, str] = {}) -> list[str]:
    """Options by their whole names. One that only one section has may leave it out: --learning-rate."""
    whole = dict(_options(arguments))
    short: dict[str, list[str]] = {}
    for name in whole:
        short.setdefault(f"--{name.rpartition('.')[2].removeprefix('--')}", []).append(name)
    words = []
    for word in argv:
        given, equals, value = word.partition("=")
        name = given.replace("_", "-")
        plain = name.replace("--no-", "--", 1) if name not in short else name
        found = [aliases[name]] if name in aliases else short.get(plain, [])
        if name in whole or plain in whole or not found:
            words.append(word)
            continue
        if len(found) > 1:
            raise ConfigError(f"{name} is ambiguous", fix=f"Use {' or '.join(sorted(found))}")
        section, dot, last = found[0].rpartition(".")
        words.append(f"{section}{dot}{'no-' if plain != name else ''}{last}{equals}{value}")
    return words


def _refuse_repeated(argv: Sequence[str], arguments: type) -> None:
    """Refuse an option that takes one value and is given twice: the first would be lost."""
    seen: set[str] = set()
    hints = dict(_options(arguments))
    for word in argv:
        name = word.partition("=")[0].replace("_", "-")
        section, dot, last = name.removeprefix("--").rpartition(".")
        plain = name if name in hints else f"--{section}{dot}{last.removeprefix('no-')}"
        if not word.startswith("--") or plain not in hints or _repeats(hints[plain]):
            continue
        if plain in seen:
            raise ConfigError(f"{plain} is given twice", fix="Give it once")
        seen.add(plain)


def _repeats(hint: Any) -> bool:
    marks = getattr(Repeated[int], "__metadata__", ())
    return any(mark in getattr(hint, "__metadata__", ()) for mark in marks)


def _options(kind: type, prefix: str = "--") -> Iterator[tuple[str, Any]]:
    """All options of a dataclass by their whole names, with their types."""
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        name, hint = prefix + field.name.replace("_", "-"), hints[field.name]
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            yield from _options(hint, f"{name}.")
        else:
            yield name, hint


def _bare(hint: Any) -> Any:
    """A type without what tyro is told of it."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint


def choices(kind: type) -> dict[str, list[str]]:
    """Every option of a dataclass by its whole name, with the values it may take (none: any)."""
    found: dict[str, list[str]] = {}
    for name, hint in _options(kind):
        if _bare(hint) is bool:
            section, dot, last = name.removeprefix("--").rpartition(".")
            found |= {name: [], f"--{section}{dot}no-{last}": []}
        elif Positional not in getattr(hint, "__metadata__", ()):
            plain = [
                one for one in (hint, *typing.get_args(hint)) if typing.get_origin(one) is typing.Literal
            ]
            found[name] = [str(value) for one in plain for value in typing.get_args(one)]
    return found


def _show_plainly(arguments: type, with_help: bool) -> None:
    """In --help, show an argument's value in a word, where tyro would show its type; positional arguments by
    their names. A default that says nothing (None, or no value) is not shown: the help tells what it means.
    """
    hints = typing.get_type_hints(arguments, include_extras=True)
    homes = {
        name: kind for kind in reversed(arguments.__mro__) for name in vars(kind).get("__annotations__", {})
    }
    helps = {name: text for name, (_, text) in written(arguments).items()} if with_help else {}
    for field in dataclasses.fields(arguments):
        hint = hints[field.name]
        plain = _bare(hint)
        if isinstance(plain, type) and dataclasses.is_dataclass(plain):
            _show_plainly(plain, with_help)
            continue
        if any(isinstance(mark, _Shown) for mark in getattr(hint, "__metadata__", ())):
            continue
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        silent = field.default is None or field.default in ("", ())
        metavar: str | None = _metavar(plain) if plain is not bool else None
        if tyro.conf.Positional in getattr(hint, "__metadata__", ()):
            metavar = field.name.upper() if required or field.default == () else f"[{field.name.upper()}]"
        shown = tyro.conf.arg(
            metavar=metavar,
            help=helps.get(field.name) or None,
            help_behavior_hint="" if silent or (typing.get_origin(plain) is tuple and required) else None,
        )
        homes[field.name].__annotations__[field.name] = typing.Annotated[hint, shown, _Shown()]


def written(arguments: type) -> dict[str, tuple[ast.expr, str]]:
    """The annotation of each field of a dataclass, and the text below it, as they stand in the source."""
    found: dict[str, tuple[ast.expr, str]] = {}
    for kind in reversed(arguments.__mro__):
        if not dataclasses.is_dataclass(kind):
            continue
        try:
            [body] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        except (OSError, TypeError):  # made at run time
            continue
        assert isinstance(body, ast.ClassDef)
        for statement, following in zip(body.body, [*body.body[1:], None], strict=True):
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                below = following.value if isinstance(following, ast.Expr) else None
                text = below.value if isinstance(below, ast.Constant) else ""
                found[statement.target.id] = (statement.annotation, " ".join(str(text).split()))
    return found


class _Shown:
    """Marks a field whose help has been dealt with."""


def _with_first(arguments: type[T], default: T, names: Sequence[str]) -> tuple[type[T], T]:
    """A dataclass for --help alone, and its default: options of sections stand there as if they had none."""
    hidden: list[tuple[str, Any, Any]] = []
    moved: list[tuple[str, Any, Any]] = []
    for name in names:
        section, _, option = name.removeprefix("--").partition(".")
        values = getattr(default, section)
        kind, value = type(values), getattr(values, option)
        hint = typing.get_type_hints(kind, include_extras=True)[option]
        plain, told = typing.get_args(hint)[0], written(kind).get(option, (None, ""))[1]
        without: Any = _derived(kind, [(option, typing.Annotated[hint, tyro.conf.Suppress], value)])
        hidden.append((section, without, without(**vars(values))))
        conf = tyro.conf.arg(name=f"{section}.{option}", metavar=_metavar(plain), help=told or None)
        moved.append((f"{section}_{option}", typing.Annotated[plain, conf], value))
    made: Any = _derived(arguments, [*hidden, *moved])
    return made, made(**{**vars(default), **{name: value for name, _, value in [*hidden, *moved]}})


def _derived(kind: type, fields: Sequence[tuple[str, Any, Any]]) -> type:
    made = [(name, hint, dataclasses.field(default=value)) for name, hint, value in fields]
    return dataclasses.make_dataclass(kind.__name__, made, bases=(kind,), frozen=True)


def part(kind: type[T], arguments: Any) -> T:
    """The dataclass of those arguments that have the names of its fields."""
    return kind(**{field.name: getattr(arguments, field.name) for field in dataclasses.fields(kind)})  # type: ignore[arg-type]


def _metavar(kind: Any) -> str:
    """A word for the value of an option."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _metavar(next(one for one in inner if one is not type(None)))
    if origin is typing.Literal:
        return "{" + ",".join(map(str, inner)) + "}"
    if origin is tuple:
        return f"{_metavar(inner[0])} ..." if inner[-1] is Ellipsis else " ".join(map(_metavar, inner))
    return METAVARS.get(kind, "VALUE")


def _switches_spelled(argv: Sequence[str], arguments: type) -> list[str]:
    """`--lowercase False`, as recipes and other programs write it, is `--no-lowercase` to tyro."""
    switches = {name for name, hint in _options(arguments) if _bare(hint) is bool}
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


def _of_a_value(said: str) -> str:
    """What tyro says of one option's value, without its types."""
    if found := re.match(r"Missing value for argument '(--[^']+)'", said):
        return f"{found[1]} needs a value"
    if found := re.match(r"invalid choice '(.*)' for argument '(--[^']+)'\. Expected one of \((.*)\)", said):
        choices = sorted(set(re.findall(r"'([^']*)'", found[3])) - {"None"})  # tyro has no order
        return f"{found[2]}: {found[1]!r} is not one of {', '.join(choices)}"
    if found := re.match(r"Error parsing (--\S+): .*(?i:(float)|int\b).*?'([^']*)'\]?$", said):
        return f"{found[1]}: {found[3]!r} is not {'a number' if found[2] else 'a whole number'}"
    return said


def _complaint(box: str) -> tuple[str, str]:
    """What is wrong, and which option was meant. tyro draws a box, cut by rules: first the complaint, then
    options that are near.
    """
    text = re.sub(r"\x1b\[[0-9;]*m", "", box)
    if found := re.search(r"Missing from (electra [\w-]+):", text):
        missing = re.findall(r"^\W {5}(\S+)", text.partition("\n\u2502 \u2500\u2500")[0], re.M)
        return f"{found[1]} needs {' and '.join(filter(None, [', '.join(missing[:-1]), missing[-1]]))}", ""
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
    said = " ".join(parts[0]).strip().rstrip(".") or "wrong options"
    near = [
        line.split()[0].rstrip(",")
        for part in parts
        if part[:1] == ["Perhaps you meant:"]
        for line in part
        if line.startswith("--")
    ]
    typed = next((word.rstrip(",") for word in said.split() if word.startswith("--")), "")
    nearest = get_close_matches(typed, near, n=1, cutoff=0.0)
    said = _of_a_value(said)
    stray = said.removeprefix("Unrecognized options: ")
    if stray != said and not stray.startswith("-"):
        return f"unexpected argument {stray!r}", ""
    return said, f"Did you mean {nearest[0]}? " if nearest else ""
