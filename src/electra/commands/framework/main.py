"""The command line: finds the command, runs it, and turns errors into one line and an exit code.

Exit codes: 0 success, 1 failure, 2 invalid input, 74 disk full, 130 Ctrl-C, 143 SIGTERM.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.commands.framework import output
from electra.foundation.errors import ConfigError, ElectraError, Interrupted, Note, nearest, out_of_memory
from electra.foundation.visible import one_line

if TYPE_CHECKING:
    from electra.commands.framework.command import Command

ORDER = """
data plan prepare pretrain distil extend deepen lengthen finetune detect embed show predict
evaluate analyze ablate bench report log import export push serve verify
"""
REMOVED = {
    "prompt": "Prompting is now a task: electra finetune MODEL --task and --head examples/prompting.py",
    "watch": "Use electra report RUN --follow, or electra log RUN --to TRACKER --follow",
}
REMOVED_OPTIONS = {
    ("pretrain", "--milestones"): "Train to the first budget, then to each further one with electra extend"
}
FOLDER = Path(__file__).parents[1]


def commands() -> dict[str, Path]:
    """Returns each command's file in `electra/commands/`, in the help's order (`import_.py` is `import`)."""
    files = {path.stem.rstrip("_"): path for path in FOLDER.glob("*.py") if path.stem != "__init__"}
    ordered = [name for name in ORDER.split() if name in files]
    return {name: files[name] for name in (*ordered, *sorted({*files} - {*ordered}))}


def class_of(file: Path) -> type[Command[Any]]:
    """Returns the command that a file declares."""
    from electra.commands.framework.command import Command

    module = f"electra.commands.{file.stem}"
    [command] = [
        each
        for each in vars(importlib.import_module(module)).values()
        if isinstance(each, type) and issubclass(each, Command) and each.__module__ == module
    ]
    return command


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line (None: that of the process) and returns its exit code."""
    if argv is None:
        output.prepare()
    code = _main(list(sys.argv[1:] if argv is None else argv))
    try:
        sys.stdout.flush()
    except OSError:  # already reported when the command wrote
        output.abandon()
    return code


def _main(arguments: list[str]) -> int:
    debug, is_shared = "--debug" in arguments, os.environ.get("WORLD_SIZE", "1") not in ("0", "1")
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        with warnings.catch_warnings():
            warnings.showwarning = partial(_show_warning, warnings.showwarning)
            warnings.simplefilter("always", Note)
            code = run_command(*_split(arguments))
        sys.stdout.flush()
        return code
    except Interrupted as stop:
        if not stop.saved:  # a command that saved something has said how to resume
            sys.stderr.write("interrupted\n")
        return stop.exit_code
    except BrokenPipeError:
        output.abandon()
        return 0
    except (Exception, KeyboardInterrupt) as raised:
        # an interrupt during an import may be the cause of another exception
        if isinstance(raised, KeyboardInterrupt) or isinstance(raised.__cause__, KeyboardInterrupt):
            sys.stderr.write("interrupted\n")
            return 130
        error = _user_error(raised)
        if (error is None and not is_shared) or (error is not None and debug):
            raise
        if error is None:
            import traceback

            traceback.print_exc()
        else:
            sys.stderr.write(f"error: {error.line(as_flag, options_known_to(arguments))}\n")
        code = 1 if error is None else error.exit_code
        if is_shared:
            sys.stderr.flush()
            os._exit(code)  # no collective can finish any more: exit at once; the launcher ends the others
        return code


def _split(arguments: Sequence[str]) -> tuple[str, list[str]]:
    name, *words = arguments or ["--help"]
    if name == "help" and words:
        return words[0], ["--help"]
    return ("--help" if name in ("-h", "help") else name), words


def _user_error(raised: BaseException) -> ElectraError | None:
    """Returns the one-line error for an exception; None if it is a bug that needs a traceback."""
    if isinstance(raised, ElectraError):
        return raised
    if (memory_error := out_of_memory(raised)) is not None:
        return memory_error
    if not isinstance(raised, OSError):
        return None
    if raised.errno == errno.ENAMETOOLONG:
        return ConfigError("the file name is too long", where=raised.filename, fix="Use a shorter one")
    from electra.foundation import durable

    if raised.filename is None and output.has_failed():
        raised.filename = durable.STDOUT
    if raised.errno in (*durable.NO_ROOM, errno.EMFILE, errno.ENFILE) or raised.filename == durable.STDOUT:
        return durable.disk_error(raised)
    return None


def as_flag(setting: str) -> str:
    """Returns a setting as a flag: training.learning_rate=1e-3 is --training.learning-rate 1e-3."""
    name, equals, value = setting.partition("=")
    return f"--{name.replace('_', '-')}{' ' * bool(equals)}{value}"


def options_known_to(arguments: Sequence[str]) -> Callable[[str], bool] | None:
    """Returns whether the command of these arguments has an option, by name; None without such a command."""
    name, files = (arguments or [""])[0], commands()
    if name not in files:
        return None
    from electra.commands.framework import parser
    from electra.commands.framework.command import options_of

    options = options_of(class_of(files[name]))
    flags = {*parser.flags_of(options), *(option.flag for option in options)}
    return lambda name: as_flag(name) in flags


def run_command(name: str, words: list[str]) -> int:
    """Runs the command `name`, or --help, --version or --print-completion; returns its exit code.

    Raises whatever the command raises.
    """
    if name == "--version":
        from electra.foundation.machine import versions

        return _print(f"electra {versions('electra')['electra']}")
    if name == "--help":
        from electra.commands.framework.help import overview

        return _print(overview(commands()))
    if name == "--print-completion":
        from electra.commands.framework.completion import script

        classes = {each: class_of(file) for each, file in commands().items()}
        return _print(script(" ".join(words), classes).removesuffix("\n"))
    return _run(name, words)


def _run(name: str, words: list[str]) -> int:
    from electra.commands.framework import renames
    from electra.foundation.extensions import trust_options, without_code_options

    name, words = renames.rename_words(name, words)
    command_files = commands()
    if name in REMOVED:
        raise ElectraError(f"electra {name} was removed", fix=REMOVED[name])
    for word in words:
        if fix := REMOVED_OPTIONS.get((name, word.partition("=")[0])):
            raise ConfigError(f"{word} was removed", fix=fix)
    if name not in command_files:
        raise ElectraError(f"unknown command {name!r}", fix=nearest(name, list(command_files)))
    command = class_of(command_files[name])
    if any(word in ("-h", "--help") for word in words):
        from electra.commands.framework.help import help_page

        trust_options(words)
        return _print(help_page(command, words))
    from electra.commands.framework import parser
    from electra.commands.framework.command import options_of
    from electra.commands.framework.display import Terminal

    if trust_options(words):
        words = without_code_options(words, parser.flags_of(options_of(command)))

    parsed, dry_run = parser.parse(command, words)
    object.__setattr__(parsed, "progress", Terminal(lines=True))
    object.__setattr__(parsed, "_command_line", (name, *words))
    if dry_run:
        parsed.preview()
        return 0
    return parsed.main()


def _print(text: str) -> int:
    sys.stdout.write(f"{text}\n")
    return 0


def _show_warning(others: Callable[..., None], message: Warning | str, *where: Any) -> None:
    """Prints a Note as a line on standard error, and other warnings as Python does."""
    if isinstance(message, Note):
        sys.stderr.write(f"note: {one_line(str(message))}\n")
    else:
        others(message, *where)
