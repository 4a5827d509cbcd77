"""Declares commands: a command is a frozen dataclass, and nothing about it is declared twice.

Its fields are its options on the command line, its arguments in Python, and what a record stores of it. Its
docstring and the text below each field are its help.

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

import dataclasses
import inspect
import os
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Generic, Literal, NamedTuple, ParamSpec, TypeVar

from electra.commands.framework import renames
from electra.commands.framework.display import ProgressOption
from electra.foundation.config import convert, field_texts
from electra.foundation.errors import ConfigError, nearest
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
_MAPPING = typing.get_origin(Mapping[str, Any])


class TypedNames(tuple[Any, ...]):
    """Words of a command line that name sources. In Python, an argument may hold texts or rows instead."""


class Sections(NamedTuple):
    """Annotates a field that takes settings by dotted name; each of them is an option."""

    read: Callable[[Sequence[str]], Mapping[str, Any]]
    """Returns the sections by name: each is a dataclass, or an instance of one whose values are the defaults.
    The argument is the command line, which may determine the sections.
    """
    short: Mapping[str, str]
    """Additional names for single settings."""
    omit: frozenset[str] = frozenset()
    """Fields of the dataclasses that are not options here."""


@dataclass(frozen=True, kw_only=True)
class Command(Generic[R_co]):
    """The base of all commands. R_co is what the Python function returns."""

    GROUP: ClassVar[Group]
    EXAMPLES: ClassVar[tuple[str, ...]]
    SECTIONS: ClassVar[Mapping[str, type]] = {}
    """Sections of a recipe whose keys are options of the command: `--data.unit` works as well as `--unit`,
    and in Python `overrides={"data.unit": ...}` as well as `unit=...`.
    """
    progress: ProgressOption = field(default=None, repr=False, compare=False)
    """Where progress goes (default: a live display in a notebook, nowhere in a script). "quiet": nowhere. A
    function is called with (line, share).
    """

    def __init_subclass__(cls, *, group: Group, examples: tuple[str, ...]) -> None:
        cls.GROUP, cls.EXAMPLES = group, examples

    def __post_init__(self) -> None:
        for name, hint in hints_of(typing.cast(Any, type(self))).items():
            if name != "progress":
                object.__setattr__(self, name, _checked(hint, getattr(self, name), name))

    def apply_overrides(self, overrides: Mapping[str, Any] | None) -> None:
        """Sets the options that are named as in a recipe, such as {"data.unit": "line"}.

        Raises:
            ConfigError: there is no such setting, its value is invalid, or it was also passed as an argument.
        """
        options = {alias: option for option in options_of(type(self)) for alias in option.aliases}
        for name, value in convert(dict[str, Any], overrides or {}, "overrides").items():
            option = options.get(f"--{str(name).replace('_', '-')}")
            if option is None:
                known = [alias.removeprefix("--").replace("-", "_") for alias in options if "." in alias]
                raise ConfigError("no such key", where=str(name), fix=nearest(str(name), known))
            if getattr(self, option.name) != option.default:
                fix = f"Omit it in `overrides`, or omit `{option.name}`"
                raise ConfigError("was passed twice", key=name, fix=fix)
            hint = hints_of(typing.cast(Any, type(self)))[option.name]
            object.__setattr__(self, option.name, _checked(hint, value, name))

    def run(self) -> R_co:
        """Does the work and returns its result; this is the Python function."""
        raise NotImplementedError

    def main(self) -> int:
        """Does the work for the command line, printing what the user should see; returns the exit code."""
        self.run()
        return 0

    def preview(self) -> None:
        """Prints what would be done, without doing it: `--dry-run` of commands that define this."""
        raise NotImplementedError

    def part(self, kind: type[R]) -> R:
        """Returns the options that the base class `kind` declares, as an instance of it."""
        fields = dataclasses.fields(typing.cast(Any, kind))
        return kind(**{each.name: getattr(self, each.name) for each in fields})

    @property
    def invocation(self) -> str:
        """The command line, or the Python function, for a record."""
        return " ".join(self.command_line) or f"electra.{command_name(type(self))}(...)"

    @property
    def command_line(self) -> tuple[str, ...]:
        """The words of the command line that started it; () in Python."""
        return getattr(self, "_command_line", ())


def command_name(command: type[Command[Any]]) -> str:
    """Returns a command's name: that of its file."""
    return command.__module__.rpartition(".")[2].rstrip("_")


