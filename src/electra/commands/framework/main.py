"""The command line: finds the command, runs it, and turns what goes wrong into one line and an exit code.

Exit codes: 0 done, 1 failed, 2 the user's input is wrong, 74 the disk is full, 130 Ctrl-C, 143 SIGTERM.
"""

from __future__ import annotations

import errno
import importlib
import os
import pkgutil
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import electra.commands
from electra.commands.framework import output, parser, renames
from electra.commands.framework.command import Command, options_of
from electra.commands.framework.display import Terminal
from electra.commands.framework.pages import help_page, overview
from electra.foundation import durable
from electra.foundation.errors import ConfigError, ElectraError, Interrupted, Note, nearest, out_of_memory
from electra.foundation.extensions import trust_options, without_code_options
from electra.foundation.machine import versions
from electra.foundation.visible import one_line

ORDER = [
    "plan",
    "prepare",
    "pretrain",
    "distil",
    "extend",
    "deepen",
    "lengthen",
    "finetune",
    "detect",
    "embed",
    "show",
    "predict",
]
ORDER += [
    "evaluate",
    "analyze",
    "ablate",
    "bench",
    "report",
    "log",
    "import",
    "export",
    "push",
    "serve",
    "verify",
]
REMOVED = {
    "prompt": "Prompting is now a task: electra finetune MODEL --task and --head examples/prompting.py",
    "watch": "Use electra report RUN --follow, or electra log RUN --to TRACKER --follow",
}


def commands() -> dict[str, str]:
    """Each command and its module: the files of `electra/commands/` (`import_.py` is `import`)."""
    stems = [module.name for module in pkgutil.iter_modules(electra.commands.__path__) if not module.ispkg]
    stems.sort(
        key=lambda stem: (ORDER.index(stem.rstrip("_")) if stem.rstrip("_") in ORDER else len(ORDER), stem)
    )
    return {stem.rstrip("_"): f"electra.commands.{stem}" for stem in stems}


def class_of(module: str) -> type[Command[Any]]:
    """The command that a module declares."""
    held = vars(importlib.import_module(module)).values()
    [found] = [
        each
        for each in held
        if isinstance(each, type) and issubclass(each, Command) and each.__module__ == module
    ]
    return found


def main(argv: Sequence[str] | None = None) -> int:
    if argv is None:
        output.prepare()
    code = _main(list(sys.argv[1:] if argv is None else argv))
    try:
        sys.stdout.flush()
    except OSError:  # which has been told
        output.abandon()
    return code


def _main(arguments: list[str]) -> int:
    debug, shared = "--debug" in arguments, os.environ.get("WORLD_SIZE", "1") not in ("0", "1")
    arguments = [argument for argument in arguments if argument != "--debug"]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        arguments = ["--help"]
    try:
        if arguments[0] in ("--help", "--version"):
            if arguments[0] == "--version":
                page = f"electra {versions('electra')['electra']}"
            else:
                page = overview({name: class_of(module) for name, module in commands().items()})
            sys.stdout.write(f"{page}\n")
            sys.stdout.flush()
            return 0
        if arguments[0] == "--print-completion":
            from electra.commands.framework.completion import script

            each = {name: class_of(module) for name, module in commands().items()}
            sys.stdout.write(script(" ".join(arguments[1:]), each))
            return 0
        with warnings.catch_warnings():
            warnings.showwarning = partial(_show, warnings.showwarning)
            warnings.simplefilter("always", Note)
            code = run_command(arguments[0], arguments[1:])
        sys.stdout.flush()
        return code
    except ElectraError as error:
        if debug:
            raise
        sys.stderr.write(f"error: {error.line(as_flag)}\n")
        code = error.exit_code
    except Interrupted as stop:
        if not stop.saved:  # what saved something has said how to resume
            sys.stderr.write("interrupted\n")
        return stop.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130
    except BrokenPipeError:
        output.abandon()  # keeps the interpreter's flush quiet
        return 0
    except OSError as error:
        if (lack := out_of_memory(error)) is not None and not debug:
            sys.stderr.write(f"error: {lack.line(as_flag)}\n")
            return lack.exit_code
        known = (*durable.FULL, errno.EMFILE, errno.ENFILE, errno.ENAMETOOLONG)
        if (error.errno not in known and error.filename != durable.STDOUT) or debug:
            raise
        found: ElectraError
        if error.errno == errno.ENAMETOOLONG:
            found = ConfigError("too long for a file's name", where=error.filename, fix="Give a shorter one")
        else:
            found = durable.disk_error(error)
        sys.stderr.write(f"error: {found.line(as_flag)}\n")
        code = found.exit_code
    except Exception as error:
        if isinstance(
            error.__cause__, KeyboardInterrupt
        ):  # as a class body raises it that was being imported
            sys.stderr.write("interrupted\n")
            return 130
        lack = None if debug else out_of_memory(error)
        if lack is not None:
            sys.stderr.write(f"error: {lack.line(as_flag)}\n")
        elif not shared:
            raise
        else:
            traceback.print_exc()
        code = 1
    if shared:  # no collective can be finished any more: leave, and the launcher ends the others
        sys.stderr.flush()
        os._exit(code)
    return code


def as_flag(setting: str) -> str:
    """A setting as it is given here: training.learning_rate=1e-3 is --training.learning-rate 1e-3."""
    name, equals, value = setting.partition("=")
    return f"--{name.replace('_', '-')}{' ' * bool(equals)}{value}"


def run_command(name: str, words: list[str]) -> int:
    """Run the command of that name; its exit code. Raises what the command raises."""
    name, words = renames.on_the_command_line(name, words)
    known = commands()
    if name in REMOVED:
        raise ElectraError(f"electra {name} is gone", fix=REMOVED[name])
    if name not in known:
        raise ElectraError(f"unknown command {name!r}", fix=nearest(name, list(known)))
    command = class_of(known[name])
    if trust_options(words):
        words = without_code_options(words, parser.flags_of(options_of(command)))
    if any(word in ("-h", "--help") for word in words):
        sys.stdout.write(help_page(command, words) + "\n")
        return 0
    parsed, dry_run = parser.parse(command, words)
    object.__setattr__(parsed, "progress", Terminal(lines=True))
    object.__setattr__(parsed, "_typed", " ".join([name, *words]))
    if dry_run:
        parsed.preview()
        return 0
    return parsed.main()


def _show(others: Callable[..., None], message: Warning | str, *where: Any) -> None:
    """Print a warning of ours as a note, those of others as Python does."""
    if isinstance(message, Note):
        sys.stderr.write(f"note: {one_line(str(message))}\n")
    else:
        others(message, *where)
