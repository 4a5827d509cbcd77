"""Turns a command line into a command. argparse splits the words; the rules about options are here.

Options of sections have dotted names (--training.batch-size); the last part alone will do if only one option
has it. An underscore is as good as a hyphen, `--lowercase False` is `--no-lowercase`, and nothing may be
abbreviated.
"""

from __future__ import annotations

import argparse
import typing
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
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
from electra.foundation.errors import ConfigError

OTHER_PROGRAMS = {  # option in other programs -> our options
    "lr": "learning-rate",
    "gradient-accumulation-steps": "micro-batch",
    "grad-accumulation": "micro-batch",
    "num-train-epochs": "epochs",
    "max-seq-length": "max-length length",
    "max-len": "max-length length",
    "max-length": "length",
    "max-grad-norm": "clip",
    "grad-clip": "clip",
    "num-seeds": "seeds",
    "per-device-train-batch-size": "batch-size",
    "output": "out",
    "output-dir": "out",
    "model-name-or-path": "init",
}
DRY_RUN = "--dry-run"
C = typing.TypeVar("C", bound=Command[Any])


class SetOnce(argparse.Action):
    """Rejects an option that is passed twice, because the first value would be lost."""

    @override
    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        if hasattr(namespace, self.dest):
            raise argparse.ArgumentError(self, "was passed twice")
        if self.nargs != 0 and values in (None, []):
            raise argparse.ArgumentError(self, "needs a value")
        setattr(namespace, self.dest, self.const if self.nargs == 0 else values)


class Append(argparse.Action):
    """Collects the values of an option that may be repeated."""

    @override
    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        if values is None:
            raise argparse.ArgumentError(self, "needs a value")
        setattr(namespace, self.dest, [*getattr(namespace, self.dest, []), values])


class RaisingParser(argparse.ArgumentParser):
    """Raises ConfigError instead of ending the process."""

    @override
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


def parse(command: type[C], words: Sequence[str]) -> tuple[C, bool]:
    """Returns the command that the words describe, and whether --dry-run is among them.

    Raises ConfigError for unknown, missing or invalid options.
    """
    options, name = options_of(command, words), command_name(command)
    flags = flags_of(options)
    words = _normalised(words, flags)
    see_help = f"See electra {name} --help"
    try:
        namespace, extra = _parser(command, options, flags).parse_known_intermixed_args(words)
    except argparse.ArgumentError as error:
        flag = str(error.argument_name).split("/")[0]
        raise ConfigError(f"{flag}: {error.message}", fix=see_help) from None
    if extra:
        raise _unknown(extra, flags, options, see_help)
    values: dict[str, Any] = {}
    for option in options:
        if hasattr(namespace, option.name):
            raw = getattr(namespace, option.name)
            value = raw if option.is_switch else option_value(option, raw, see_help)
            if option.field == option.name:
                values[option.name] = value
            else:
                values.setdefault(option.field, {})[option.name] = value
    missing = [_label(option) for option in options if option.is_required and option.field not in values]
    if missing:
        listed = " and ".join(filter(None, [", ".join(missing[:-1]), missing[-1]]))
        raise ConfigError(
            f"electra {name} needs {listed}", fix=f"For example: {command.EXAMPLES[0]}. {see_help}"
        )
    return command(**values), bool(getattr(namespace, "dry run", False))


def flags_of(options: Iterable[Option]) -> dict[str, Option]:
    """Returns each option under every flag that sets it, without the negative flags of switches."""
    flags, by_last = {}, defaultdict(list)
    for option in options:
        if not option.positional:
            flags[option.flag] = option
        for alias in option.aliases:
            flags[alias] = option
        by_last[f"--{option.flag.removeprefix('--').rpartition('.')[2]}"].append(option)
    short = {
        flag: owners[0] for flag, owners in by_last.items() if len(owners) == 1 and not owners[0].positional
    }
    return short | flags


