"""Turns a command line into a command: argparse splits and converts the words.

Options of sections have dotted names (--training.batch-size); the last part alone will do if only one option
has it. An underscore is as good as a hyphen, and nothing may be abbreviated.
"""

from __future__ import annotations

import argparse
import re
import typing
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from typing_extensions import override

from electra.commands.framework.command import (
    Command,
    Option,
    TypedNames,
    command_name,
    has_dry_run,
    negative,
    options_of,
    plain_type,
)
from electra.foundation.errors import ConfigError, unknown_choice

C = typing.TypeVar("C", bound=Command[Any])


class SetOnce(argparse.Action):
    """Rejects an option that is passed twice, because the first value would be lost."""

    @override
    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        if hasattr(namespace, self.dest):
            raise argparse.ArgumentError(self, "was passed twice")
        setattr(namespace, self.dest, self.const if self.nargs == 0 else values)


class RaisingParser(argparse.ArgumentParser):
    """Raises ConfigError instead of ending the process."""

    @override
    def error(self, message: str) -> NoReturn:
        raise ConfigError(re.sub(r"^argument ([^/: ]+)\S*:", r"\1:", message), fix=self.see_help)

    @property
    def see_help(self) -> str:
        """What to do about an invalid command line."""
        return f"See {self.prog} --help"


def parse(command: type[C], words: Sequence[str]) -> tuple[C, bool]:
    """Returns the command that the words describe, and whether --dry-run is among them.

    Raises ConfigError for unknown, missing or invalid options.
    """
    options, name = options_of(command, words), command_name(command)
    parser = RaisingParser(
        f"electra {name}", "", argument_default=argparse.SUPPRESS, add_help=False, allow_abbrev=False
    )
    parser._negative_number_matcher = re.compile(r"-\.?\d")  # argparse's own takes -1e9 for an option
    flagged = flags_of(options)
    for option, flags in flagged:
        _add(parser, option, flags)
    if has_dry_run(command):
        parser.add_argument("--dry-run", dest="dry run", action=SetOnce, nargs=0, const=True)
    namespace, extra = parser.parse_known_intermixed_args([_with_hyphens(word) for word in words])
    if extra:
        word = next((word for word in extra if word.startswith("--")), extra[0])
        flag = f"--{word.removeprefix('--').partition('=')[0]}"
        what = "unknown option" if word.startswith("--") else "unexpected argument"
        known = [flag for _, flags in flagged for flag in flags]
        known += [negative(flag) for option, flags in flagged if option.is_switch for flag in flags]
        namesakes = " or ".join(each for each in known if each.endswith(f".{flag[2:]}"))
        fix = f"{(namesakes and f'Use {namesakes}.') or unknown_choice(flag, known)[1]} {parser.see_help}"
        raise ConfigError(f"{what} {word.partition('=')[0]}", fix=fix.strip())
    values: dict[str, Any] = {}
    for option in options:
        if hasattr(namespace, option.name):
            value = getattr(namespace, option.name)
            if option.takes_several:
                is_text = typing.get_args(plain_type(option.kind))[0] is str
                value = TypedNames(value) if is_text else tuple(value)
            if option.field == option.name:
                values[option.name] = value
            else:
                values.setdefault(option.field, {})[option.name] = value
    required = [option for option in options if option.is_required and option.field not in values]
    if missing := [option.metavar if option.positional else option.flag for option in required]:
        fix = f"For example: {command.EXAMPLES[0]}. {parser.see_help}"
        raise ConfigError(f"electra {name} needs {', '.join(missing)}", fix=fix)
    return command(**values), bool(getattr(namespace, "dry run", False))


def flags_of(options: Iterable[Option]) -> list[tuple[Option, list[str]]]:
    """Returns each option with all flags that set it, without the negative ones of switches."""
    options = list(options)
    last_parts = Counter(option.name.rpartition(".")[2] for option in options)
    long = {flag for option in options for flag in (option.flag, *option.aliases)}
    flags = []
    for option in options:
        found = [*([] if option.positional else [option.flag]), *option.aliases]
        last = option.name.rpartition(".")[2]
        short = f"--{last.replace('_', '-')}"
        is_free = last_parts[last] == 1 and short not in long and not option.positional
        flags.append((option, [*found, short] if is_free else found))
    return flags


def _add(parser: argparse.ArgumentParser, option: Option, flags: Sequence[str]) -> None:
    several: Any = None
    if option.takes_several and not option.repeated:
        inner = typing.get_args(plain_type(option.kind))
        several = "+" if inner[-1] is Ellipsis else len(inner)
    read = partial(_read, option)
    if option.positional:
        parser.add_argument(option.name, nargs="*" if option.takes_several else "?", type=read)
    if option.is_switch:
        parser.add_argument(*flags, dest=option.name, action=SetOnce, nargs=0, const=True)
        parser.add_argument(*map(negative, flags), dest=option.name, action=SetOnce, nargs=0, const=False)
    elif flags:
        action: Any = "append" if option.repeated else SetOnce
        parser.add_argument(*flags, dest=option.name, action=action, nargs=several, type=read)


def _read(option: Option, word: str) -> Any:
    """Returns one word as a value of the option."""
    if word is argparse.SUPPRESS:  # an optional positional argument that is absent
        return word
    kind = plain_type(option.kind)
    kind = typing.get_args(kind)[0] if option.takes_several else kind
    if word == "None" and type(None) in typing.get_args(option.kind):
        return None
    if typing.get_origin(kind) is typing.Literal:
        choices = {str(choice): choice for choice in typing.get_args(kind)}
        if word not in choices:
            raise argparse.ArgumentTypeError(f"{word!r} is not one of {', '.join(choices)}")
        return choices[word]
    try:
        return kind(word) if kind in (int, float, Path) else word
    except ValueError:
        problem = f"{word!r} is not a {'whole ' if kind is int else ''}number"
        raise argparse.ArgumentTypeError(problem) from None


def _with_hyphens(word: str) -> str:
    name, equals, value = word.partition("=")
    return f"{name.replace('_', '-')}{equals}{value}" if name.startswith("--") else word
