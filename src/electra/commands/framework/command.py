"""A command is a frozen dataclass: its fields are its options on the command line, its arguments in Python,
and what a record keeps of it. Its docstring and the text below each field are the help; nothing is declared
twice.

    @dataclass(frozen=True)
    class Embed(Command[Vectors], group="Use", examples=("electra embed tiny-en texts.txt", ...)):
        '''Turn each text into a vector.'''

        model: Source
        '''A run folder, a model folder, or a name on the hub.'''
        _: KW_ONLY
        out: Source | None = None
        '''The file to write.'''

        def run(self) -> Vectors: ...

    embed = function(Embed)

Fields before KW_ONLY are positional, in the shell and in Python. A file of `electra/commands/` holds one
command, and is named after it.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import os
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Generic, Literal, NamedTuple, ParamSpec, TypeVar

from electra.commands.framework import renames
from electra.commands.framework.display import Told
from electra.foundation.config import convert
from electra.foundation.options import (
    Names,
    OnCommandLine,
    RepeatedNames,
    RepeatedSources,
    Source,
    Sources,
)

__all__ = [
    "Command",
    "Names",
    "OnCommandLine",
    "RepeatedNames",
    "RepeatedSources",
    "Sections",
    "Source",
    "Sources",
    "function",
]

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")
P = ParamSpec("P")
Group = Literal["Train", "Use", "Measure", "Share"]


class Words(tuple[Any, ...]):
    """Names, as a command line gives them; what is given otherwise may be texts or rows instead."""


class Sections(NamedTuple):
    """Marks a field that takes settings by dotted name; each of them is an option."""

    of: Callable[[Sequence[str]], Mapping[str, Any]]
    """The sections by name, each a dataclass with its defaults: its type, or an instance. Which ones there
    are may depend on the words of the command line.
    """
    short: Mapping[str, str]
    """Further names of single settings."""
    omit: frozenset[str] = frozenset()
    """Fields of the dataclasses that are no options here."""


@dataclass(frozen=True, kw_only=True)
class Command(Generic[R_co]):
    GROUP: ClassVar[Group]
    EXAMPLES: ClassVar[tuple[str, ...]]
    SECTIONS: ClassVar[Mapping[str, type]] = {}
    """Sections of a recipe whose keys are options of the command: they may be given with their section's
    name.
    """
    progress: Told = field(default=None, repr=False, compare=False)
    """Who hears of progress (default: a live display in a notebook, nobody in a script). "quiet": nobody. A
    function is called with (line, share).
    """

    def __init_subclass__(cls, *, group: Group, examples: tuple[str, ...]) -> None:
        cls.GROUP, cls.EXAMPLES = group, examples

    def __post_init__(self) -> None:
        for name, hint in hints_of(type(self)).items():
            if name != "progress":
                object.__setattr__(self, name, _checked(hint, getattr(self, name), name))

    def run(self) -> R_co:
        """Do it: the Python function. What it says goes to `progress`."""
        raise NotImplementedError

    def main(self) -> int:
        """Do it for the command line; an exit code."""
        self.run()
        return 0

    def preview(self) -> None:
        """Say what would be done, and do nothing: --dry-run, of commands that define this."""
        raise NotImplementedError

    def part(self, kind: type[R]) -> R:
        """The options that a base declares, as an object of their own."""
        fields = dataclasses.fields(typing.cast(Any, kind))
        return kind(**{each.name: getattr(self, each.name) for each in fields})

    @property
    def as_given(self) -> str:
        """How it was called, for a record."""
        return getattr(self, "_typed", f"electra.{name_of(type(self))}(...)")


def name_of(command: type[Command[Any]]) -> str:
    return command.__module__.rpartition(".")[2].rstrip("_")


def has_dry_run(command: type[Command[Any]]) -> bool:
    """Whether the command can say what it would do."""
    return command.preview is not Command.preview


def function(command: Callable[P, Command[R]]) -> Callable[P, R]:
    """The Python function of a command, with its arguments and their types."""

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        positional, named = renames.in_python(typing.cast(Any, command), args, kwargs)
        return command(*positional, **named).run()

    call.command = command  # type: ignore[attr-defined]
    call.__module__ = command.__module__
    return call


def documented(name: str, value: Any) -> Any:
    """A command's function with its name, signature and help, which are made when someone asks for it."""
    kind = getattr(value, "command", None)
    if kind is None or value.__name__ == name:
        return value
    value.__name__ = value.__qualname__ = name
    hints, told = typing.get_type_hints(kind), written(kind)
    parameters = sorted(inspect.signature(kind).parameters.values(), key=_order)
    value.__signature__ = inspect.Signature(
        [parameter.replace(annotation=hints[parameter.name]) for parameter in parameters],
        return_annotation=kind.run.__annotations__["return"],
    )
    lines = [inspect.getdoc(kind) or "", ""]
    for parameter in parameters:
        text = f"{parameter.name}: {told[parameter.name][1]}"
        lines += textwrap.wrap(text, 100, subsequent_indent="    ", break_on_hyphens=False)
    value.__doc__ = "\n".join(lines)
    return value


