"""Options of commands whose work several processes share: --engine, --copies, --missing."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from electra.commands.framework.command import Command
from electra.foundation.config import check_at_least
from electra.foundation.errors import ConfigError, RunFailed
from electra.foundation.extensions import ENGINES, trust
from electra.foundation.progress import Say
from electra.foundation.signals import Stop

LOCAL = "local"
ENGINE_OPTIONS = ("--engine", "--copies", "--engine-options")  # options that are not passed on to the copies


@dataclass(frozen=True, kw_only=True)
class Copies:
    """Work that several machines share."""

    HEADING: ClassVar[str] = "Several machines"

    engine: str = LOCAL
    """How to run the work: local (in this process), slurm or ray (copies of the command on a cluster), or the
    path of a .py file. Each copy takes work that is neither done nor in progress; with local, you can start
    copies yourself by running the same command on other machines that share OUT.
    """
    copies: int = 2
    """Number of copies that the engine starts."""
    engine_options: str = ""
    """Options for the engine: those of sbatch, such as "--partition=gpu --time=4:00:00"; for ray, what each
    copy needs, such as "num_cpus=4 num_gpus=1".
    """
    missing: bool = False
    """Print the unfinished work and, for each part in progress, the process working on it. Starts nothing."""

    def run_copies(self, folder: Path, say: Say, stop: Stop, left: Callable[[], Sequence[str]]) -> None:
        """Makes the engine run copies of this command until they end; does nothing if the engine is local.

        `left` returns what is not done, one string for each piece of work.

        Raises:
            ConfigError: there is no such engine, it cannot be used here, or the command was called in Python.
            RunFailed: the copies have ended, but some work is not done.
            Interrupted: a stop was requested.
        """
        if self.missing:
            fix = "Use the command line, or look at the folder"
            raise ConfigError("works on the command line only", key="missing", fix=fix)
        if self.engine == LOCAL:
            return
        check_at_least(self, {"copies": 1})
        trust(self.engine)
        engine = ENGINES.load(self.engine)
        words = self.command_line if isinstance(self, Command) else ()
        if not words:
            fix = "Use the command line, or call the function on each machine"
            raise ConfigError("works on the command line only", key="engine", fix=fix)
        command = [sys.executable, "-m", "electra", *without(words, ENGINE_OPTIONS)]
        engine.run(
            command, self.copies, folder=folder, options=shlex.split(self.engine_options), say=say, stop=stop
        )

        if undone := left():
            more = ", ..." if len(undone) > 1 else ""
            count = "1 piece of work is" if len(undone) == 1 else f"{len(undone)} pieces of work are"
            problem = f"the copies have ended, but {count} not done ({undone[0]}{more})"
            raise RunFailed(problem, where=folder, fix="Check their output, then rerun the command")


def print_missing(left: Sequence[str]) -> int:
    """Prints what is left to do, one piece of work per line. Returns the exit code."""
    sys.stdout.writelines(f"{line}\n" for line in left)
    return 0


def without(words: Sequence[str], options: Sequence[str]) -> list[str]:
    """Returns a command line without some options and their values."""
    remaining_words: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in options:
            next(rest, None)
        elif word.partition("=")[0] not in options:
            remaining_words.append(word)
    return remaining_words
