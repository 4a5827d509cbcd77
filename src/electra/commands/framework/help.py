"""Writes --help: the examples first, then the options in the order of their declaration."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from electra.commands.framework.command import Command, Option, command_name, has_dry_run, options_of

GROUPS = {
    "Train": "make a model from your own text",
    "Use": "apply a trained model",
    "Measure": "find out how good it is, and why",
    "Share": "exchange models with other programs and people",
}
DEFAULT = re.compile(r" ?\(default: ([^)]*)\)")  # in an option's text, explains a default of None
WIDTH = 24  # characters in the column of options


def overview(commands: Mapping[str, Path]) -> str:
    """Returns the text of `electra --help`. The files of the commands are read, not imported."""
    summaries = {name: summary(file) for name, file in commands.items()}
    lines = [
        "Train text encoders by replaced token detection, from your own text, on the hardware you have.",
        "",
        "usage: electra COMMAND [options]",
    ]
    for group, meaning in GROUPS.items():
        lines += ["", f"{group}: {meaning}"]
        lines += [
            f"  {name:<10}{line}" for name, (its_group, line) in summaries.items() if its_group == group
        ]
    lines += [
        "",
        "electra COMMAND --help shows examples and options; electra --version prints the version.",
        "--debug, with any command, shows tracebacks. To use code of your own, pass --objective.name FILE,",
        "--task FILE or --probe FILE, also to commands that open a folder made with it.",
        "electra --print-completion bash (or zsh, fish) prints a completion script for the shell.",
    ]
    return "\n".join(lines)


def summary(file: Path) -> tuple[str, str]:
    """Returns the group of the command in a file, and the first line of its docstring.

    Raises ValueError if the file declares no command.
    """
    classes = [node for node in ast.parse(file.read_bytes()).body if isinstance(node, ast.ClassDef)]
    for node in classes:
        for keyword in node.keywords:
            if keyword.arg == "group":
                return ast.literal_eval(keyword.value), (ast.get_docstring(node) or "").partition("\n")[0]
    raise ValueError(f"{file} declares no command")


def help_page(command: type[Command[Any]], words: Sequence[str]) -> str:
    """Returns the help of a command. `words` is the command line: it may name a recipe or an objective."""
    options, width = options_of(command, words), max(60, min(110, shutil.get_terminal_size().columns))
    usage = [_usage(option) for option in options if option.positional]
    usage += [_usage(option) for option in options if option.is_required and not option.positional]
    usage = ["usage: electra", command_name(command), *usage, "[options]"]
    lines = textwrap.wrap(" ".join(usage), width, subsequent_indent=" " * 11)
    for paragraph in (inspect.getdoc(command) or "").split("\n\n"):
        lines += ["", *_wrapped(" ".join(paragraph.split()), width)]
    lines += ["", "examples:", *(f"  {example}" for example in command.EXAMPLES)]
    positional = [option for option in options if option.positional]
    lines += [""] if positional else []
    for option in positional:
        lines += _entry(option.metavar, option.text, width)
    top_level = sorted(
        (o for o in options if not o.positional and "." not in o.name), key=lambda o: not o.is_required
    )
    lines += ["", "options:"]
    for option in top_level:
        if not option.heading:
            lines += _entry(*_described(option), width)
    if has_dry_run(command):
        lines += _entry("--dry-run", " ".join((inspect.getdoc(command.preview) or "").split()), width)
    lines += _entry("-h, --help", "Show this help and exit.", width)
    lines += _under_headings([option for option in top_level if option.heading], "", width)
    for section in dict.fromkeys(option.name.partition(".")[0] for option in options if "." in option.name):
        lines += _under_headings([o for o in options if o.name.startswith(f"{section}.")], section, width)
    return "\n".join(lines)


def _under_headings(options: Sequence[Option], section: str, width: int) -> Iterable[str]:
    for heading, members in itertools.groupby(options, key=lambda option: option.heading):
        title = heading[:1].lower() + heading[1:] if section else heading
        yield from ("", f"{', '.join(filter(None, (section, title)))}:")
        for option in members:
            yield from _entry(*_described(option), width)


def _usage(option: Option) -> str:
    if option.positional:
        word = f"{option.metavar}{' ...' * option.takes_several}"
        return word if option.is_required else f"[{word}]"
    return f"{option.flag} {option.metavar}"


def flag_shown(option: Option) -> str:
    """Returns the flag of an option; for a switch that is not off by default, also the negative flag."""
    return (
        f"{option.flag}, {option.negative}"
        if option.is_switch and option.default is not False
        else option.flag
    )


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
        suffix = " (default: on)"
    return (
        f"{flag_shown(option)} {option.metavar}".strip(),
        f"{text.removesuffix('.')}{suffix}." if text else suffix,
    )


def _entry(head: str, text: str, width: int) -> Iterable[str]:
    body = _wrapped(text, width - WIDTH - 2)
    beside_head = [] if len(head) >= WIDTH else body[:1]
    below_head = (f"  {'':<{WIDTH}}{line}" for line in body[len(beside_head) :])
    return [f"  {head:<{WIDTH}}{''.join(beside_head)}".rstrip(), *below_head]


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)
