"""Declares commands: a command is a frozen dataclass, and nothing about it is declared twice.

Its fields are its options on the command line, its arguments in Python, and what a record stores of it; those
before KW_ONLY are positional. Its docstring and the text below each field are its help. A file of
`electra/commands/` holds one command, and is named after it: see `electra/commands/embed.py`.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import shlex
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NamedTuple, ParamSpec, TypeVar

from electra.foundation.config import convert, field_texts
from electra.foundation.display import ProgressOption
from electra.foundation.errors import ConfigError
from electra.foundation.options import OnCommandLine
from electra.foundation.progress import running_command
from electra.foundation.threads import applied

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")
P = ParamSpec("P")
UNCHECKED = (os.PathLike, typing.get_origin(Mapping[str, Any]))  # a command reads these itself


class Sections(NamedTuple):
    """Annotates a field that takes settings by dotted name; each of them is an option."""

    # Returns the sections by name: each is a dataclass, or an instance of one whose values are the defaults.
    # The argument is the command line, which may determine the sections.
    read: Callable[[Sequence[str]], Mapping[str, Any]]
    short: Mapping[str, str]  # additional names for single settings
    omit: frozenset[str] = frozenset()  # fields of the dataclasses that are not options here


@dataclass(frozen=True, kw_only=True)
class Command(Generic[R_co]):
    """The base of all commands. R_co is what the Python function returns."""

    EXAMPLES: ClassVar[tuple[str, ...]]
    # Sections of a recipe whose keys are options of the command: `--data.unit` works as well as `--unit`
    SECTIONS: ClassVar[Mapping[str, type]] = {}
    ADVICE: ClassVar[Mapping[str, str]] = {}  # on options it does not have, and ("") on one argument too many
    progress: ProgressOption = field(default=None, repr=False, compare=False)
    """Where progress goes (default: a notebook's cell, or nowhere in a script). "quiet": nowhere. A function
    is called with (line, share).
    """

    def __init_subclass__(cls, *, examples: tuple[str, ...] = ()) -> None:
        cls.EXAMPLES = examples

    def __post_init__(self) -> None:
        for name, hint in hints_of(typing.cast(Any, type(self))).items():
            # an argument that accepts more types in Python than in the shell is left to the command
            is_wide = any(typing.get_origin(each) in UNCHECKED for each in typing.get_args(hint))
            if name != "progress" and not is_wide and typing.get_origin(hint) is not typing.Annotated:
                object.__setattr__(self, name, convert(hint, getattr(self, name), name))
        for each in dataclasses.fields(self):
            is_required = each.default is each.default_factory is dataclasses.MISSING
            value = getattr(self, each.name)
            if is_required and isinstance(value, list | tuple) and not value:
                fix = f"For example: {self.EXAMPLES[0]}"
                raise ConfigError("nothing was passed", key=each.name, fix=fix)

    def run(self) -> R_co:
        """Does the work and returns its result; this is the Python function."""
        raise NotImplementedError

    def main(self) -> int:
        """Does the work for the command line, printing what the user should see; returns the exit code."""
        result = self.run()
        if isinstance(result, Path):
            sys.stdout.write(f"{result}\n")
        return result if isinstance(result, int) else 0

    def preview(self) -> None:
        """Prints what would be done, without doing it: `--dry-run` of commands that define this."""
        raise NotImplementedError

    def part(self, kind: type[R]) -> R:
        """Returns the options that the base class `kind` declares, as an instance of it."""
        fields = dataclasses.fields(typing.cast(Any, kind))
        return kind(**{each.name: getattr(self, each.name) for each in fields})

    @property
    def line(self) -> str:
        """The shell line that runs this command again, with all arguments and options that are not defaults.

        Rows from Python cannot be typed: the name of their option stands for them, as in --data DATA.
        """
        kind: Any = type(self)
        known, first, rest = {option.name: option for option in options_of(kind)}, list[str](), list[str]()
        for option in declared(kind):
            value = getattr(self, option.name)
            marks = getattr(hints_of(kind)[option.name], "__metadata__", ())
            sections = next((mark for mark in marks if isinstance(mark, Sections)), None)
            if option.name == "progress" or (_can_be_typed(value) and value == option.default):
                continue
            if sections is not None:
                for name, setting in (value or {}).items():
                    rest += _setting_words(name.replace("-", "_"), setting, sections, known)
            elif option.positional:
                first += _spelled(value, option)
            else:
                rest += _option_words(option, value)
        is_marked = any(word.startswith("-") and word != "-" for word in first)
        words = [*rest, "--", *first] if is_marked else [*first, *rest]  # after --, nothing is an option
        return shlex.join(["electra", command_name(kind), *words])

    @contextmanager
    def running(self) -> Iterator[None]:
        """Around the work: the number of threads is the command's, and folders record its line."""
        told = running_command.set(lambda: self.line)
        try:
            with applied(getattr(self, "threads", None)):
                yield
        finally:
            running_command.reset(told)


def command_name(command: type[Command[Any]]) -> str:
    """Returns a command's name: that of its file."""
    return command.__module__.rpartition(".")[2]


def function(command: Callable[P, Command[R]]) -> Callable[P, R]:
    """Returns the Python function of a command, with its arguments and their types."""

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        made = command(*args, **kwargs)
        with made.running():
            return made.run()

    call.command = command  # type: ignore[attr-defined]
    call.__module__ = command.__module__
    return call


def document(name: str, value: Any) -> Any:
    """Returns `value`. If it is a command's function, first sets its name, signature and docstring."""
    kind = getattr(value, "command", None)
    if kind is None or value.__name__ == name:
        return value
    value.__name__ = value.__qualname__ = name
    returned = kind.run.__annotations__["return"]
    value.__signature__ = inspect.signature(kind).replace(return_annotation=returned)
    texts = field_texts(kind)
    lines = [f"{parameter}: {texts[parameter]}" for parameter in value.__signature__.parameters]
    value.__doc__ = "\n".join([inspect.getdoc(kind) or "", "", *lines])
    return value


@cache
def hints_of(kind: Any) -> dict[str, Any]:
    """Returns the fields of a dataclass with their types, `Annotated` included."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {each.name: hints[each.name] for each in dataclasses.fields(kind)}


@dataclass(frozen=True)
class Option:
    """One option of a command line, or a positional argument."""

    name: str  # in Python; with a dot if it belongs to a section: training.learning_rate
    field: str  # of the command, which takes the value
    hint: Any  # the type of the value
    repeated: bool  # whether each of several values repeats the option
    default: Any  # or dataclasses.MISSING
    positional: bool
    declared_in: type  # the dataclass with the field
    aliases: tuple[str, ...] = ()  # further flags
    heading: str = ""  # the title of its group in the help: HEADING of the base class that declares it

    @property
    def text(self) -> str:
        """The help: the text below the field, read from the source when it is shown."""
        return field_texts(self.declared_in).get(self.name.rpartition(".")[2], "")

    @property
    def flag(self) -> str:
        """--learning-rate, or --training.learning-rate."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def kind(self) -> Any:
        """The type without None; for a union, the member that a command line can express."""
        if typing.get_origin(self.hint) not in (typing.Union, types.UnionType):
            return self.hint
        inner = [each for each in typing.get_args(self.hint) if each is not type(None)]
        return next((each for each in inner if typing.get_origin(each) is os.PathLike), inner[0])

    @property
    def each(self) -> Any:
        """The type of one of its values."""
        return typing.get_args(self.kind)[0] if typing.get_origin(self.kind) is tuple else self.kind

    @property
    def is_switch(self) -> bool:
        """Whether it takes no value."""
        return self.kind is bool

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.default is dataclasses.MISSING

    @property
    def values(self) -> int | str | None:
        """How many values follow the option, as argparse counts: None for one."""
        inner = typing.get_args(self.kind)
        if self.repeated or typing.get_origin(self.kind) is not tuple:
            return None
        return "+" if inner[-1] is Ellipsis else len(inner)

    @property
    def metavar(self) -> str:
        """The placeholder for each of its values in the help: N, X, PATH, TEXT or {a,b}."""
        if self.positional:
            return self.name.upper()
        if typing.get_origin(self.each) is Literal:
            return "{" + ",".join(map(str, typing.get_args(self.each))) + "}"
        return {int: "N", float: "X", str: "TEXT"}.get(self.each, "PATH")


def negative(flag: str) -> str:
    """Returns the flag that turns a switch off: --data.lowercase is --data.no-lowercase."""
    section, dot, last = flag.removeprefix("--").rpartition(".")
    return f"--{section}{dot}no-{last}"


def options_of(command: type[Command[Any]], words: Sequence[str] = ()) -> list[Option]:
    """Returns every option of a command. `words` is the command line, which may determine some sections."""
    options = list[Option]()
    for option in declared(command):
        marks = getattr(hints_of(typing.cast(Any, command))[option.name], "__metadata__", ())
        if sections := [mark for mark in marks if isinstance(mark, Sections)]:
            options += _section_options(option.name, sections[0], words)
        elif option.name != "progress":
            of_recipe = [name for name, kind in command.SECTIONS.items() if option.name in hints_of(kind)]
            dotted = [f"--{name}.{option.flag.removeprefix('--')}" for name in of_recipe]
            options.append(replace(option, aliases=(*option.aliases, *dotted)))
    return options


def _section_options(field_name: str, sections: Sections, words: Sequence[str]) -> list[Option]:
    found, short_flags = [], {name: (f"--{each}",) for each, name in sections.short.items()}
    for section, holder in sections.read(words).items():
        kind, values = (holder, {}) if isinstance(holder, type) else (type(holder), vars(holder))
        for each in declared(kind):
            if each.name not in sections.omit:
                name, default = f"{section}.{each.name}", values.get(each.name, each.default)
                inner = replace(each, name=name, field=field_name, default=default, positional=False)
                found.append(replace(inner, aliases=short_flags.get(name, ())))
    return found


def declared(kind: type) -> list[Option]:
    """Returns an option for each field of a dataclass, those that a base with a HEADING declares last."""
    options, headings = [], dict[str, str]()
    for base in kind.__mro__:
        for name in inspect.get_annotations(base):
            headings.setdefault(name, "" if base is kind else vars(base).get("HEADING", ""))
    for each in dataclasses.fields(kind):
        hint, make = hints_of(kind)[each.name], each.default_factory
        shells = [mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, OnCommandLine)]
        if typing.get_origin(hint) is typing.Annotated:
            hint = typing.get_args(hint)[0]
        shell = shells[0] if shells else OnCommandLine(hint)
        default = each.default if make is dataclasses.MISSING else make()
        flags, heading = each.metadata.get("flags", ()), headings[each.name]
        options.append(Option(each.name, each.name, *shell, default, not each.kw_only, kind, flags, heading))
    return sorted(options, key=lambda option: bool(option.heading))


