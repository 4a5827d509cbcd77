"""Finds objectives, tasks, heads and probes by name.

    rtd                 a module of the built-in package
    path/to/mine.py     a file, with the name `mine`

Names ignore case, hyphens and underscores. A file runs only if the user named it: on the command line, in a
call, or with `trust`. Folders and TOML files are data: the user must also name the code that they name.
"""

import dataclasses
import hashlib
import importlib.util
import sys
import tomllib
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from electra.foundation.errors import ConfigError, ElectraError, nearest, out_of_memory
from electra.foundation.terminal_text import when, with_article

PACKAGE = Path(__file__).parents[1]
trusted: list[Path] = []  # files that may run, the last named first


@dataclass(frozen=True)
class Kind:
    """A kind of extension, such as objectives."""

    name: str  # a singular noun, for messages and the keys of records
    package: str  # the package whose modules are the built-in extensions of this kind
    defines: tuple[str, ...]  # the names that a module must define
    option: str  # the option that selects an extension, the same in every command

    def names(self) -> list[str]:
        """Returns the sorted names of the built-in extensions of this kind."""
        folder = PACKAGE.joinpath(*self.package.split(".")[1:])
        modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
        return sorted(modules | _presets(self.package))

    def canonical_name(self, name: str) -> str:
        """Returns the stem of a path; otherwise the built-in spelling (`two_stage`), if there is one."""
        return Path(name).stem if is_path(name) else self._built_in(name) or name

    def load(self, name: str) -> ModuleType:
        """Returns the module of a name or a path.

        Raises ConfigError if there is none, or if the file is not trusted, has the name of a built-in
        extension, cannot be imported, or lacks what its kind must define.
        """
        canonical, file = self.canonical_name(name), _trusted_file(name)
        ours, flag = self._built_in(canonical), f"--{self.option} FILE"
        if is_path(name) and file is None:
            fix = f"If you trust the file, pass {flag} or, in Python, call electra.trust(FILE)"
            problem = f"code named by a folder or a TOML file is not run: {name}"
            raise ConfigError(problem, key=self.option, fix=fix)
        if is_path(name) and ours is not None:
            problem = f"{self.name} {ours!r} of electra has the same name as {file}"
            raise ConfigError(problem, key=self.option, fix="Rename the file")
        if ours is not None:
            is_preset = ours in _presets(self.package)
            package = importlib.import_module(self.package if is_preset else f"{self.package}.{ours}")
            return package.preset(ours) if is_preset else package
        if file is None:
            fix = f"{nearest(canonical.lower(), self.names())} For your own, pass {flag}"
            raise ConfigError(f"no {self.name} named {name!r}", key=self.option, fix=fix)
        return self._validated(_module_of_file(file, self.name), file)

    def load_as(self, name: str, attribute: str, base: type, fix: str = "") -> ModuleType:
        """Returns the module of a name or a path, after a check of one of the names that it defines.

        In capitals (`TASK`) it must be an instance of electra's class `base`, otherwise (`Objective`) a
        subclass. Raises ConfigError if it is neither, with the advice `fix`, or as `load` does.
        """
        module = self.load(name)
        value = getattr(module, attribute)
        is_class = not attribute.isupper()
        if not (isinstance(value, type) and issubclass(value, base) if is_class else isinstance(value, base)):
            problem = f"`{attribute}` is not an electra {base.__name__}{when(is_class, ' class')}"
            raise ConfigError(problem, where=module.__file__, fix=fix)
        return module

    def identity(self, name: str) -> dict[str, str]:
        """Returns the file name and SHA-256 of the code, for records; {} for a built-in extension."""
        module = self.load(name)
        if module.__name__.startswith(f"{self.package}."):
            return {}
        loader: Any = module.__spec__ and module.__spec__.loader
        digest = hashlib.sha256(loader.source).hexdigest()
        return {f"{self.name}_file": Path(loader.path).name, f"{self.name}_sha256": digest}

    def _built_in(self, name: str) -> str | None:
        return next((other for other in self.names() if fold_name(other) == fold_name(name)), None)

    def _validated(self, module: ModuleType, where: object) -> ModuleType:
        required = " and ".join(f"`{name}`" for name in self.defines)
        fix = f"{with_article(self.name).capitalize()} module must define {required}; see examples/"
        for name in self.defines:
            if not hasattr(module, name):
                raise ConfigError(f"defines no `{name}`", where=where, fix=fix)
        config: Any = getattr(module, "Config", None)
        is_frozen = dataclasses.is_dataclass(config) and config.__dataclass_params__.frozen  # type: ignore
        if "Config" in self.defines and not is_frozen:
            fix = "Put @dataclass(frozen=True) above it"
            raise ConfigError("`Config` is not a frozen dataclass", where=where, fix=fix)
        return module