def has_dry_run(command: type[Command[Any]]) -> bool:
    """Whether the command takes `--dry-run`."""
    return command.preview is not Command.preview


def function(command: Callable[P, Command[R]]) -> Callable[P, R]:
    """Returns the Python function of a command, with its arguments and their types."""

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        positional, named = renames.rename_arguments(typing.cast(Any, command), args, kwargs)
        return command(*positional, **named).run()

    call.command = command  # type: ignore[attr-defined]
    call.__module__ = command.__module__
    return call


def document(name: str, value: Any) -> Any:
    """Returns `value`. If it is a command's function, first sets its name, signature and docstring."""
    kind = getattr(value, "command", None)
    if kind is None or value.__name__ == name:
        return value
    value.__name__ = value.__qualname__ = name
    hints, texts = typing.get_type_hints(kind), field_texts(kind)
    parameters = sorted(inspect.signature(kind).parameters.values(), key=_parameter_order)
    value.__signature__ = inspect.Signature(
        [parameter.replace(annotation=hints[parameter.name]) for parameter in parameters],
        return_annotation=kind.run.__annotations__["return"],
    )
    import textwrap

    lines = [inspect.getdoc(kind) or "", ""]
    for parameter in parameters:
        text = f"{parameter.name}: {texts[parameter.name]}"
        lines += textwrap.wrap(text, 100, subsequent_indent="    ", break_on_hyphens=False)
    value.__doc__ = "\n".join(lines)
    return value


def _parameter_order(parameter: inspect.Parameter) -> tuple[bool, bool, bool]:
    """Returns a key that sorts positional parameters first, then required ones, and `progress` last."""
    is_named = parameter.kind is inspect.Parameter.KEYWORD_ONLY
    return is_named, parameter.default is not inspect.Parameter.empty, parameter.name == "progress"


@cache
def hints_of(kind: Any) -> dict[str, Any]:
    """Returns the fields of a dataclass with their types, `Annotated` included."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {each.name: hints[each.name] for each in dataclasses.fields(kind)}


def annotation_of(hint: Any, kind: type[R]) -> R | None:
    """Returns the annotation of class `kind` in Annotated[...]; None if there is none."""
    return next(
        (annotation for annotation in getattr(hint, "__metadata__", ()) if isinstance(annotation, kind)), None
    )


def _checked(hint: Any, value: Any, name: str) -> Any:
    """Returns an argument from Python, converted to its type. Raises ConfigError if that is impossible.

    An argument that accepts more types in Python than in the shell is left to the command.
    """
    annotation = annotation_of(hint, OnCommandLine)
    if annotation is not None:
        if typing.get_origin(annotation.kind) is tuple and isinstance(value, str | os.PathLike):
            return TypedNames((value,))
        return value
    has_path_or_mapping = any(
        typing.get_origin(each) in (os.PathLike, _MAPPING) for each in typing.get_args(hint)
    )
    unchecked = hint is Any or has_path_or_mapping or annotation_of(hint, Sections) is not None
    return value if unchecked else convert(hint, value, name)


@dataclass(frozen=True)
class Option:
    """One option of a command line, or a positional argument."""

    name: str
    """The name in Python; with a dot if it belongs to a section: training.learning_rate."""
    field: str
    """The field of the command that takes the value."""
    kind: Any
    """The type of the value."""
    default: Any
    positional: bool
    repeated: bool
    declared_in: type
    """The dataclass with the field."""
    aliases: tuple[str, ...] = ()
    """Further flags."""
    heading: str = ""
    """The title of its group in the help: HEADING of the base class that declares it."""

    @property
    def text(self) -> str:
        """The help: the text below the field, read from the source when it is shown."""
        return field_texts(self.declared_in).get(self.name.rpartition(".")[2], "")

    @property
    def flag(self) -> str:
        """--learning-rate, or --training.learning-rate."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def negative(self) -> str:
        """The flag that turns a switch off."""
        return negative(self.flag)

    @property
    def is_switch(self) -> bool:
        """Whether it takes no value."""
        return plain_type(self.kind) is bool

    @property
    def takes_several(self) -> bool:
        """Whether it takes more than one value."""
        return typing.get_origin(plain_type(self.kind)) is tuple

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.default is dataclasses.MISSING

    @property
    def choices(self) -> tuple[str, ...]:
        """The values it may take; empty if it takes any value."""
        kind = plain_type(self.kind)
        if typing.get_origin(kind) is tuple:
            kind = typing.get_args(kind)[0]
        return tuple(map(str, typing.get_args(kind))) if typing.get_origin(kind) is Literal else ()

    @property
    def metavar(self) -> str:
        """The placeholder for its value in the help."""
        if self.positional:
            return self.name.upper()
        word = "" if self.is_switch else metavar(self.kind)
        return word.removesuffix(" ...") if self.repeated else word


