"""Turns a command line into a command: argparse splits the words, converts them and writes the help.

Options of sections have dotted names (--training.batch-size); the last part alone will do if only one option
has it. An underscore is as good as a hyphen, and nothing may be abbreviated.
"""

from __future__ import annotations

import argparse
import inspect
import re
import shutil
import typing
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from typing_extensions import override

from electra.commands.framework.command import Command, Option, command_name, negative, options_of
from electra.foundation.errors import ConfigError, unknown_choice
from electra.foundation.extensions import FLAGS, is_path

C = typing.TypeVar("C", bound=Command[Any])
DEFAULT = re.compile(r" ?\(default: ([^)]*)\)")  # in an option's text, explains a default of None


class RaisingParser(argparse.ArgumentParser):
    """Raises ConfigError instead of ending the process."""

    @override
    def error(self, message: str) -> NoReturn:
        what = re.sub(r"^argument ([^/: ]+)\S*:", r"\1:", message)
        raise ConfigError(what, fix=f"See {self.prog} --help")


def parse(command: type[C], words: Sequence[str]) -> tuple[C, bool]:
    """Returns the command that the words describe, and whether --dry-run is among them."""
    options = options_of(command, words)
    parser = _parser(command, options, with_texts=False)
    words = [re.sub(r"^--[\w.-]+", lambda flag: flag[0].replace("_", "-"), word) for word in words]
    namespace, extra = parser.parse_known_intermixed_args(words)
    if extra:
        word = next((word for word in extra if word.startswith("--")), extra[0]).partition("=")[0]
        what = f"unknown option {word}" if word.startswith("--") else f"unexpected argument {word!r}"
        known = [flag for flag in parser._option_string_actions if flag not in FLAGS]
        namesakes = " or ".join(each for each in known if each.endswith(f".{word.lstrip('-')}"))
        fix = f"Use {namesakes}." if namesakes else unknown_choice(f"--{word.lstrip('-')}", known)[1]
        fix = command.ADVICE.get(word if word.startswith("--") else "", fix)
        raise ConfigError(what, fix=f"{fix} See {parser.prog} --help".strip())
    values: dict[str, Any] = {}
    for option in options:
        if hasattr(namespace, option.name):
            value = getattr(namespace, option.name)
            value = tuple(value) if isinstance(value, list) else value
            if option.field == option.name:
                values[option.name] = value
            else:
                values.setdefault(option.field, {})[option.name] = value
    required = [option for option in options if option.is_required and option.field not in values]
    if missing := [option.metavar if option.positional else option.flag for option in required]:
        fix = f"For example: {command.EXAMPLES[0]}. See {parser.prog} --help"
        raise ConfigError(f"{parser.prog} needs {', '.join(missing)}", fix=fix)
    return command(**values), bool(getattr(namespace, "dry run", False))


def help_page(command: type[Command[Any]], words: Sequence[str]) -> str:
    """Returns the help of a command. `words` is the command line: it may name a recipe or an objective."""
    return _parser(command, options_of(command, words), with_texts=True).format_help().rstrip()


def _parser(command: type[Command[Any]], options: list[Option], *, with_texts: bool) -> RaisingParser:
    """Returns the parser of a command. `with_texts`: for its help, else to parse, which is faster."""
    usage = [o.metavar if o.is_required else f"[{o.metavar}]" for o in options if o.positional]
    usage += [f"{o.flag} {o.metavar}" for o in options if o.is_required and not o.positional]
    name, width = f"electra {command_name(command)}", max(60, min(110, shutil.get_terminal_size().columns))
    parser = RaisingParser(
        name,
        " ".join([name, *usage, "[options]"]),
        "\n  ".join([f"{inspect.getdoc(command)}\n\nexamples:", *command.EXAMPLES]),
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=width),
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    parser._negative_number_matcher = re.compile(r"-\.?\d")  # argparse's own takes -1e9 for an option
    last_parts = Counter(option.name.rpartition(".")[2] for option in options)
    taken = {flag for option in options for flag in (option.flag, *option.aliases)}
    groups: dict[str, Any] = {"": parser}
    for option in sorted(options, key=lambda option: not option.is_required):
        title = f"{option.name.rpartition('.')[0]}, {option.heading}".strip(", ")
        if title not in groups:
            groups[title] = parser.add_argument_group(title)
        last = option.name.rpartition(".")[2]
        short = f"--{last.replace('_', '-')}"
        is_free = last_parts[last] == 1 and short not in taken and not option.positional
        flags = [*([] if option.positional else [option.flag]), *option.aliases]
        flags += [short] if is_free else []
        help_text = described(option).replace("%", "%%") if with_texts else None
        _add(groups[title], option, flags, help_text)
    if command.preview is not Command.preview:
        text = inspect.getdoc(command.preview)
        parser.add_argument("--dry-run", dest="dry run", action="store_true", help=text)
    for flag in FLAGS - parser._option_string_actions.keys():  # names code that a folder was made with
        parser.add_argument(flag, type=partial(_trusted, flag), help=argparse.SUPPRESS)
    return parser


def _add(group: Any, option: Option, flags: Sequence[str], text: str | None) -> None:
    """Adds an option under all its flags, of which the help shows those of `flags_shown`."""
    how: dict[str, Any] = {"type": partial(_read, option), "metavar": option.metavar, "help": text}
    if option.positional:
        group.add_argument(option.name, nargs="?" if option.values is None else "*", **how)
        how["help"] = argparse.SUPPRESS
    if option.is_switch:
        how = {"dest": option.name, "action": "store_const"}
        group.add_argument(*map(negative, flags), const=False, help=argparse.SUPPRESS, **how)
        action = group.add_argument(*flags, const=True, help=text, **how)
        action.option_strings = flags_shown(option)
    elif flags:
        kind = "append" if option.repeated else "extend" if option.values == "+" else "store"
        action = group.add_argument(*flags, dest=option.name, action=kind, nargs=option.values, **how)
        action.option_strings = flags_shown(option)


def _trusted(flag: str, word: str) -> str:
    if not is_path(word):
        raise ConfigError(f"{flag} expects the path of a .py file here")
    return word


def _read(option: Option, word: str) -> Any:
    if word is argparse.SUPPRESS:  # an optional positional argument that is absent
        return word
    if word == "None" and type(None) in typing.get_args(option.hint):
        return None
    if typing.get_origin(option.each) is typing.Literal:
        choices = {str(choice): choice for choice in typing.get_args(option.each)}
        if word not in choices:
            raise argparse.ArgumentTypeError(f"{word!r} is not one of {', '.join(choices)}")
        return choices[word]
    try:
        return option.each(word) if option.each in (int, float, Path) else word
    except ValueError:
        problem = f"{word!r} is not a {'whole ' if option.each is int else ''}number"
        raise argparse.ArgumentTypeError(problem) from None


def flags_shown(option: Option) -> list[str]:
    """Returns the flag of an option; for a switch that is not off by default, also the negative flag."""
    is_on = option.is_switch and option.default is not False
    return [option.flag, negative(option.flag)] if is_on else [option.flag]


def default_shown(option: Option) -> str:
    """Returns the default as text; empty if there is none, or if the option's text has to explain it."""
    value = option.default
    if option.is_required or value is None or value in ((), ""):
        return "required" if option.is_required else ""
    if option.is_switch:
        return "on" if value else "off"
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def described(option: Option) -> str:
    """Returns the text of an option with its default."""
    default = default_shown(option)
    if not default or default == "off":
        return option.text
    shown = default if default == "required" else f"default: {default}"
    return f"{DEFAULT.sub('', option.text).removesuffix('.')} ({shown})."
