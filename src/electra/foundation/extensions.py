"""Objectives, tasks, heads and probes by name: ours, those of installed packages, and a user's own file.

    rtd                 a file of the room that defines what its kind needs
    theirs              the entry point `theirs` of an installed package; its value is a module:
                            [project.entry-points."electra.objectives"]
                            theirs = "package.module"
    path/to/mine.py     a file; it goes by the name `mine`

Whichever it is, loading gives a module. Case, hyphens and underscores in names do not matter.

A file runs only if the user named it in this process: on the command line, in a call, or with `trust`. What a
folder or a TOML file says is data: it may hold the name of a file's code, and finds the file that was named.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.machinery import SourceFileLoader
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from electra.foundation.errors import ConfigError, ElectraError, nearest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@dataclass(frozen=True)
class Kind:
    """What can be added: its name in messages, the package of ours, what a module defines, the option."""

    name: str
    package: str
    defines: tuple[str, ...]
    option: str

    @property
    def flag(self) -> str:
        """The option that names a file on the command line, whatever the command."""
        return f"--{self.option}"

    @property
    def group(self) -> str:
        """The entry points of installed packages."""
        return f"electra.{self.name}s"

    def names(self) -> list[str]:
        """Ours and those of installed packages."""
        return sorted({name for name, _ in self._known()})

    def name_of(self, name: str) -> str:
        """The short name: of a file its stem, of the others as they spell it (`two-stage` is `two_stage`)."""
        if is_path(name):
            return Path(name).stem
        return next((known for known, _ in self._known() if folded(known) == folded(name)), name)

    def load(self, name: str) -> ModuleType:
        """The module of a name or a path; ConfigError where there is none, or two, or it cannot be used."""
        short = self.name_of(name)
        found = [(known, package) for known, package in self._known() if folded(known) == folded(short)]
        file = _trusted_file(name)
        if is_path(name) and file is None:
            raise ConfigError(
                f"code named by a folder or a TOML file is not run: {name}",
                key=self.option,
                fix=f"If you trust the file, pass {self.flag} FILE, in Python electra.trust(FILE)",
            )
        if file is not None and (is_path(name) or not found):
            if found:
                raise ConfigError(
                    f"{short!r} is the name of {_whose(found[0][1])} {self.name} already",
                    where=file,
                    fix="Rename the file",
                )
            return self._checked(_module_of_file(file, self.name), file)
        if not found:
            fix = f"{nearest(short.lower(), self.names())} A file of your own is named by {self.flag} FILE"
            raise ConfigError(f"no {self.name} named {name!r}", key=self.option, fix=fix)
        if len(found) > 1:
            whose = " and ".join(_whose(package) for _, package in found)
            raise ConfigError(
                f"two {self.name}s are named {name!r}: {whose}", key=self.option, fix="Uninstall one"
            )
        [(known, package)] = found
        if package is None:
            return importlib.import_module(f"{self.package}.{known}")
        from importlib.metadata import entry_points

        [point] = entry_points(group=self.group, name=known)
        return self._checked(_module_of_entry(point), f"{point.value} of {package}")

    def identity(self, name: str) -> dict[str, str]:
        """The file and its SHA-256, for the record of who used it; {} of ours, which have a version."""
        module = self.load(name)
        if module.__name__.startswith(f"{self.package}."):
            return {}
        path = Path(str(module.__file__))
        loader = module.__spec__ and module.__spec__.loader
        source = loader.source if isinstance(loader, _Loader) else path.read_bytes()
        return {f"{self.name}_file": path.name, f"{self.name}_sha256": hashlib.sha256(source).hexdigest()}

    def _known(self) -> list[tuple[str, str | None]]:
        """(name, None for ours or the package that brings it)."""
        from importlib.metadata import entry_points

        points = entry_points(group=self.group)
        return [(name, None) for name in _ours(self.package, self.defines)] + sorted(
            {(point.name, point.dist.name if point.dist else "a package") for point in points}
        )

    def _checked(self, module: ModuleType, where: object) -> ModuleType:
        what = " and ".join(f"`{name}`" for name in self.defines)
        for name in self.defines:
            if not hasattr(module, name):
                fix = f"The file of {_article(self.name)} defines {what}: examples/ has one"
                raise ConfigError(f"defines no `{name}`", where=where, fix=fix)
        if "Config" in self.defines and not _frozen(module.Config):
            raise ConfigError(
                "`Config` is not a frozen dataclass", where=where, fix="Write @dataclass(frozen=True) over it"
            )
        return module


OBJECTIVES = Kind("objective", "electra.objectives", ("Config", "Objective"), "objective.name")
TASKS = Kind("task", "electra.finetuning.tasks", ("TASK",), "task")
HEADS = Kind("head", "electra.finetuning.heads", ("HEAD",), "head")
PROBES = Kind("probe", "electra.laboratory.analysis.probes", ("Config", "Probe"), "probe")


KINDS = (OBJECTIVES, TASKS, HEADS, PROBES)
LEAVES = "arrays config durable errors extensions jobs machine progress seeds signals visible"
TASK_PARTS = "task text_task text_class text_label_set text_vectors word_tags answer_spans losses"
MOVED = {  # modules of the last release that files of users may import
    **{name: f"foundation.{name}" for name in LEAVES.split()},
    **{name: f"laboratory.{name}" for name in ("analysis", "ablation", "evaluation")},
    "interop": "exchange (detection, embedding, filling and examples: electra.inference)",
    "labelled": "finetuning.labelled",
    "report": "pages",
    "trackers": "exchange.trackers",
    **{f"finetuning.{name}": f"finetuning.tasks.parts.{name}" for name in TASK_PARTS.split()},
    "finetuning.features": "finetuning.windows.features",
    "finetuning.metrics": "finetuning.metrics.scores",
}
TRUSTED = "ELECTRA_CODE"  # in the environment, so that processes started from this one know the files, too


def is_path(name: str) -> bool:
    """Whether a name is that of a file."""
    return name.endswith(".py") or "/" in name


def trust(*names: object) -> None:
    """Let the code in these files of your own run, as an objective, a task, a head or a probe.

    Needed for folders that were made with such a file, before they are opened: a folder holds the code's name
    and never what runs. Names that are not paths are ignored.
    """
    known = _trusted()
    given = [Path(name).expanduser().resolve() for name in map(str, names) if is_path(name)]
    os.environ[TRUSTED] = os.pathsep.join(map(str, dict.fromkeys([*given, *known])))


def trust_named(argv: Sequence[str]) -> bool:
    """Trust the files that options of a command line name, such as --task mine.py; whether there are any."""
    flags = {kind.flag for kind in KINDS}
    pairs = [(word.partition("=")[0], word.partition("=")[2]) for word in argv if "=" in word]
    named = [value for flag, value in [*pairs, *pairwise(argv)] if flag in flags and is_path(value)]
    trust(*named)
    return bool(named)


def without_named(argv: Sequence[str], own: Container[str]) -> list[str]:
    """A command line without the options that name code for the folders it opens; `own` are the command's."""
    flags = {kind.flag for kind in KINDS if kind.flag not in own}
    words, rest = [], iter(argv)
    for word in rest:
        flag, equals, value = word.partition("=")
        if flag not in flags:
            words.append(word)
        elif not is_path(value if equals else next(rest, "")):
            raise ConfigError(f"{flag} needs the path of a .py file here")
    return words