def negative(flag: str) -> str:
    """Returns the flag that turns a switch off: --data.lowercase is --data.no-lowercase."""
    section, dot, last = flag.removeprefix("--").rpartition(".")
    return f"--{section}{dot}no-{last}"


def metavar(kind: Any) -> str:
    """Returns the placeholder for a value of this type: N, X, PATH, TEXT or {a,b}."""
    kind = plain_type(kind)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return "{" + ",".join(map(str, inner)) + "}"
    if origin is tuple:
        return f"{metavar(inner[0])} ..." if inner[-1] is Ellipsis else " ".join(map(metavar, inner))
    if origin is os.PathLike or (isinstance(kind, type) and issubclass(kind, os.PathLike)):
        return "PATH"
    return {int: "N", float: "X"}.get(kind, "TEXT")


def plain_type(kind: Any) -> Any:
    """Returns the type without None; for a union, the member that a command line can express."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        inner = [each for each in typing.get_args(kind) if each is not type(None)]
        paths = [each for each in inner if typing.get_origin(each) is os.PathLike]
        return (paths or inner)[0]
    return kind


def options_of(command: type[Command[Any]], words: Sequence[str] = ()) -> list[Option]:
    """Returns every option of a command. `words` is the command line, which may determine some sections."""
    options: list[Option] = []
    for each, hint, heading in _fields(command):
        if each.name == "progress":
            continue
        if sections := annotation_of(hint, Sections):
            options += section_options(each.name, sections, words)
            continue
        default: Any = each.default
        if each.default_factory is not dataclasses.MISSING:
            default = each.default_factory()
        aliases = (
            *each.metadata.get("flags", ()),
            *(
                f"--{section}.{each.name.replace('_', '-')}"
                for section, kind in command.SECTIONS.items()
                if each.name in {key.name for key in dataclasses.fields(kind)}
            ),
        )
        kind, repeated = _typed_kind(hint)
        options.append(
            Option(each.name, each.name, kind, default, not each.kw_only, repeated, command, aliases, heading)
        )
    return options


def section_options(field_name: str, sections: Sections, words: Sequence[str]) -> Iterable[Option]:
    """Yields the options of a field that is annotated with Sections."""
    short_flags = {name: f"--{each.replace('_', '-')}" for each, name in sections.short.items()}
    for section, holder in sections.read(words).items():
        declared_in = holder if isinstance(holder, type) else type(holder)
        for each, hint, heading in _fields(declared_in):
            if each.name in sections.omit:
                continue
            name = f"{section}.{each.name}"
            default = each.default if isinstance(holder, type) else getattr(holder, each.name)
            aliases = (short_flags[name],) if name in short_flags else ()
            kind, repeated = _typed_kind(hint)
            yield Option(name, field_name, kind, default, False, repeated, declared_in, aliases, heading)


def _fields(kind: Any) -> list[tuple[dataclasses.Field[Any], Any, str]]:
    """Returns each field with its type and heading, those without a heading first."""
    hints, headings = hints_of(kind), _headings(kind)
    fields = [(each, hints[each.name], headings[each.name]) for each in dataclasses.fields(kind)]
    return sorted(fields, key=lambda entry: bool(entry[2]))


def _headings(kind: type) -> dict[str, str]:
    """Returns the HEADING of the base that declares each field; empty for the class's own fields."""
    headings: dict[str, str] = {}
    for base in kind.__mro__:
        for name in inspect.get_annotations(base):
            headings.setdefault(name, "" if base is kind else vars(base).get("HEADING", ""))
    return headings


def _typed_kind(hint: Any) -> tuple[Any, bool]:
    """Returns the type of a field on the command line, and whether the option may be repeated."""
    if annotation := annotation_of(hint, OnCommandLine):
        return annotation.kind, annotation.repeated
    return typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint, False