def _order(parameter: inspect.Parameter) -> tuple[bool, bool, bool]:
    """Positional ones first, then what is required, `progress` last."""
    named = parameter.kind is inspect.Parameter.KEYWORD_ONLY
    return named, parameter.default is not inspect.Parameter.empty, parameter.name == "progress"


def hints_of(kind: Any) -> dict[str, Any]:
    """The fields of a dataclass with their types, marks included."""
    return _hints_of(kind)


@cache
def _hints_of(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return {each.name: hints[each.name] for each in dataclasses.fields(kind)}


def mark_of(hint: Any, kind: type[R]) -> R | None:
    return next((mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, kind)), None)


def _checked(hint: Any, value: Any, name: str) -> Any:
    """A value given in Python, refused where its type is wrong. What has a wider type is for the command."""
    mark = mark_of(hint, OnCommandLine)
    if mark is not None:
        if typing.get_origin(mark.kind) is tuple and isinstance(value, str | os.PathLike):
            return Words((value,))
        return value
    if hint is Any or any(
        typing.get_origin(each) in (os.PathLike, _MAPPING) for each in typing.get_args(hint)
    ):
        return value
    return value if mark_of(hint, Sections) else convert(hint, value, name)


_MAPPING = typing.get_origin(Mapping[str, Any])


def written(kind: Any) -> dict[str, tuple[ast.expr, str]]:
    """The annotation of each field of a dataclass, and the text below it, as they stand in the source. What a
    class declares anew without a text keeps that of its base.
    """
    return _written(kind)