def _trusted() -> list[Path]:
    return [Path(name) for name in os.environ.get(TRUSTED, "").split(os.pathsep) if name]


def _trusted_file(name: str) -> Path | None:
    """The trusted file that a name or a path means: this very file, else one of the same stem."""
    known = _trusted()
    if is_path(name) and (path := Path(name).expanduser().resolve()) in known:
        return path
    return next((file for file in known if folded(file.stem) == folded(Path(name).stem)), None)


def beside(name: str, file: Path) -> str:
    """A name as a TOML file gives it: a path counts from the file's folder, if it leads somewhere there."""
    path = file.parent / name
    return str(path.resolve()) if is_path(name) and path.is_file() else name


@cache
def _ours(package: str, defines: tuple[str, ...]) -> list[str]:
    """The files of a room that define, at the top level, all that their kind needs. Read, not imported."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations is not None
    [folder] = spec.submodule_search_locations
    files = sorted(path for path in Path(folder).glob("*.py") if path.stem != "__init__")
    return [path.stem for path in files if set(defines) <= _defined(path)]


def _defined(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


class _Loader(SourceFileLoader):
    """Runs the bytes that were read, and that the digest is of; leaves no compiled file beside the user's."""

    def __init__(self, name: str, path: str, source: bytes) -> None:
        super().__init__(name, path)
        self.source = source

    def get_code(self, fullname: str) -> object:  # type: ignore[override]
        return self.source_to_code(self.source, self.path)


def _module_of_file(path: Path, kind: str) -> ModuleType:
    """The module of a file as it is now. A file that has changed since it was loaded is another module."""
    try:
        source = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"no such file of {_article(kind)}", where=path) from None
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror})", where=path) from None
    digest = hashlib.sha256(str(path.resolve()).encode() + b"\0" + source).hexdigest()
    name = f"electra_{kind}_{path.stem}_{digest[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_loader(name, _Loader(name, str(path.resolve()), source))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their annotations up there
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        raise _told(error, path, path) from None
    return module


def _module_of_entry(point: EntryPoint) -> ModuleType:
    try:
        module = point.load()
    except BaseException as error:
        raise _told(error, f"{point.value} (entry point {point.name!r})", None) from None
    if not isinstance(module, ModuleType):
        raise ConfigError("not a module", where=point.value, fix=f"{point.group} = a module, without a colon")
    return module


def _told(error: BaseException, where: object, file: Path | None) -> BaseException:
    """One line on why a module cannot be imported, with the line of the file."""
    if isinstance(error, ElectraError | KeyboardInterrupt):
        return error
    if isinstance(error, SyntaxError):
        at = where if error.lineno is None else f"{error.filename}:{error.lineno}"
        return ConfigError(f"not valid Python: {error.msg}", where=at)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if file is not None and frame.filename == str(file.resolve())]
    at = f"{where}:{lines[-1]}" if lines else where
    missing = re.search(r"'electra\.([\w.]+)'|name '(\w+)' from 'electra'", str(error))
    name = (missing[1] or missing[2]) if missing else ""
    name = name if name in MOVED else name.partition(".")[0]
    fix = f"electra.{name} is electra.{MOVED[name]} now" if name in MOVED else ""
    return ConfigError(f"cannot be imported: {type(error).__name__}: {error}", where=at, fix=fix)


def _frozen(config: Any) -> bool:
    return dataclasses.is_dataclass(config) and config.__dataclass_params__.frozen  # type: ignore


def _whose(package: str | None) -> str:
    return "electra's" if package is None else f"{package}'s"


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def folded(name: str) -> str:
    """A name as it is compared: case, hyphens and underscores do not matter."""
    return name.lower().replace("-", "").replace("_", "")
