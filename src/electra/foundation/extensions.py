"""Finds objectives, tasks, heads and probes by name.

Each is built in, comes from an installed package, or is a file of the user's:

    rtd                 a module of the built-in package
    span_rtd            the entry point `span_rtd` of an installed package; its value is a module:
                            [project.entry-points."electra.objectives"]
                            span_rtd = "package.module"
    path/to/mine.py     a file, with the name `mine`

Loading returns a module in each case. Names ignore case, hyphens and underscores.

A file runs only if the user named it: on the command line, in a call, or with `trust`. Child processes trust
the same files. Folders and TOML files are data: code that they name is loaded only if the user has also named
the file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import importlib.util
import os
import sys
import tomllib
import traceback
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.machinery import SourceFileLoader
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from electra.foundation.errors import ConfigError, ElectraError, nearest
from electra.foundation.terminal_text import with_article

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@dataclass(frozen=True)
class Kind:
    """A kind of extension, such as objectives.

    Attributes:
        name: a singular noun, for messages, the entry-point group and the keys of records.
        package: the package whose modules are the built-in extensions of this kind.
        defines: the names that a module must define.
        option: the option that selects an extension.
    """

    name: str
    package: str
    defines: tuple[str, ...]
    option: str

    @property
    def flag(self) -> str:
        """The command-line flag that selects an extension, the same in every command."""
        return f"--{self.option}"

    @property
    def group(self) -> str:
        """The entry-point group for installed packages."""
        return f"electra.{self.name}s"

    def names(self) -> list[str]:
        """Returns the sorted names of all extensions of this kind, built in or from installed packages."""
        return sorted({name for name, _ in self._registered()})

    def canonical_name(self, name: str) -> str:
        """Returns the stem of a path; otherwise the registered spelling (`two_stage`), if there is one."""
        if is_path(name):
            return Path(name).stem
        return next((other for other, _ in self._registered() if fold_name(other) == fold_name(name)), name)

    def load(self, name: str) -> ModuleType:
        """Returns the module of a name or a path.

        Raises:
            ConfigError: there is none, or more than one; the file is not trusted, cannot be imported, or
                lacks what its kind must define.
        """
        canonical = self.canonical_name(name)
        matches = [
            (other, package)
            for other, package in self._registered()
            if fold_name(other) == fold_name(canonical)
        ]
        file = _trusted_file(name)
        if is_path(name) and file is None:
            raise ConfigError(
                f"code named by a folder or a TOML file is not run: {name}",
                key=self.option,
                fix=f"If you trust the file, pass {self.flag} FILE or, in Python, call electra.trust(FILE)",
            )
        if file is not None and (is_path(name) or not matches):
            if matches:
                raise ConfigError(
                    f"{_owner(matches[0][1])} already has {with_article(self.name)} named {canonical!r}",
                    where=file,
                    fix="Rename the file",
                )
            return self._validated(_module_of_file(file, self.name), file)
        if not matches:
            fix = f"{nearest(canonical.lower(), self.names())} For a file of your own, pass {self.flag} FILE"
            raise ConfigError(f"no {self.name} named {name!r}", key=self.option, fix=fix)
        if len(matches) > 1:
            owners = " and ".join(_owner(package) for _, package in matches)
            raise ConfigError(
                f"several {self.name}s are named {name!r}, in {owners}", key=self.option, fix="Uninstall one"
            )
        [(registered, package)] = matches
        if package is None and registered in _presets(self.package):
            preset: ModuleType = importlib.import_module(self.package).preset(registered)
            return preset
        if package is None:
            return importlib.import_module(f"{self.package}.{registered}")
        [point] = [point for point in _entry_points(self.group) if point.name == registered]
        return self._validated(_module_of_entry(point), f"{point.value} of {package}")

    def load_as(self, name: str, attribute: str, base: type, fix: str = "") -> ModuleType:
        """Returns the module of a name or a path, after a check of what it defines.

        Args:
            name: the name or the path.
            attribute: one of `defines`. In capitals (`TASK`) it must be an instance of `base`, otherwise
                (`Objective`) a subclass.
            base: electra's class.
            fix: advice if it is neither.

        Raises:
            ConfigError: as `load` does, or the attribute is something else.
        """
        module = self.load(name)
        value = getattr(module, attribute)
        if attribute.isupper():
            fits, problem = isinstance(value, base), f"`{attribute}` is not an electra {base.__name__}"
        else:
            fits = isinstance(value, type) and issubclass(value, base)
            problem = f"`{attribute}` does not subclass electra's {base.__name__}"
        if not fits:
            raise ConfigError(problem, where=module.__file__, fix=fix)
        return module

    def identity(self, name: str) -> dict[str, str]:
        """Returns the file name and SHA-256 of the code, for records; {} for a built-in extension.

        Raises ConfigError as `load` does.
        """
        module = self.load(name)
        if module.__name__.startswith(f"{self.package}."):
            return {}
        path = Path(str(module.__file__))
        loader = module.__spec__ and module.__spec__.loader
        source = loader.source if isinstance(loader, _Loader) else path.read_bytes()
        return {f"{self.name}_file": path.name, f"{self.name}_sha256": hashlib.sha256(source).hexdigest()}

    def _registered(self) -> list[tuple[str, str | None]]:
        """Returns (name, package) pairs; the package of a built-in extension is None."""
        points = _entry_points(self.group)
        return [(name, None) for name in _built_in(self.package)] + sorted(
            {(point.name, point.dist.name if point.dist else "a package") for point in points}
        )

    def _validated(self, module: ModuleType, where: object) -> ModuleType:
        required = " and ".join(f"`{name}`" for name in self.defines)
        for name in self.defines:
            if not hasattr(module, name):
                fix = f"{with_article(self.name).capitalize()} module must define {required}; see examples/"
                raise ConfigError(f"defines no `{name}`", where=where, fix=fix)
        if "Config" in self.defines and not _frozen(module.Config):
            raise ConfigError(
                "`Config` is not a frozen dataclass", where=where, fix="Put @dataclass(frozen=True) above it"
            )
        return module


OBJECTIVES = Kind("objective", "electra.objectives", ("Config", "Objective"), "objective.name")
TASKS = Kind("task", "electra.finetuning.tasks", ("TASK",), "task")
HEADS = Kind("head", "electra.finetuning.heads", ("HEAD",), "head")
PROBES = Kind("probe", "electra.laboratory.analysis.probes", ("Config", "Probe"), "probe")


def _entry_points(group: str) -> Sequence[EntryPoint]:
    """Returns the entry points of a group. They are read again once a folder in sys.path has changed."""
    folders = [Path(folder or ".") for folder in sys.path]
    return _read_entry_points(*((str(f), f.stat().st_mtime_ns if f.exists() else 0) for f in folders))[group]


@lru_cache(maxsize=1)
def _read_entry_points(*_: tuple[str, int]) -> dict[str, tuple[EntryPoint, ...]]:
    from importlib.metadata import entry_points

    points = entry_points()
    return {kind.group: tuple(points.select(group=kind.group)) for kind in KINDS}


KINDS = (OBJECTIVES, TASKS, HEADS, PROBES)
TRUSTED_VARIABLE = "ELECTRA_CODE"
"""The environment variable with the trusted files, separated as in PATH; child processes inherit it."""


def is_path(name: str) -> bool:
    """Whether a name is written as a path: it contains a slash or ends in .py."""
    return name.endswith(".py") or "/" in name


def trust(*names: object) -> None:
    """Allows the code in your own files to run as an objective, task, head or probe.

    Call it before you open a folder that was made with such a file: the folder records only the name of
    the code. Names that are not paths are ignored.
    """
    files = [Path(name).expanduser().resolve() for name in map(str, names) if is_path(name)]
    os.environ[TRUSTED_VARIABLE] = os.pathsep.join(map(str, dict.fromkeys([*files, *_trusted()])))


def trust_options(argv: Sequence[str]) -> bool:
    """Trusts the files that the options name, such as --task mine.py. Returns whether there are any."""
    flags = {kind.flag for kind in KINDS}
    pairs = [(word.partition("=")[0], word.partition("=")[2]) for word in argv if "=" in word]
    files = [value for flag, value in [*pairs, *pairwise(argv)] if flag in flags and is_path(value)]
    trust(*files)
    return bool(files)


def without_code_options(argv: Sequence[str], command_flags: Container[str]) -> list[str]:
    """Returns a command line without the options that only name trusted code, such as --task mine.py.

    The flags in `command_flags`, which the command itself reads, stay.

    Raises:
        ConfigError: the value of a removed option is not a path.
    """
    flags = {kind.flag for kind in KINDS if kind.flag not in command_flags}
    words, rest = [], iter(argv)
    for word in rest:
        flag, equals, value = word.partition("=")
        if flag not in flags:
            words.append(word)
        elif not is_path(value if equals else next(rest, "")):
            raise ConfigError(f"{flag} expects the path of a .py file here")
    return words


def _trusted() -> list[Path]:
    return [Path(name) for name in os.environ.get(TRUSTED_VARIABLE, "").split(os.pathsep) if name]


def _trusted_file(name: str) -> Path | None:
    """Returns the trusted file with this path, or else with this stem; None if there is none."""
    files = _trusted()
    if is_path(name) and (path := Path(name).expanduser().resolve()) in files:
        return path
    return next((file for file in files if fold_name(file.stem) == fold_name(Path(name).stem)), None)


def resolve_beside(name: str, file: Path) -> str:
    """Resolves a name in a TOML file: a path that exists relative to the file's folder becomes absolute.

    Any other name is returned unchanged.
    """
    path = file.parent / name
    return str(path.resolve()) if is_path(name) and path.is_file() else name


@cache
def _built_in(package: str) -> list[str]:
    """Lists the modules of a package without importing them: each one is an extension."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations is not None
    [folder] = spec.submodule_search_locations
    modules = {path.stem for path in Path(folder).glob("*.py")} - {"__init__"}
    return sorted(modules.union(_presets(package)))


