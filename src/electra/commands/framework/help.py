"""Writes --help: the examples first, then the options in the order of their declaration."""

from __future__ import annotations

import inspect
import re
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from electra.commands.framework.command import (
    Command,
    Option,
    command_name,
    has_dry_run,
    negative,
    options_of,
)

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
        "\nusage: electra COMMAND [options]",
    ]
    for group, meaning in GROUPS.items():
        listed = [
            f"  {name:<10}{line}" for name, (its_group, line) in summaries.items() if its_group == group
        ]
        lines += [f"\n{group}: {meaning}", *listed]
    lines += [
        "\nelectra COMMAND --help shows examples and options; electra --version prints the version.",
        "--debug, with any command, shows tracebacks. To use code of your own, pass --objective.name FILE,",
        "--task FILE or --probe FILE, also to commands that open a folder made with it.",
    ]
    return "\n".join(lines)


def summary(file: Path) -> tuple[str, str]:
    """Returns the group of the command in a file, and the first line of its docstring."""
    found = re.search(r'\bgroup="(\w+)".*?"""([^\n"]*)', file.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None, f"{file} declares no command"
    return found[1], found[2]


def help_page(command: type[Command[Any]], words: Sequence[str]) -> str:
    """Returns the help of a command. `words` is the command line: it may name a recipe or an objective."""
    options, width = options_of(command, words), max(60, min(110, shutil.get_terminal_size().columns))
    positional = [option for option in options if option.positional]
    usage = [f"{o.metavar}{' ...' * o.takes_several}" for o in positional]
    usage = [word if o.is_required else f"[{word}]" for word, o in zip(usage, positional, strict=True)]
    usage += [f"{o.flag} {o.metavar}" for o in options if o.is_required and not o.positional]
    lines = [" ".join(["usage: electra", command_name(command), *usage, "[options]"])]
    for paragraph in (inspect.getdoc(command) or "").split("\n\n"):
        lines += ["", *_wrapped(paragraph, width)]
    lines += ["", "examples:", *(f"  {example}" for example in command.EXAMPLES), ""]
    for option in positional:
        lines += _entry(option.metavar, option.text, width)
    groups: dict[str, list[Option]] = {"options": []}
    for option in sorted(options, key=lambda option: not option.is_required):
        section = option.name.rpartition(".")[0]
        title = f"{section}, {option.heading}".strip(", ") or "options"
        if not option.positional:
            groups.setdefault(title, []).append(option)
    for title, members in groups.items():
        lines += ["", f"{title}:"]
        for option in members:
            lines += _entry(*_described(option), width)
        if title == "options":
            if has_dry_run(command):
                lines += _entry("--dry-run", inspect.getdoc(command.preview) or "", width)
            lines += _entry("-h, --help", "Show this help and exit.", width)
    return "\n".join(lines)


def flag_shown(option: Option) -> str:
    """Returns the flag of an option; for a switch that is not off by default, also the negative flag."""
    is_on = option.is_switch and option.default is not False
    return f"{option.flag}, {negative(option.flag)}" if is_on else option.flag


def default_shown(option: Option) -> str:
    """Returns the default as text; empty for a switch, or if the option's text has to explain it."""
    value = option.default
    if option.is_required or option.is_switch or value is None or value in ((), ""):
        return ""
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _described(option: Option) -> tuple[str, str]:
    default = "on" if option.is_switch and option.default else default_shown(option)
    text = DEFAULT.sub("", option.text) if default else option.text
    suffix = " (required)" if option.is_required else f" (default: {default})" if default else ""
    return f"{flag_shown(option)} {option.metavar}".strip(), f"{text.removesuffix('.')}{suffix}."


def _entry(head: str, text: str, width: int) -> Iterable[str]:
    body = _wrapped(text, width - WIDTH - 2)
    beside_head = [] if len(head) >= WIDTH else body[:1]
    below_head = (f"  {'':<{WIDTH}}{line}" for line in body[len(beside_head) :])
    return [f"  {head:<{WIDTH}}{''.join(beside_head)}".rstrip(), *below_head]


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False, break_long_words=False)
