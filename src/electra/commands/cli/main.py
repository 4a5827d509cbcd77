"""The command line: finds the verb, runs it, and turns what goes wrong into one line and an exit code.

Exit codes: 0 done, 1 failed, 2 the user's input is wrong, 74 the disk is full, 130 Ctrl-C, 143 SIGTERM.
"""

from __future__ import annotations

import ast
import errno
import importlib
import importlib.util
import os
import pkgutil
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from electra.commands import cli
from electra.commands.cli import output
from electra.foundation import durable
from electra.foundation.errors import ConfigError, ElectraError, Interrupted, Note, nearest, out_of_memory
from electra.foundation.extensions import trust_named, without_named
from electra.foundation.machine import versions
from electra.foundation.visible import one_line

ORDER = [
    "plan",
    "prepare",
    "pretrain",
    "log",
    "extend",
    "detect",
    "embed",
    "show",
    "report",
    "finetune",
    "predict",
    "evaluate",
    "analyze",
    "ablate",
]
REMOVED = {
    "prompt": "Prompting is now a task: electra finetune MODEL --task and --head examples/prompting.py",
    "watch": "Use electra report RUN --follow, or electra log RUN --to TRACKER --follow",
}
HELPERS = {"main", "arguments", "recipe_flags", "completion", "output"}


def verbs() -> dict[str, str]:
    """Each verb and its module: every file of this folder but the helpers (`import_.py` is `import`)."""
    stems = [module.name for module in pkgutil.iter_modules(cli.__path__) if module.name not in HELPERS]
    stems.sort(key=lambda stem: (ORDER.index(stem) if stem in ORDER else len(ORDER), stem))
    return {stem.rstrip("_"): f"electra.commands.cli.{stem}" for stem in stems}


def overview() -> str:
    lines = [
        "Train text encoders by replaced token detection, from your own text, on the hardware you have.",
        "",
        "usage: electra COMMAND [options]",
        "",
    ]
    for verb, module in verbs().items():
        lines.append(f"  {verb:<10}{_first_line(module)}")
    lines += ["", "electra COMMAND --help lists its options. --version and --debug (tracebacks) go anywhere."]
    lines += [
        "Code of your own is named by --objective.name FILE, --task FILE or --probe FILE, with any command"
    ]
    lines += ["that opens a folder made with it."]
    lines += ["electra --print-completion bash (zsh, fish) prints what makes the shell complete all of this."]
    return "\n".join(lines)


def _first_line(module: str) -> str:
    """What a verb says of itself, read rather than imported: the overview must answer at once."""
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None
    return (ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or "").splitlines()[0]


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
            version = f"electra {versions('electra')['electra']}"
            sys.stdout.write((version if arguments[0] == "--version" else overview()) + "\n")
            sys.stdout.flush()
            return 0
        if arguments[0] == "--print-completion":
            from electra.commands.cli.completion import script

            sys.stdout.write(script(" ".join(arguments[1:]), verbs()))
            return 0
        code = run_verb(arguments[0], arguments[1:])
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


def run_verb(verb: str, arguments: list[str]) -> int:
    known = verbs()
    if verb not in known:
        raise ElectraError(f"unknown command {verb!r}", fix=REMOVED.get(verb) or nearest(verb, list(known)))
    module: ModuleType = importlib.import_module(known[verb])
    parse = getattr(module, "parse", None)  # a verb whose options depend on others parses for itself
    if trust_named(arguments):
        from electra.commands.cli.arguments import choices

        arguments = without_named(
            arguments, {*choices(module.Arguments), *(["--objective.name"] if parse else [])}
        )
    if parse is None:
        from electra.commands.cli.arguments import parse as parse_dataclass

        parsed = parse_dataclass(
            module.Arguments,
            arguments,
            verb=verb,
            description=module.__doc__ or "",
            aliases=getattr(module, "ALIASES", {}),
        )
    else:
        parsed = parse(arguments)
    with warnings.catch_warnings():
        warnings.showwarning = partial(_show, warnings.showwarning)
        warnings.simplefilter("always", Note)
        code: int = module.run(parsed)
    return code


def _show(others: Callable[..., None], message: Warning | str, *where: Any) -> None:
    """Print a warning of ours as a note, those of others as Python does."""
    if isinstance(message, Note):
        sys.stderr.write(f"note: {one_line(str(message))}\n")
    else:
        others(message, *where)