def _parser(
    command: type[Command[Any]], options: Sequence[Option], flags: Mapping[str, Option]
) -> RaisingParser:
    parser = RaisingParser(
        add_help=False, allow_abbrev=False, exit_on_error=False, argument_default=argparse.SUPPRESS
    )
    flags_by_option = defaultdict(list)
    for flag, option in flags.items():
        flags_by_option[option.name].append(flag)
    for option in options:
        # argparse's messages use the first flag: the longest one, which names the section
        spellings = sorted(flags_by_option[option.name], key=len, reverse=True)
        if option.positional:
            parser.add_argument(option.name, nargs="*" if option.takes_several else "?")
        if option.is_switch:
            parser.add_argument(*spellings, dest=option.name, action=SetOnce, nargs=0, const=True)
            parser.add_argument(
                *map(negative, spellings), dest=option.name, action=SetOnce, nargs=0, const=False
            )
        elif spellings and option.repeated:
            parser.add_argument(*spellings, dest=option.name, action=Append, nargs="?")
        elif spellings:
            parser.add_argument(*spellings, dest=option.name, action=SetOnce, nargs=_count(option))
    if has_dry_run(command):
        parser.add_argument(DRY_RUN, dest="dry run", action=SetOnce, nargs=0, const=True)
    return parser


def _count(option: Option) -> Any:
    if not option.takes_several:
        return "?"
    inner = typing.get_args(plain_type(option.kind))
    return "*" if inner[-1] is Ellipsis else len(inner)


def _normalised(words: Sequence[str], flags: Mapping[str, Option]) -> list[str]:
    """Returns the words with hyphens instead of underscores in option names, and switches without values."""
    normalised: list[str] = []
    for word in words:
        before = normalised[-1] if normalised else ""
        if word.lower() in ("true", "false") and before in flags and flags[before].is_switch:
            normalised[-1] = before if word.lower() == "true" else negative(before)
            continue
        if word.startswith("-") and before in flags and not flags[before].is_switch and _is_number(word):
            normalised[-1] = f"{before}={word}"  # argparse takes -1e9 for an option
            continue
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            name = name.replace("_", "-")
            if equals and value.lower() in ("true", "false") and name in flags and flags[name].is_switch:
                name, equals, value = name if value.lower() == "true" else negative(name), "", ""
        normalised.append(f"{name}{equals}{value}")
    return normalised


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _label(option: Option) -> str:
    return option.metavar if option.positional else option.flag


def _unknown(
    extra: Sequence[str], flags: Mapping[str, Option], options: Sequence[Option], fix: str
) -> ConfigError:
    """Returns the error for words that no option takes, with a suggestion of what was meant."""
    from difflib import get_close_matches

    word = next((word for word in extra if word.startswith("--")), None)
    if word is None:
        meant_flag = f"--{extra[0]}"
        suggestion = f"Did you mean {meant_flag}? " if meant_flag in flags else ""
        return ConfigError(f"unexpected argument {extra[0]!r}", fix=f"{suggestion}{fix}")
    name = word.partition("=")[0].removeprefix("--")
    if len(candidates := sorted(o.flag for o in options if o.flag.rpartition(".")[2] == name)) > 1:
        return ConfigError(f"--{name} is ambiguous", fix=f"Use {' or '.join(candidates)}")
    word = f"--{name}"
    equivalents = [f"--{each}" for each in OTHER_PROGRAMS.get(name, "").split()]
    known = [*flags, *(negative(flag) for flag, option in flags.items() if option.is_switch)]
    matches = [flag for flag in equivalents if flag in flags] or get_close_matches(word, known, n=1)
    suggestion = f"Did you mean {matches[0]}? " if matches else ""
    return ConfigError(f"unknown option {word}", fix=f"{suggestion}{fix}")


def option_value(option: Option, raw: Any, fix: str) -> Any:
    """Returns the value of an option from its word or words. Raises ConfigError naming the option."""
    kind = plain_type(option.kind)
    try:
        if typing.get_origin(kind) is tuple:
            inner = typing.get_args(kind)[0]
            values = [_value(inner, word) for word in raw]
            return TypedNames(values) if inner is str else tuple(values)
        if raw == "None" and type(None) in typing.get_args(option.kind):
            return None
        return _value(kind, raw)
    except ValueError as error:
        raise ConfigError(f"{_label(option)}: {error}", fix=fix) from None


def _value(kind: Any, word: str) -> Any:
    if typing.get_origin(kind) is typing.Literal:
        for choice in typing.get_args(kind):
            if str(choice) == word:
                return choice
        raise ValueError(f"{word!r} is not one of {', '.join(map(str, typing.get_args(kind)))}")
    if kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            raise ValueError(f"{word!r} is not a {'whole ' if kind is int else ''}number") from None
    return Path(word) if isinstance(kind, type) and issubclass(kind, Path) else word
