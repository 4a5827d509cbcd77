"""The command line: finds the command, runs it, and turns errors into one line and an exit code.

Exit codes: 0 success, 1 failure, 2 invalid input, 74 disk full, 130 Ctrl-C, 143 SIGTERM.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
import warnings
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.foundation import display
from electra.foundation.errors import ConfigError, ElectraError, Interrupted, Note, nearest, out_of_memory
from electra.foundation.signals import answering
from electra.foundation.terminal_text import one_line, when

if TYPE_CHECKING:
    from electra.commands.framework.command import Command

GROUPS = {
    "Train": ("make a model from your own text", ("prepare", "pretrain", "distil", "extend", "finetune")),
    "Use": ("apply a trained model", ("predict", "detect", "embed", "show")),
    "Measure": ("find out how good it is, and why", ("evaluate", "analyze", "ablate", "report")),
    "Share": ("exchange models with other programs and people", ("export", "serve", "verify")),
}
COMMANDS = tuple(name for _, names in GROUPS.values() for name in names)


def class_of(name: str) -> type[Command[Any]]:
    """Returns the command of that name, which its file declares."""
    module = importlib.import_module(f"electra.commands.{name}")
    command: type[Command[Any]] = getattr(module, name).command
    return command


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line (None: that of the process) and returns its exit code."""
    if argv is None:
        if sys.stdout is None:  # closed by the caller
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        if isinstance(sys.stdout, io.TextIOWrapper):  # characters that its encoding lacks are escaped
            sys.stdout.reconfigure(errors="backslashreplace")
    with answering():
        code = _main(list(sys.argv[1:] if argv is None else argv))
    try:
        sys.stdout.flush()
    except OSError:  # already reported when the command wrote
        _abandon_output()
    return code


def _abandon_output() -> None:
    """Discards what is left to write, so that the interpreter's last flush raises nothing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _main(words: list[str]) -> int:
    is_shared = os.environ.get("WORLD_SIZE", "1") not in ("0", "1")
    name, *rest = [word for word in words if word != "--debug"] or ["--help"]
    try:
        with warnings.catch_warnings():
            others = warnings.showwarning
            warnings.showwarning = lambda message, *where: _show_warning(message, others, where)
            warnings.simplefilter("always", Note)
            code = run_command(name, rest)
        sys.stdout.flush()
        return code
    except Interrupted as stop:
        if not stop.saved:  # a command that saved something has said how to resume
            sys.stderr.write("interrupted\n")
        return stop.exit_code
    except BrokenPipeError:
        _abandon_output()
        return 0
    except (Exception, KeyboardInterrupt) as raised:
        # an interrupt during an import may be the cause of another exception
        if isinstance(raised, KeyboardInterrupt) or isinstance(raised.__cause__, KeyboardInterrupt):
            sys.stderr.write("interrupted\n")
            return 130
        error = _user_error(raised)
        if error is not None and "--debug" not in words:
            sys.stderr.write(f"error: {error.line(as_flag)}\n")
        elif is_shared:
            sys.excepthook(type(raised), raised, raised.__traceback__)
        else:
            raise
        code = 1 if error is None else error.exit_code
        if is_shared:
            sys.stderr.flush()
            os._exit(code)  # no collective can finish any more: exit at once; the launcher ends the others
        return code


def _user_error(raised: BaseException) -> ElectraError | None:
    """Returns the one-line error for an exception; None if it is a bug that needs a traceback."""
    if isinstance(raised, ElectraError) or not isinstance(raised, OSError):
        return raised if isinstance(raised, ElectraError) else out_of_memory(raised)
    if raised.errno == errno.ENAMETOOLONG:
        return ConfigError("the file name is too long", where=raised.filename, fix="Use a shorter one")
    from electra.foundation import durable

    try:
        sys.stdout.flush()
    except OSError:  # its disk is full, or its terminal is gone
        raised.filename = raised.filename or durable.STDOUT
    if raised.errno in (*durable.NO_ROOM, errno.EMFILE, errno.ENFILE) or raised.filename == durable.STDOUT:
        return durable.disk_error(raised)
    return out_of_memory(raised)


def as_flag(setting: str) -> str:
    """Returns a setting as a flag: training.learning_rate=1e-3 is --training.learning-rate 1e-3."""
    name, equals, value = setting.partition("=")
    return f"--{name.replace('_', '-')}{when(equals, ' ')}{value}"


def run_command(name: str, words: list[str]) -> int:
    """Runs the command `name`, --help or --version; returns its exit code. Raises what the command raises."""
    if name == "--version":
        from electra.foundation.machine import versions

        return _print(f"electra {versions('electra')['electra']}")
    if name in ("-h", "--help"):
        return _print(overview())
    if name not in COMMANDS:
        raise ElectraError(f"unknown command {name!r}", fix=nearest(name, list(COMMANDS)))
    with display.Terminal() as terminal:
        return _run(class_of(name), words, terminal)


def _run(command: type[Command[Any]], words: list[str], terminal: display.Display) -> int:
    from electra.commands.framework import parser
    from electra.foundation.extensions import FLAGS, is_path, trust
    from electra.foundation.threads import applied

    pairs = [*(word.partition("=")[::2] for word in words if "=" in word), *pairwise(words)]
    trust(*(value for flag, value in pairs if flag in FLAGS and is_path(value)))  # files of the user's own
    if any(word in ("-h", "--help") for word in words):
        page = parser.help_page(command, words)
        terminal.progress("")
        return _print(page)
    parsed, dry_run = parser.parse(command, words)
    object.__setattr__(parsed, "progress", terminal)
    if dry_run:
        with applied(getattr(parsed, "threads", None)):
            parsed.preview()
        return 0
    with parsed.running():
        return parsed.main()


def overview() -> str:
    """Returns the text of `electra --help`. The files of the commands are read, not imported."""
    lines = [
        "Train text encoders by replaced token detection, from your own text, on the hardware you have.",
        "\nusage: electra COMMAND [options]",
    ]
    for group, (meaning, names) in GROUPS.items():
        lines += [f"\n{group}: {meaning}", *(f"  {name:<10}{summary(name)}" for name in names)]
    lines += [
        "\nelectra COMMAND --help shows examples and options; electra --version prints the version.",
        "--debug, with any command, shows tracebacks. To use code of your own, pass --objective.name FILE,",
        "--task FILE or --probe FILE, also to commands that open a folder made with it.",
    ]
    return "\n".join(lines)


def summary(name: str) -> str:
    """Returns the first line of a command's docstring, read from its file."""
    text = (Path(__file__).parents[1] / f"{name}.py").read_text(encoding="utf-8")
    return text.partition("\nclass ")[2].split('"""')[1].partition("\n")[0]


def _print(text: str) -> int:
    sys.stdout.write(f"{text}\n")
    return 0


def _show_warning(message: Warning | str, others: Any, where: Any) -> None:
    """Prints a Note as a line on standard error, and other warnings as Python does."""
    if isinstance(message, Note):
        sys.stderr.write(f"note: {one_line(str(message))}\n")
    else:
        others(message, *where)
