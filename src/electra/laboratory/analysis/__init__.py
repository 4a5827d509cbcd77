"""Probes: what does a model know? They live in `probes/`, one file each; `contract/` says what a probe is."""

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
LIMITS = {  # of the options that several probes have by one name: the least and the most
    **{
        "rows": (1, INFINITE),
        "length": (held_out.SHORTEST + 2, INFINITE),
        "sentences": (0, INFINITE),
        "hypotheses": (0, INFINITE),
        "draws": (1, INFINITE),
    },
    **{
        "bins": (1, INFINITE),
        "resamples": (0, INFINITE),
        "queries": (1, INFINITE),
        "fraction": (0.01, 1.0),
        "threshold": (0.0, 0.999),
    },
}


def names() -> list[str]:
    """The probes there are."""
    return PROBES.names()


def name_of(name: str) -> str:
    """How a probe is called in records and file names: `minimal_pairs`; of a file, its stem."""
    return PROBES.name_of(name)


def module_of(name: str) -> Any:
    """The module of a name, or of a path to a file."""
    module = PROBES.load(name)
    if not (isinstance(module.Probe, type) and issubclass(module.Probe, Probe)):
        raise ConfigError("`Probe` does not subclass electra's Probe", where=module.__file__)
    return module


def create(name: str, options: Mapping[str, Any] | None = None) -> Probe:
    module = module_of(name)
    config = build(module.Config, options or {}, where=f"{OPTION} {name}")
    _check(config, f"{OPTION} {name}")
    probe: Probe = module.Probe(config)
    return probe


def _check(config: Any, where: str) -> None:
    for key, (least, most) in LIMITS.items():
        value = getattr(config, key, least)
        if not least <= value <= most:
            wanted = f"at least {least}" if most == INFINITE else f"from {least} to {most}"
            raise ConfigError(f"must be {wanted}, not {value}", where=f"{where}.{key}")


def describe_options(name: str) -> list[tuple[str, Any, str]]:
    """(option, default, what it does) of a probe: the fields of its `Config` and the strings under them."""
    config = module_of(name).Config
    told: dict[str, str] = {}
    for part in (part for part in reversed(config.__mro__) if "__dataclass_fields__" in vars(part)):
        body = next(
            node for node in ast.parse(inspect.getsource(part)).body if isinstance(node, ast.ClassDef)
        ).body
        told |= {
            field.target.id: inspect.cleandoc(text.value.value)
            for field, text in pairwise(body)
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            if isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        }
    return [
        (field.name, getattr(config(), field.name), told.get(field.name, ""))
        for field in dataclasses.fields(config)
    ]


def options_for(chosen: Sequence[str], given: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Each chosen probe's options, out of `key=value` (for all that have the key) and `probe.key=value`."""
    options: dict[str, dict[str, Any]] = {name: {} for name in chosen}
    known_as = {name_of(name): name for name in chosen}
    for word in given:
        name, equals, text = word.partition("=")
        probe, dot, key = name.rpartition(".")
        key = key.replace("-", "_")
        if not equals:
            raise ConfigError(
                f"{word!r} is not key=value", where=OPTION, fix=f"For example: {OPTION} resamples=200"
            )
        if dot and name_of(probe) not in known_as:
            raise ConfigError(
                f"{probe!r} is not among the chosen probes",
                where=f"{OPTION} {name}",
                fix=nearest(probe, list(known_as)),
            )
        takers = [
            taker
            for taker in ([known_as[name_of(probe)]] if dot else chosen)
            if key in module_of(taker).Config.__dataclass_fields__
        ]
        if not takers:
            known = sorted(
                {field for taker in chosen for field in module_of(taker).Config.__dataclass_fields__}
            )
            raise ConfigError("no such option", where=f"{OPTION} {name}", fix=nearest(key, known))
        for taker in takers:
            options[taker][key] = _value(module_of(taker).Config, key, text)
    return options


def _value(config: type, key: str, text: str) -> Any:
    """The first reading of `text` that fits the option's type: as TOML, as it is, as a list with commas."""
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
