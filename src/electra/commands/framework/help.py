"""Writes --help: the examples first, then the options in the order of their declaration."""

from __future__ import annotations

import inspect
import itertools
import re
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from electra.commands.framework.command import Command, Option, has_dry_run, name_of, options_of

GROUPS = {
    "Train": "make a model from your own text",
    "Use": "apply a trained model",
    "Measure": "find out how good it is, and why",
    "Share": "exchange models with other programs and people",
}
DEFAULT = re.compile(r" ?\(default: ([^)]*)\)")  # in an option's text, explains a default of None
WIDTH = 24  # characters of the column with the options


def overview(commands: Mapping[str, type[Command[Any]]]) -> str:
    """Returns the text of `electra --help`."""
    lines = [
        "Train text encoders by replaced token detection, from your own text, on the hardware you have.",
        "",
        "usage: electra COMMAND [options]",
    ]
    for group, meaning in GROUPS.items():
        lines += ["", f"{group}: {meaning}"]
        for name, command in commands.items():
            if group == command.GROUP:
                lines.append(f"  {name:<10}{first_line(command)}")
    lines += [
        "",
        "electra COMMAND --help shows examples and options; electra --version prints the version.",
        "--debug, with any command, shows tracebacks. To use code of your own, pass --objective.name FILE,",
        "--task FILE or --probe FILE, also to commands that open a folder made with it.",
        "electra --print-completion bash (or zsh, fish) prints a completion script for the shell.",
    ]
    return "\n".join(lines)


def first_line(command: type[Command[Any]]) -> str:
    """Returns the first line of a command's docstring."""
    return (inspect.getdoc(command) or "").splitlines()[0]


def help_page(command: type[Command[Any]], words: Sequence[str]) -> str:
    """Returns the help of a command. `words` is the command line: it may name a recipe or an objective."""
    options, width = options_of(command, words), max(60, min(110, shutil.get_terminal_size().columns))
    usage = [_usage(option) for option in options if option.positional]
    usage += [_usage(option) for option in options if option.is_required and not option.positional]
    lines = textwrap.wrap(
        f"usage: electra {name_of(command)} {' '.join(usage)} [options]", width, subsequent_indent=" " * 11
    )
    for paragraph in (inspect.getdoc(command) or "").split("\n\n"):
        lines += ["", *_wrapped(" ".join(paragraph.split()), width)]
    lines += ["", "examples:", *(f"  {example}" for example in command.EXAMPLES), ""]
    for option in options:
        if option.positional:
            lines += _entry(option.metavar, option.text, width)
    own = sorted(
        (o for o in options if not o.positional and "." not in o.name), key=lambda o: not o.is_required
    )
    lines += ["", "options:"]
    for option in own:
        if not option.heading:
            lines += _entry(*_described(option), width)
    if has_dry_run(command):
        lines += _entry("--dry-run", " ".join((inspect.getdoc(command.preview) or "").split()), width)
    lines += _entry("-h, --help", "Show this help and exit.", width)
    lines += _under_headings([option for option in own if option.heading], "", width)
    for section in dict.fromkeys(option.name.partition(".")[0] for option in options if "." in option.name):
        lines += _under_headings([o for o in options if o.name.startswith(f"{section}.")], section, width)
    return "\n".join(lines)


def _under_headings(options: Sequence[Option], section: str, width: int) -> Iterable[str]:
    for heading, members in itertools.groupby(options, key=lambda option: option.heading):
        within = heading[:1].lower() + heading[1:] if section else heading
        yield from ("", f"{', '.join(filter(None, (section, within)))}:")
        for option in members:
            yield from _entry(*_described(option), width)


def _usage(option: Option) -> str:
    if option.positional:
        word = f"{option.metavar}{' ...' * option.several}"
        return word if option.is_required else f"[{word}]"
    return f"{option.flag} {option.metavar}"


def flag_shown(option: Option) -> str:
    """Returns the flag of an option; of a switch, the flag that changes its default."""
    if not option.is_switch:
        return option.flag
    if option.default is None:
        return f"{option.flag}, {option.negative}"
    return option.negative if option.default else option.flag


def default_shown(option: Option) -> str:
    """Returns the default as text; empty for a switch, or if the option's text has to explain it."""
    value = option.default
    if option.is_required or option.is_switch or value is None or value in ((), ""):
        return ""
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _described(option: Option) -> tuple[str, str]:
    default = default_shown(option)
    text = DEFAULT.sub("", option.text) if default else option.text
    suffix = " (required)" if option.is_required else f" (default: {default})" if default else ""
    if option.is_switch and option.default:
        suffix = " (default: on; this turns it off)"
    return f"{flag_shown(option)} {option.metavar}".strip(), f"{text}{suffix}"


def _entry(head: str, text: str, width: int) -> Iterable[str]:
    body = _wrapped(text, width - WIDTH - 2)
    first = [] if len(head) >= WIDTH else body[:1]
    rest = (f"  {'':<{WIDTH}}{line}" for line in body[len(first) :])
    return [f"  {head:<{WIDTH}}{''.join(first)}".rstrip(), *rest]


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)