@cache
def _presets(package: str) -> frozenset[str]:
    """Returns the names in a package's presets.toml, which its function `preset` makes modules of."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None
    table = Path(spec.origin).with_name("presets.toml")
    return frozenset(tomllib.loads(table.read_text(encoding="utf-8"))) if table.exists() else frozenset()


class _Loader(SourceFileLoader):
    """Runs exactly the bytes that were hashed, and writes no compiled file next to the source."""

    def __init__(self, name: str, path: str, source: bytes) -> None:
        super().__init__(name, path)
        self.source = source

    def get_code(self, fullname: str) -> object:  # type: ignore[override]
        return self.source_to_code(self.source, self.path)


def _module_of_file(path: Path, kind: str) -> ModuleType:
    """Imports a file. A file that changed since it was last loaded becomes a new module."""
    try:
        source = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"no such {kind} file", where=path) from None
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror})", where=path) from None
    digest = hashlib.sha256(str(path.resolve()).encode() + b"\0" + source).hexdigest()
    name = f"electra_{kind}_{path.stem}_{digest[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_loader(name, _Loader(name, str(path.resolve()), source))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look up their annotations
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        raise _import_error(error, path, path) from None
    return module


def _module_of_entry(point: EntryPoint) -> ModuleType:
    try:
        module = point.load()
    except BaseException as error:
        raise _import_error(error, f"{point.value} (entry point {point.name!r})", None) from None
    if not isinstance(module, ModuleType):
        fix = "The entry point must name a module (package.module), not an object in it"
        raise ConfigError("not a module", where=point.value, fix=fix)
    return module


def _import_error(error: BaseException, where: object, file: Path | None) -> BaseException:
    """Returns a ConfigError for a failed import, with the line number if the failure was in `file`.

    An ElectraError or KeyboardInterrupt is returned unchanged.
    """
    if isinstance(error, ElectraError | KeyboardInterrupt):
        return error
    if isinstance(error, SyntaxError):
        location = where if error.lineno is None else f"{error.filename}:{error.lineno}"
        return ConfigError(f"not valid Python: {error.msg}", where=location)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if file is not None and frame.filename == str(file.resolve())]
    location = f"{where}:{lines[-1]}" if lines else where
    return ConfigError(f"cannot be imported: {type(error).__name__}: {error}", where=location)


def _frozen(config: Any) -> bool:
    return dataclasses.is_dataclass(config) and config.__dataclass_params__.frozen  # type: ignore


def _owner(package: str | None) -> str:
    return "electra" if package is None else package


def fold_name(name: str) -> str:
    """Returns a name in lower case, without hyphens and underscores, for comparison."""
    return name.lower().replace("-", "").replace("_", "")
