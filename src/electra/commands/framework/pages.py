"""What --help shows: examples first, then the options, as they are declared."""

from __future__ import annotations

import inspect
import itertools
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from electra.commands.framework.command import Command, Option, has_dry_run, name_of, options_of

GROUPS = {
    "Train": "from text to a model of your own",
    "Use": "what a trained model is for",
    "Measure": "how good it is, and why",
    "Share": "with other programs and people",
}
WIDTH = 24  # of the column of options


def overview(commands: Mapping[str, type[Command[Any]]]) -> str:
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
        "electra COMMAND --help shows examples and options. --version and --debug (tracebacks) go anywhere.",
    ]
    lines += [
        "Code of your own is named by --objective.name FILE, --task FILE or --probe FILE, with any command"
    ]
    lines += ["that opens a folder made with it."]
    lines += ["electra --print-completion bash (zsh, fish) prints what makes the shell complete all of this."]
    return "\n".join(lines)


def first_line(command: type[Command[Any]]) -> str:
    return (inspect.getdoc(command) or "").splitlines()[0]


def help_page(command: type[Command[Any]], words: Sequence[str]) -> str:
    """The help of a command; `words` are the rest of the command line, which may name a recipe or an
    objective.
    """
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
    lines += _entry("-h, --help", "Show this.", width)
    lines += _under_headings([option for option in own if option.heading], "", width)
    for section in dict.fromkeys(option.name.partition(".")[0] for option in options if "." in option.name):
        lines += _under_headings([o for o in options if o.name.startswith(f"{section}.")], section, width)
    return "\n".join(lines)


def _under_headings(options: Sequence[Option], section: str, width: int) -> Iterable[str]:
    for heading, several in itertools.groupby(options, key=lambda option: option.heading):
        within = heading[:1].lower() + heading[1:] if section else heading
        yield from ("", f"{', '.join(filter(None, (section, within)))}:")
        for option in several:
            yield from _entry(*_described(option), width)


def _usage(option: Option) -> str:
    if option.positional:
        word = f"{option.metavar}{' ...' * option.several}"
        return word if option.is_required else f"[{word}]"
    return f"{option.flag} {option.metavar}"


def flag_shown(option: Option) -> str:
    """The flag of an option; of a switch the one that changes something."""
    if not option.is_switch:
        return option.flag
    if option.default is None:
        return f"{option.flag}, {option.negative}"
    return option.negative if option.default else option.flag


def default_shown(option: Option) -> str:
    """The default in a word; nothing where the text has to say it, or where a switch shows it."""
    value = option.default
    if option.is_required or option.is_switch or value is None or value in ((), ""):
        return ""
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _described(option: Option) -> tuple[str, str]:
    default = default_shown(option)
    told = " (required)" if option.is_required else f" (default: {default})" if default else ""
    if option.is_switch and option.default:
        told = " (default: on; this turns it off)"
    return f"{flag_shown(option)} {option.metavar}".strip(), f"{option.text}{told}"


def _entry(head: str, text: str, width: int) -> Iterable[str]:
    body = _wrapped(text, width - WIDTH - 2)
    begin = f"  {head:<{WIDTH}}"
    if len(head) >= WIDTH:
        return [begin.rstrip(), *(f"  {'':<{WIDTH}}{line}" for line in body)]
    return [f"{begin}{body[0] if body else ''}", *(f"  {'':<{WIDTH}}{line}" for line in body[1:])]


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)
