"""Errors that a user can fix, each printed as one line: what is wrong, where, and what to do."""

import re
import resource
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from electra.foundation.terminal_text import one_line, when

_SETTING = re.compile(r"`([a-z_]+(?:\.[a-z_]+)*(?:=[^`]*)?)`")


class ElectraError(Exception):
    """A problem the user can fix. The command line prints it as one line and exits with `exit_code`.

    It says `what` is wrong, `where` (the file, line or field), in which setting (`key`, such as
    "training.steps" or "out"), and what to do about it (`fix`).

    A setting that `what` or `fix` mentions is in backquotes, with or without a value, and spelled by `line`
    as the user types it: "Lower `training.learning_rate`, or use `training.precision=fp32`".
    """

    exit_code = 2

    def __init__(self, what: str, *, where: object = "", key: str = "", fix: str = "") -> None:
        self.what, self.where, self.key, self.fix = what, str(where), key, fix
        super().__init__(what)

    def line(self, spell: Callable[[str], str] | None = None) -> str:
        """Returns the error as one line; `spell` spells a setting (None: as in Python)."""
        key = spell(self.key) if spell and self.key else self.key
        text = ": ".join(part for part in (self.where, key, self.what) if part)
        text = f"{text}. {self.fix}" if self.fix else text
        if spell is not None:
            text = _SETTING.sub(lambda match: spell(match[1]), text)
        return one_line(text)

    def __str__(self) -> str:
        return self.line()


class ConfigError(ElectraError):
    """An invalid option or recipe file."""


class CorpusError(ElectraError):
    """Text that cannot be read in the given format."""


class TokenizerError(ElectraError):
    """A tokenizer that cannot be trained, loaded or used."""


class StoreError(ElectraError):
    """A token store that is missing, damaged or not the expected one."""


class RunFolderError(ElectraError):
    """A run folder in which no run can start or continue, or which cannot be written to."""


class CheckpointError(ElectraError):
    """A checkpoint that is damaged, incomplete or from another run."""


class ModelError(ElectraError):
    """A model folder that cannot be loaded, or that lacks what the command needs."""


class AbsentNetwork(ModelError):
    """An intact model folder that does not contain the requested network."""


class DataError(ElectraError):
    """Labelled data that is missing or cannot be read."""


class NoWords(DataError):
    """A file of texts without any, such as a blank page."""


class DiskError(ElectraError):
    """A write that failed."""


class FullDisk(DiskError):
    """No space or quota left. The same command resumes once there is room.

    The exit code is EX_IOERR of sysexits.h.
    """

    exit_code = 74


class RunFailed(ElectraError):
    """A run that failed although its settings are valid, for example because the loss is not finite."""

    exit_code = 1


_NO_MEMORY = re.compile(
    r"out of memory|allocate (?:\d+ )?(?:bytes|memory)|could not create a primitive|bad_alloc"
    r"|failed to map segment|Unable to allocate|can't start new thread",
    re.IGNORECASE,
)


def out_of_memory(error: BaseException) -> RunFailed | None:
    """Returns the error to show if `error` or one of its causes means that memory ran out, else None."""
    cause: BaseException | None = error
    while cause is not None:
        is_theirs = isinstance(cause, RuntimeError | ImportError | OSError)
        if isinstance(cause, MemoryError) or (is_theirs and _NO_MEMORY.search(str(cause))):
            limit, _ = resource.getrlimit(resource.RLIMIT_AS)
            limited = f" (the limit is {limit >> 20:,} MiB: ulimit -v)"
            problem = "memory ran out" + when(limit != resource.RLIM_INFINITY, limited)
            fix = "Lower `batch_size`, `length`, `workers` or `threads`, or use a smaller model"
            return RunFailed(problem, fix=fix)
        cause = cause.__cause__ or cause.__context__
    return None


class LostProcess(RunFailed):
    """Another process of the run has ended or does not respond; its own error states the cause."""


class Note(UserWarning):
    """A warning that does not stop the work; the command line prints it as a note."""


class UnknownTokens(Note):
    """Many tokens of a text are unknown to the tokenizer."""


class DamagedModel(Note):
    """Part of a model differs from what was saved; the model is used anyway."""


class Interrupted(KeyboardInterrupt):
    """Work that stopped on request.

    If `saved`, its state is on disk and the same call resumes it; otherwise nothing is left behind. It is a
    KeyboardInterrupt, so that a notebook stops at the cell; the command line exits with `exit_code`.
    """

    def __init__(self, where: object, exit_code: int = 130, *, saved: bool = True) -> None:
        self.where, self.exit_code, self.saved = str(where), exit_code, saved
        super().__init__(self.where, exit_code)  # the arguments with which pickle rebuilds it

    def __str__(self) -> str:
        return f"{self.where}: " + ("stopped; rerun to resume" if self.saved else "interrupted")


def reason_of(error: BaseException) -> str:
    """Returns the operating system's or the first line of an error's message, else the name of its type."""
    lines = str(getattr(error, "strerror", None) or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


@contextmanager
def translated(error: type[Exception], what: str, kinds: Any = Exception, **location: Any) -> Iterator[None]:
    """Turns errors of `kinds` (a class or several) in the block, but our own, into `error`: `what` (reason).

    Libraries raise dozens of classes for a stranger's file. `location` has the error's `where`, `key`, `fix`.
    """
    try:
        yield
    except (ElectraError, error):
        raise
    except kinds as problem:
        raise error(f"{what} ({reason_of(problem)})", **location) from None


def nearest(name: str, known: list[str], cutoff: float = 0.6) -> str:
    """Returns "Did you mean ...?" for a mistyped name, or the list of known names if none is similar."""
    from difflib import get_close_matches

    match = get_close_matches(name, known, n=1, cutoff=cutoff)
    return f"Did you mean {match[0]!r}?" if match else f"Known: {', '.join(sorted(known))}."


def unknown_choice(name: object, known: Collection[object]) -> tuple[str, str]:
    """Returns the problem, with the known names, and a suggestion ("" if none is similar)."""
    suggestion = nearest(str(name), list(map(str, known)), 0.7)  # lower: cpu would be suggested for gpu
    problem = f"{name!r} is not one of {', '.join(map(repr, known))}"
    return problem, "" if suggestion.startswith("Known") else suggestion