def _setting_words(name: str, value: Any, sections: Sections, known: Mapping[str, Option]) -> list[str]:
    if "." not in name:  # in Python, the only section need not be named
        name = f"{next(iter(sections.read(())))}.{name}"
    # Options of an objective are not known without it: they are spelled as their values are.
    option = known.get(name) or Option(name, name, type(value), False, None, False, object)
    return _option_words(option, value)


def _option_words(option: Option, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [option.flag if value else negative(option.flag)]
    words = _spelled(value, option)
    groups = [[word] for word in words] if option.repeated else [words]
    return [word for group in groups for word in _flag_with(option.flag, group)]


def _flag_with(flag: str, words: Sequence[str]) -> list[str]:
    """Returns a flag and its values, joined where argparse would take the value for another flag."""
    is_joined = len(words) == 1 and words[0].startswith("-")
    return [f"{flag}={words[0]}"] if is_joined else [flag, *words]


def _spelled(value: Any, option: Option) -> list[str]:
    if not _can_be_typed(value):
        return [option.name.upper()]
    several = value if isinstance(value, list | tuple) else [value]
    return [str(os.fspath(each) if isinstance(each, os.PathLike) else each) for each in several]


def _can_be_typed(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_can_be_typed, value))
    return value is None or isinstance(value, str | int | float | os.PathLike)
