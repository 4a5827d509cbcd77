"""Converts frozen dataclasses from and to TOML and nested mappings, independently of what they configure."""

import ast
import dataclasses
import itertools
import math
import numbers
import os
import re
import sys
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import tomli_w

from electra.foundation.durable import plain
from electra.foundation.errors import ConfigError, nearest, unknown_choice

RECIPES = Path(__file__).parents[1] / "training" / "recipes"

T = TypeVar("T")
_INTEGER_LIMIT = 1 << 63  # integers must be below this, as in TOML
_MAX_DOTS = 1000  # per line, outside strings: tomllib takes minutes for keys with very many parts
_DIGEST = re.compile("[0-9a-f]{32,}")
# Settings of earlier versions that are gone -> the value that had no effect
_GONE: dict[str, Any] = {
    **{"near_duplicates": None, "mix_exponent": None, "mix_seed": 0},
    **{"focal_gamma": 0.0, "label_smoothing": 0.0, "sampling_dropout": True, "entropy_weight": 0.0},
    **{"mask_decoder": False, "clip_separately": False, "on_collapse": "warn", "on_spike": "warn"},
    **{"optimizer": "adamw", "states_layers": "all", "teacher_reads": "same", "relations_weight": 0.0},
    **{"reference_decay": False, "both_orders": None, "graph": "off"},
}
Difference = tuple[str, Any, Any]  # a dotted name, its old and its new value
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")


def find_recipe(name: str) -> Path:
    """Returns the file of a recipe, given its name or a path. Raises ConfigError if there is none."""
    return find_named(RECIPES, name, "recipe", key="recipe")