OBJECTIVES = Kind("objective", "electra.objectives", ("Config", "Objective"), "objective.name")
TASKS = Kind("task", "electra.finetuning.tasks", ("TASK",), "task")
HEADS = Kind("head", "electra.finetuning.heads", ("HEAD",), "head")
PROBES = Kind("probe", "electra.laboratory.analysis.probes", ("Config", "Probe"), "probe")
FLAGS = {f"--{kind.option}" for kind in (OBJECTIVES, TASKS, HEADS, PROBES)}


def is_path(name: str) -> bool:
    """Whether a name is written as a path: it contains a slash or ends in .py."""
    return name.endswith(".py") or "/" in name


def trust(*names: object) -> None:
    """Allows the code in your own files to run as an objective, task, head or probe.

    Call it before you open a folder that was made with such a file: the folder records only the name of
    the code. Names that are not paths are ignored.
    """
    files = [Path(name).expanduser().resolve() for name in map(str, names) if is_path(name)]
    trusted[:] = dict.fromkeys([*files, *trusted])


def _trusted_file(name: str) -> Path | None:
    if is_path(name) and (path := Path(name).expanduser().resolve()) in trusted:
        return path
    return next((file for file in trusted if fold_name(file.stem) == fold_name(Path(name).stem)), None)


def resolve_beside(name: str, file: Path) -> str:
    """Returns a name in a TOML file, made absolute if it is a path that exists beside the file."""
    path = file.parent / name
    return str(path.resolve()) if is_path(name) and path.is_file() else name


@cache
def _presets(package: str) -> frozenset[str]:
    """Returns the names in a package's presets.toml, which its function `preset` makes modules of."""
    table = PACKAGE.joinpath(*package.split(".")[1:], "presets.toml")
    return frozenset(tomllib.loads(table.read_text(encoding="utf-8"))) if table.exists() else frozenset()


class _Loader(SourceFileLoader):
    """Runs exactly the bytes that are hashed, and writes no compiled file beside them."""

    def __init__(self, name: str, path: Path, source: bytes) -> None:
        super().__init__(name, str(path))
        self.source = source

    def get_code(self, fullname: str) -> object:  # type: ignore[override]
        return self.source_to_code(self.source, self.path)


def _module_of_file(path: Path, kind: str) -> ModuleType:
    """Imports a file; once it has changed, it becomes a new module."""
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"the {kind} file cannot be read ({error.strerror})", where=path) from None
    name = f"electra_{kind}_{path.stem}_{hashlib.sha256(bytes(path) + source).hexdigest()[:12]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_loader(name, loader := _Loader(name, path, source))
        assert spec is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look it up there
        try:
            loader.exec_module(module)
        except BaseException as error:
            del sys.modules[name]
            raise _import_error(error, path) from None
    return sys.modules[name]


def _import_error(error: BaseException, where: Path) -> BaseException:
    """Returns a ConfigError, with the line of the file; an ElectraError or KeyboardInterrupt as it is."""
    if isinstance(error, ElectraError | KeyboardInterrupt):
        return error
    if isinstance(error, SyntaxError):
        location = where if error.lineno is None else f"{error.filename}:{error.lineno}"
        return ConfigError(f"not valid Python: {error.msg}", where=location)
    frames = _frames_in(where, error)
    location = f"{where}:{frames[-1].lineno}" if frames else where
    return ConfigError(f"cannot be imported: {type(error).__name__}: {error}", where=location)


def _frames_in(file: Path, error: BaseException) -> list[traceback.FrameSummary]:
    return [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]


@contextmanager
def explained(kind: Kind, name: str, step: str = "") -> Iterator[None]:
    """Turns an error inside a file of the user's own into one line: "head mine.py: build: ...".

    With a `step`, nothing but the user's code runs: any error is its own.
    """
    try:
        yield
    except Exception as error:
        file = _trusted_file(name)
        frames = _frames_in(file, error) if file else []
        if file is None or not (frames or step) or isinstance(error, ElectraError) or out_of_memory(error):
            raise
        line = f" (line {frames[-1].lineno})" if frames else ""
        problem = f"{frames[0].name if frames else step}: {type(error).__name__}: {error}{line}"
        fix = "--debug shows the traceback"
        raise ConfigError(problem, where=f"{kind.name} {file.name}", fix=fix) from error


def fold_name(name: str) -> str:
    """Returns a name in lower case, without hyphens and underscores, for comparison."""
    return name.lower().replace("-", "").replace("_", "")
