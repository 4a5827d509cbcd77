"""Probes measure what a model has learned. Each is a file in `probes/`; `contract/` says what a probe is."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from electra.foundation.config import build, field_texts
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
    "fraction": (0.01, 1.0),
}


def module_of(name: str) -> Any:
    """Returns the module of a probe, by its name or the path of its file.

    Raises:
        ConfigError: There is no such probe, its file is not trusted or cannot be imported, or its `Probe` is
            not a subclass of `contract.Probe`.
    """
    return PROBES.load_as(name, "Probe", Probe, fix=f"Subclass {__name__}.contract.Probe")


def create(name: str, options: Mapping[str, Any] | None = None) -> Probe:
    """Returns a probe with these options, by name; the others have their defaults.

    Raises:
        ConfigError: The probe cannot be loaded, or an option is unknown, of the wrong type or out of range.
    """
    module = module_of(name)
    config = build(module.Config, options or {}, where=f"{OPTION} {name}")
    _check_limits(config, f"{OPTION} {name}")
    probe: Probe = module.Probe(config)
    return probe


def _check_limits(config: Any, where: str) -> None:
    for key, (minimum, maximum) in LIMITS.items():
        value = getattr(config, key, minimum)
        if not minimum <= value <= maximum:
            bounds = f"at least {minimum}" if maximum == INFINITE else f"from {minimum} to {maximum}"
            raise ConfigError(f"must be {bounds}, not {value}", where=f"{where}.{key}")


def describe_options(name: str) -> list[tuple[str, Any, str]]:
    """Returns (option, default, description) for each field of a probe's `Config`."""
    config = module_of(name).Config
    texts, defaults = field_texts(config), config()
    return [
        (field.name, getattr(defaults, field.name), texts.get(field.name, ""))
        for field in dataclasses.fields(config)
    ]


def options_for(chosen: Sequence[str], texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns the options of each probe in `chosen`, by name.

    A text is `key=value`, for all of them that have the option, or `probe.key=value`.

    Raises:
        ConfigError: A text is malformed, its probe is not chosen, or its option or value is invalid.
    """
    options: dict[str, dict[str, Any]] = {name: {} for name in chosen}
    passed_as = {PROBES.canonical_name(name): name for name in chosen}
    for option in texts:
        name, equals, text = option.partition("=")
        probe, dot, key = name.rpartition(".")
        key, where = key.replace("-", "_"), f"{OPTION} {name}"
        if not equals:
            fix = f"For example: {OPTION} resamples=200"
            raise ConfigError(f"expected key=value, got {option!r}", where=OPTION, fix=fix)
        if dot and PROBES.canonical_name(probe) not in passed_as:
            fix = nearest(probe, list(passed_as))
            raise ConfigError(f"{probe!r} is not among the chosen probes", where=where, fix=fix)
        receivers = [passed_as[PROBES.canonical_name(probe)]] if dot else chosen
        fields = {name: module_of(name).Config.__dataclass_fields__ for name in receivers}
        if not any(key in known for known in fields.values()):
            fix = nearest(key, sorted({field for known in fields.values() for field in known}))
            raise ConfigError("unknown option", where=where, fix=fix)
        for receiver, known in fields.items():
            if key in known:
                options[receiver][key] = _value(module_of(receiver).Config, key, text)
    return options


def _value(config: type, key: str, text: str) -> Any:
    """Returns the first reading of `text` that fits the option: TOML, plain text, or a comma-separated list.

    Raises:
        ConfigError: No reading fits; the error is that of the first.
    """
    try:
        readings: list[Any] = [tomllib.loads(f"value = {text}")["value"]]
    except ValueError:
        readings = []
    readings += [text, text.split(",")]
    problems = []
    for reading in readings:
        try:
            build(config, {key: reading}, where=OPTION)
            return reading
        except ConfigError as problem:
            problems.append(problem)
    raise problems[0]