def toml_names(folder: Path) -> list[str]:
    """Returns the sorted names of the TOML files in `folder`, without the suffix."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def find_named(folder: Path, name: str, kind: str, *, key: str) -> Path:
    """Returns one of the package's TOML files in `folder` by name, or the user's own by path.

    Raises ConfigError if there is none, with `kind` ("recipe") and the setting `key` in the message.
    """
    for path in (folder / f"{name}.toml", Path(name)):
        if path.is_file():
            return path
    if name.endswith(".toml") or "/" in name:
        raise ConfigError(f"no such {kind} file", where=name)
    fix = f"{nearest(name, toml_names(folder))} Or pass a TOML file"
    raise ConfigError(f"no {kind} named {name!r}", key=key, fix=fix)


def read_toml(path: Path) -> dict[str, Any]:
    """Parses a TOML file. Raises ConfigError, with the file and line, if it is unreadable or not valid."""
    try:
        text = plain(path).read_text(encoding="utf-8")
        if any(_QUOTED.sub("", line).count(".") > _MAX_DOTS for line in text.splitlines()):
            raise ConfigError("not valid TOML: a key has too many parts", where=path)
        return tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror})", where=path) from None
    except RecursionError:
        raise ConfigError("not valid TOML: nested too deeply", where=path) from None
    except ValueError as error:  # not TOML, not UTF-8, or an integer with thousands of digits
        raise ConfigError(f"not valid TOML: {error}", where=path) from None


def write_toml(sections: Mapping[str, Any]) -> str:
    """Returns the text of a TOML file. Omits keys whose value is None: a missing key means the default."""

    def defined(value: Any) -> Any:
        is_table = isinstance(value, Mapping)
        return {k: defined(v) for k, v in value.items() if v is not None} if is_table else value

    return tomli_w.dumps(defined(sections))


def option(default: Any, *, limits: tuple[float, float, str] | None = None, **more: Any) -> Any:
    """Declares a field of a dataclass of options, with its default and metadata.

    `limits` are the smallest and largest value, and a description for the error that `build` raises;
    `evaluated=X` sets an objective's option to X for held-out evaluation, whatever its value in training.
    """
    return dataclasses.field(default=default, metadata=more | ({"limits": limits} if limits else {}))


share = partial(option, limits=(0.0, 1.0, "a fraction from 0 to 1"))
weight = partial(option, limits=(0.0, sys.float_info.max, "a number of at least 0"))


@cache
def field_texts(kind: Any) -> dict[str, str]:
    """Returns the text below each field of a dataclass, by name, read from its source ("" if there is none).

    A field that a subclass declares again without a text keeps that of its base.
    """
    texts: dict[str, str] = {}
    bases: list[Any] = [base for base in reversed(kind.__mro__) if dataclasses.is_dataclass(base)]
    for base in bases:
        file = getattr(sys.modules.get(base.__module__), "__file__", None)
        in_file = {} if file is None else _texts_in(file)  # no file: a class made at run time
        for name, text in in_file.get(base.__qualname__, {}).items():
            texts[name] = text or texts.get(name, "")
    return texts


@cache
def _texts_in(file: str) -> dict[str, dict[str, str]]:
    """Returns the text below each field of the classes in a module, by class."""
    texts: dict[str, dict[str, str]] = {}
    for each in ast.parse(Path(file).read_bytes()).body:
        if isinstance(each, ast.ClassDef):
            fields = texts.setdefault(each.name, {})
            for statement, following in itertools.zip_longest(each.body, each.body[1:]):
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    below = following.value if isinstance(following, ast.Expr) else None
                    text = below.value if isinstance(below, ast.Constant) else ""
                    fields[statement.target.id] = " ".join(str(text).split())
    return texts


def build(cls: type[T], values: Mapping[str, Any], where: str) -> T:
    """Builds a dataclass, including nested ones, from a mapping; hyphens in its keys count as underscores.

    Raises ConfigError, with the file or section `where`, if a name is unknown, a required field is missing,
    or a value has the wrong type or is outside its limits.
    """
    hints = typing.get_type_hints(cls)
    kinds = {f.name: hints[f.name] for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    converted: dict[str, Any] = {}
    for key, value in values.items():
        name = key.replace("-", "_")
        if name not in kinds:
            if is_gone(name, value):
                continue
            raise ConfigError("no such key", where=_dotted(where, key), fix=nearest(name, list(kinds)))
        converted[name] = convert(kinds[name], value, _dotted(where, key))
    try:
        built = cls(**converted)
    except TypeError as error:
        raise ConfigError(str(error), where=where) from None
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        minimum, maximum, description = field.metadata.get("limits", (None, None, ""))
        value = getattr(built, field.name)
        if minimum is not None and value is not None and not minimum <= value <= maximum:
            raise ConfigError(f"must be {description}, not {value}", key=_dotted(where, field.name))
    return built


def is_gone(name: str, value: Any) -> bool:
    """Whether a setting, which may be in a record of an earlier version, is gone and had no effect."""
    return name in _GONE and _GONE[name] == value


def _dotted(where: str, key: str) -> str:
    if not where:
        return key
    return f"{where}: {key}" if where.endswith(".toml") else f"{where}.{key}"


def convert(kind: Any, value: Any, where: str) -> Any:
    """Returns `value` converted to the type hint `kind`. Raises ConfigError if it cannot be converted.

    Lists become tuples, `~` in a path is expanded, and tables become dataclasses.
    """
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, Mapping):
            raise ConfigError(f"expected a table, got {value!r}", where=where)
        return build(typing.cast(type, kind), value, where)
    if isinstance(value, numbers.Integral) and not -_INTEGER_LIMIT <= int(value) < _INTEGER_LIMIT:
        raise ConfigError("must be a number of at most 64 bits", where=where)
    origin, choices = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in choices:
            return None
        *others, last = [choice for choice in choices if choice is not type(None)]
        for choice in others:  # the first that fits
            with suppress(ConfigError):
                return convert(choice, value, where)
        return convert(last, value, where)
    if origin is typing.Literal:
        if isinstance(value, str | int) and value in choices:
            return value
        problem, fix = unknown_choice(value, choices)
        raise ConfigError(problem, where=where, fix=fix)
    if origin in (tuple, Sequence):
        if isinstance(value, list | tuple):
            is_uniform = origin is Sequence or (len(choices) == 2 and choices[1] is Ellipsis)
            kinds = [choices[0]] * len(value) if is_uniform else choices
            if len(kinds) == len(value):
                return tuple(convert(inner, item, where) for inner, item in zip(kinds, value, strict=True))
    elif kind in (int, float) and not isinstance(value, bool):
        if isinstance(value, numbers.Integral if kind is int else numbers.Real):  # includes NumPy's numbers
            return kind(value)
    elif kind is Path and isinstance(value, str | os.PathLike):
        return Path(os.path.expanduser(value))
    elif kind is Any or (origin is os.PathLike and isinstance(value, os.PathLike)):
        return value
    elif origin is dict and isinstance(value, Mapping):
        return dict(value)
    elif isinstance(kind, type) and isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    expected = _EXPECTED.get(origin or kind, f"of type {kind}")
    if origin is tuple and Ellipsis not in choices:
        expected = f"a list of {len(choices)}"
    raise ConfigError(f"{value!r} is not {expected}", where=where)


_EXPECTED: dict[Any, str] = {
    **{int: "a whole number", float: "a number", bool: "true or false", str: "a string"},
    **{dict: "a table", Sequence: "a list", tuple: "a list"},
}


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merges two nested mappings; where both have a key, the value of `over` wins."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the values of nested mappings with their dotted names."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> list[Difference]:
    """Returns (dotted name, old value, new value) for each key that differs; an absent value is None."""
    changed: list[Difference] = []
    for key in [*old, *(key for key in new if key not in old)]:
        a, b, name = old.get(key), new.get(key), f"{prefix}{key}"
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            changed += differences(a, b, f"{name}.")
        elif a != b and not (b is None and is_gone(key, a)):
            changed.append((name, a, b))
    return changed


def describe_change(name: str, old: Any, new: Any) -> str:
    """Describes an element of `differences` for a message."""
    if all(isinstance(value, str) and _DIGEST.fullmatch(value) for value in (old, new)):
        return f"{name} has other contents"
    return f"{name} was {_short(old)}, now {_short(new)}"


def _short(value: Any) -> str:
    is_large = isinstance(value, Mapping) or (isinstance(value, str) and _DIGEST.fullmatch(value))
    return "absent" if value is None else "present" if is_large else str(value)[:24]


def check_at_least(settings: Any, minima: Mapping[str, int], section: str = "") -> None:
    """Raises ConfigError if a setting is below its minimum; None passes.

    In this check and those below, `section`, such as "training.", precedes the key in the message.
    """
    for name, minimum in minima.items():
        _check(settings, [name], section, lambda value: value >= minimum, f"at least {minimum}")  # noqa: B023


def check_at_most(settings: Any, maxima: Mapping[str, float], section: str = "") -> None:
    """Raises ConfigError if a setting is above its maximum; None passes."""
    for name, maximum in maxima.items():
        _check(settings, [name], section, lambda value: value <= maximum, f"at most {maximum}")  # noqa: B023


def _check(settings: Any, names: Iterable[str], section: str = "", accepts: Any = None, description: str = "") -> None:
    for name in names:
        if (value := getattr(settings, name)) is not None and not accepts(value):
            expected = description if math.isfinite(value) else "a finite number"
            raise ConfigError(f"must be {expected}, not {value}", key=f"{section}{name}")


check_positive = partial(_check, accepts=lambda value: 0 < value < math.inf, description="above 0")
check_not_negative = partial(_check, accepts=lambda value: 0 <= value < math.inf, description="0 or more")
check_below_one = partial(_check, accepts=lambda value: 0 <= value < 1, description="at least 0 and below 1")
