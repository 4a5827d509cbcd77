"""Probes measure what a model has learned: one file each in `probes/`; `contract/` defines a probe."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import tomllib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from electra.foundation.config import build
from electra.foundation.errors import ConfigError, nearest
from electra.foundation.extensions import PROBES
from electra.laboratory.analysis.contract import Probe
from electra.laboratory.analysis.texts import held_out

OPTION = "--probe-option"
INFINITE = float("inf")
LIMITS = {  # minimum and maximum of options that several probes share
    "rows": (1, INFINITE),
    "length": (held_out.SHORTEST + 2, INFINITE),
    "sentences": (0, INFINITE),
    "hypotheses": (0, INFINITE),
    "draws": (1, INFINITE),
    "bins": (1, INFINITE),
    "resamples": (0, INFINITE),
    "queries": (1, INFINITE),
    "fraction": (0.01, 1.0),
    "threshold": (0.0, 0.999),
}


def names() -> list[str]:
    """The names of our probes."""
    return PROBES.names()


def name_of(name: str) -> str:
    """The name of a probe in records and file names: `minimal_pairs`; for a file, its stem."""
    return PROBES.name_of(name)


def module_of(name: str) -> Any:
    """The module of a probe by its name, or by the path of a file.

    Raises:
        ConfigError: Its `Probe` is not a subclass of `contract.Probe`.
    """
    module = PROBES.load(name)
    if not (isinstance(module.Probe, type) and issubclass(module.Probe, Probe)):
        raise ConfigError(
            "`Probe` does not subclass electra.laboratory.analysis.contract.Probe", where=module.__file__
        )
    return module


def create(name: str, options: Mapping[str, Any] | None = None) -> Probe:
    """A probe with these options.

    Raises:
        ConfigError: An option is unknown, of a wrong type or out of range.
    """
    module = module_of(name)
    config = build(module.Config, options or {}, where=f"{OPTION} {name}")
    _check(config, f"{OPTION} {name}")
    probe: Probe = module.Probe(config)
    return probe


def _check(config: Any, where: str) -> None:
    for key, (least, most) in LIMITS.items():
        value = getattr(config, key, least)
        if not least <= value <= most:
            bounds = f"at least {least}" if most == INFINITE else f"from {least} to {most}"
            raise ConfigError(f"must be {bounds}, not {value}", where=f"{where}.{key}")


def describe_options(name: str) -> list[tuple[str, Any, str]]:
    """(option, default, description) of a probe: the fields of its `Config` and the strings under them."""
    config = module_of(name).Config
    texts: dict[str, str] = {}
    for base in (base for base in reversed(config.__mro__) if "__dataclass_fields__" in vars(base)):
        body = next(
            node for node in ast.parse(inspect.getsource(base)).body if isinstance(node, ast.ClassDef)
        ).body
        texts |= {
            field.target.id: inspect.cleandoc(text.value.value)
            for field, text in pairwise(body)
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            if isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        }
    return [
        (field.name, getattr(config(), field.name), texts.get(field.name, ""))
        for field in dataclasses.fields(config)
    ]


def options_for(chosen: Sequence[str], texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Each chosen probe's options, from `key=value` (all probes with the key) and `probe.key=value`.

    Raises:
        ConfigError: No chosen probe has the option, or the value is invalid.
    """
    options: dict[str, dict[str, Any]] = {name: {} for name in chosen}
    path_of = {name_of(name): name for name in chosen}
    for option in texts:
        name, equals, text = option.partition("=")
        probe, dot, key = name.rpartition(".")
        key = key.replace("-", "_")
        if not equals:
            raise ConfigError(
                f"expected key=value, got {option!r}",
                where=OPTION,
                fix=f"For example: {OPTION} resamples=200",
            )
        if dot and name_of(probe) not in path_of:
            raise ConfigError(
                f"{probe!r} is not among the chosen probes",
                where=f"{OPTION} {name}",
                fix=nearest(probe, list(path_of)),
            )
        receivers = [
            receiver
            for receiver in ([path_of[name_of(probe)]] if dot else chosen)
            if key in module_of(receiver).Config.__dataclass_fields__
        ]
        if not receivers:
            known = sorted(
                {field for receiver in chosen for field in module_of(receiver).Config.__dataclass_fields__}
            )
            raise ConfigError("unknown option", where=f"{OPTION} {name}", fix=nearest(key, known))
        for receiver in receivers:
            options[receiver][key] = _value(module_of(receiver).Config, key, text)
    return options


def _value(config: type, key: str, text: str) -> Any:
    """The first reading of `text` that fits the option's type: TOML, plain text, or a list with commas."""
    try:
        readings: list[Any] = [tomllib.loads(f"value = {text}")["value"]]
    except ValueError:
        readings = []
    readings += [text, text.split(",")]
    problem: ConfigError | None = None
    for reading in readings:
        try:
            build(config, {key: reading}, where=OPTION)
            return reading
        except ConfigError as error:
            problem = problem or error
    assert problem is not None
    raise problem