@cache
def _written(kind: Any) -> dict[str, tuple[ast.expr, str]]:
    found: dict[str, tuple[ast.expr, str]] = {}
    for base in reversed(kind.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        try:
            [body] = ast.parse(textwrap.dedent(inspect.getsource(typing.cast(Any, base)))).body
        except (OSError, TypeError):  # made at run time
            continue
        assert isinstance(body, ast.ClassDef)
        for statement, following in zip(body.body, [*body.body[1:], None], strict=True):
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                below = following.value if isinstance(following, ast.Expr) else None
                text = " ".join(str(below.value).split()) if isinstance(below, ast.Constant) else ""
                before = found.get(statement.target.id, (None, ""))[1]
                found[statement.target.id] = (statement.annotation, text or before)
    return found


@dataclass(frozen=True)
class Option:
    """One option of a command line, or a positional argument."""

    name: str
    """As in Python; of a section with a dot: training.learning_rate."""
    field: str
    """The field of the command that it goes into."""
    kind: Any
    """The type of its value."""
    default: Any
    positional: bool
    repeated: bool
    text: str
    aliases: tuple[str, ...] = ()
    """Further flags."""
    heading: str = ""
    """What it has in common with others: HEADING of the base that declares it."""

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def negative(self) -> str:
        section, dot, last = self.flag.removeprefix("--").rpartition(".")
        return f"--{section}{dot}no-{last}"

    @property
    def is_switch(self) -> bool:
        return _one(self.kind) is bool

    @property
    def several(self) -> bool:
        return typing.get_origin(_one(self.kind)) is tuple

    @property
    def is_required(self) -> bool:
        return self.default is dataclasses.MISSING

    @property
    def choices(self) -> tuple[str, ...]:
        kind = _one(self.kind)
        if typing.get_origin(kind) is tuple:
            kind = typing.get_args(kind)[0]
        return tuple(map(str, typing.get_args(kind))) if typing.get_origin(kind) is Literal else ()

    @property
    def metavar(self) -> str:
        """A word for its value."""
        if self.positional:
            return self.name.upper()
        word = "" if self.is_switch else metavar(self.kind)
        return word.removesuffix(" ...") if self.repeated else word


def metavar(kind: Any) -> str:
    kind = _one(kind)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return "{" + ",".join(map(str, inner)) + "}"
    if origin is tuple:
        return f"{metavar(inner[0])} ..." if inner[-1] is Ellipsis else " ".join(map(metavar, inner))
    if origin is os.PathLike or (isinstance(kind, type) and issubclass(kind, os.PathLike)):
        return "PATH"
    return {int: "N", float: "X"}.get(kind, "TEXT")


def _one(kind: Any) -> Any:
    """A type without None; of several, the one that can be typed."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        inner = [each for each in typing.get_args(kind) if each is not type(None)]
        paths = [each for each in inner if typing.get_origin(each) is os.PathLike]
        return (paths or inner)[0]
    return kind


def options_of(command: type[Command[Any]], words: Sequence[str] = ()) -> list[Option]:
    """Every option of a command; `words` is the command line, which decides what some sections hold."""
    found: list[Option] = []
    told, homes = written(command), headings(command)
    for each in sorted(dataclasses.fields(command), key=lambda each: bool(homes[each.name])):
        hint = hints_of(command)[each.name]
        if each.name == "progress":
            continue
        if sections := mark_of(hint, Sections):
            found += section_options(each.name, sections, words)
            continue
        mark = mark_of(hint, OnCommandLine)
        kind = _typed(hint)
        default = each.default
        if each.default_factory is not dataclasses.MISSING:
            default = each.default_factory()
        aliases = tuple(each.metadata.get("flags", ())) + tuple(
            f"--{section}.{each.name.replace('_', '-')}"
            for section, kind in command.SECTIONS.items()
            if each.name in {key.name for key in dataclasses.fields(kind)}
        )
        found.append(
            Option(
                each.name,
                each.name,
                kind,
                default,
                not each.kw_only,
                bool(mark and mark.repeated),
                told[each.name][1],
                aliases,
                homes[each.name],
            )
        )
    return found


def section_options(field_name: str, sections: Sections, words: Sequence[str]) -> Iterable[Option]:
    short = {name: f"--{each.replace('_', '-')}" for each, name in sections.short.items()}
    for section, holder in sections.of(words).items():
        kind = holder if isinstance(holder, type) else type(holder)
        told, homes = written(kind), headings(kind)
        for each in sorted(dataclasses.fields(kind), key=lambda each: bool(homes[each.name])):
            if each.name in sections.omit:
                continue
            name = f"{section}.{each.name}"
            default = each.default if isinstance(holder, type) else getattr(holder, each.name)
            aliases = (short[name],) if name in short else ()
            text = told[each.name][1] if each.name in told else ""
            hint, heading = hints_of(kind)[each.name], homes[each.name]
            mark = mark_of(hint, OnCommandLine)
            repeated = bool(mark and mark.repeated)
            yield Option(name, field_name, _typed(hint), default, False, repeated, text, aliases, heading)


def headings(kind: type) -> dict[str, str]:
    """The heading of each field of a dataclass; empty: it has none."""
    found: dict[str, str] = {}
    for base in kind.__mro__:
        for name in inspect.get_annotations(base):
            found.setdefault(name, "" if base is kind else vars(base).get("HEADING", ""))
    return found


def _typed(hint: Any) -> Any:
    """The type of what is typed for a field."""
    mark = mark_of(hint, OnCommandLine)
    return (
        mark.kind
        if mark
        else typing.get_args(hint)[0]
        if typing.get_origin(hint) is typing.Annotated
        else hint
    )
