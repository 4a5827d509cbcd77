"""What a user sees when something they gave us is wrong: one line saying what, where, and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from electra.foundation.visible import one_line

_SETTING = re.compile(r"`([a-z_]+(?:\.[a-z_]+)*(?:=[^`]*)?)`")


class ElectraError(Exception):
    """A problem the user can fix. The command line prints it as one line and exits with `exit_code`.

    what:  what is wrong, in plain words.
    where: the file, line or field it was found at.
    key:   or the setting: "training.steps", "out".
    fix:   what to do about it.

    A setting that `what` or `fix` mentions stands in backquotes, with or without a value:
    "Lower `training.learning_rate`, or use `training.precision=fp32`". Whoever knows how the user gives
    settings spells them (`line`).
    """

    exit_code = 2

    def __init__(self, what: str, *, where: object = "", key: str = "", fix: str = "") -> None:
        self.what, self.where, self.key, self.fix = what, str(where), key, fix
        super().__init__(what)

    def line(self, spell: Callable[[str], str] | None = None) -> str:
        """The error as one line, each setting spelled by `spell` (None: as it stands in Python)."""
        key = spell(self.key) if spell and self.key else self.key
        text = ": ".join(part for part in (self.where, key, self.what) if part)
        text = f"{text}. {self.fix}" if self.fix else text
        if spell is not None:
            text = _SETTING.sub(lambda match: spell(match[1]), text)
        return one_line(text)

    def __str__(self) -> str:
        return self.line()

    def to_json(self) -> dict[str, str]:
        """For another process, which makes the error again with `from_json`."""
        return {
            "kind": type(self).__name__,
            **{name: getattr(self, name) for name in ("what", "where", "key", "fix")},
        }


def from_json(told: Mapping[str, str]) -> ElectraError:
    """The error that `to_json` described."""
    kinds: dict[str, type[ElectraError]] = {kind.__name__: kind for kind in _below(ElectraError)}
    kind = kinds.get(told["kind"], ElectraError)
    return kind(told["what"], where=told["where"], key=told["key"], fix=told["fix"])


def _below(kind: type[ElectraError]) -> Iterator[type[ElectraError]]:
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _below(subclass)


class ConfigError(ElectraError):
    """An option or a recipe file is wrong."""


class CorpusError(ElectraError):
    """Text that cannot be read as the user says it should be."""


class TokenizerError(ElectraError):
    """A tokenizer that cannot be trained, loaded or used here."""


class StoreError(ElectraError):
    """A token store that is missing, damaged or not the one expected."""


class RunFolderError(ElectraError):
    """A run folder that cannot be started in, continued or written."""


class CheckpointError(ElectraError):
    """A checkpoint that is damaged, incomplete or foreign."""


class ModelError(ElectraError):
    """A model folder that cannot be loaded, or does not have what is asked of it."""


class AbsentNetwork(ModelError):
    """A sound model that does not contain the network asked for."""


class DataError(ElectraError):
    """Labelled data that is missing, or cannot be read as it should be."""


class DiskError(ElectraError):
    """A write that failed."""


class FullDisk(DiskError):
    """No space or quota left: nothing is wrong with the command, and it continues once there is room
    (EX_IOERR of sysexits.h).
    """

    exit_code = 74


class RunFailed(ElectraError):
    """The run itself went wrong (a loss that is not finite, a collapse told to stop)."""

    exit_code = 1


_NO_MEMORY = re.compile(
    r"out of memory|allocate (?:\d+ )?(?:bytes|memory)|could not create a primitive|bad_alloc"
    r"|failed to map segment|Unable to allocate|can't start new thread",
    re.IGNORECASE,
)


def out_of_memory(error: BaseException) -> RunFailed | None:
    """The error in one line, where memory ran out: libraries say that in many ways, of many kinds."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or (
            isinstance(cause, RuntimeError | ImportError | OSError) and _NO_MEMORY.search(str(cause))
        ):
            fix = (
                "Lower `batch_size` or `length`, use a smaller model, or fewer `workers`, `jobs` or `threads`"
            )
            return RunFailed(f"memory ran out{_limit()}", fix=fix)
        cause = cause.__cause__ or cause.__context__
    return None


def _limit() -> str:
    """The limit that this process was given, if any (ulimit -v)."""
    try:
        import resource
    except ImportError:
        return ""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return "" if limit == resource.RLIM_INFINITY else f" (the limit is {limit >> 20:,} MiB: ulimit -v)"


class LostProcess(RunFailed):
    """Another process of the run is gone or silent: a consequence, whose cause is what happened there."""


class Note(UserWarning):
    """Something that the user should know, though the work goes on. The command line prints it as a note."""


class Damaged(Note):
    """Part of a model is not what was saved, and it is used all the same."""


class Interrupted(KeyboardInterrupt):
    """Work that was asked to stop. It has saved what it had, and the same call resumes it; or, where not
    `saved`, it leaves nothing behind.

    A KeyboardInterrupt, so that a notebook stops at the cell; the command line exits with `exit_code`.
    """

    def __init__(self, where: object, exit_code: int = 130, *, saved: bool = True) -> None:
        self.where, self.exit_code, self.saved = str(where), exit_code, saved
        super().__init__(self.where, exit_code)  # what another process makes it again with

    def __str__(self) -> str:
        return f"{self.where}: " + ("stopped; rerun to resume" if self.saved else "interrupted")


def nearest(name: str, known: list[str]) -> str:
    """'Did you mean ...?' for a mistyped name, or the list of known names when nothing is near."""
    return _meant(name, known, 0.6) or f"Known: {', '.join(sorted(known))}."


def one_of(name: object, known: Iterable[object]) -> tuple[str, str]:
    """What is wrong with a name that is none of a few, which are listed, and what was probably meant."""
    names = [str(each) for each in known]
    listed = ", ".join(repr(each) for each in known)
    return f"{name!r} is not one of {listed}", _meant(str(name), names, 0.7)  # gpu is no mistyped cpu


def _meant(name: str, known: list[str], cutoff: float) -> str:
    from difflib import get_close_matches

    match = get_close_matches(name, known, n=1, cutoff=cutoff)
    return f"Did you mean {match[0]!r}?" if match else ""
