"""Probes measure what a model has learned. Each is a file in `probes/`; `contract/` says what a probe is."""

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, get_type_hints

from electra.foundation.config import build, convert
from electra.foundation.errors import ConfigError, nearest
from electra.foundation.extensions import PROBES
from electra.laboratory.analysis.contract import Probe

OPTION = "--probe-option"


def module_of(name: str) -> Any:
    """Returns the module of a probe, by its name or the path of its file; ConfigError if there is none."""
    return PROBES.load_as(name, "Probe", Probe, fix=f"Subclass {__name__}.contract.Probe")


def create(name: str, options: Mapping[str, Any] | None = None) -> Probe:
    """Returns a probe with these options, by name; ConfigError for a wrong name, option or value."""
    module = module_of(name)
    try:
        probe: Probe = module.Probe(build(module.Config, options or {}, where=f"{OPTION} {name}"))
    except ConfigError as problem:
        problem.where, problem.key = problem.where or problem.key, ""  # it is no option of the command itself
        raise
    return probe


def options_for(chosen: Sequence[str], texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns the options of each probe in `chosen`, by name.

    A text is `key=value`, for all of them that have the option, or `probe.key=value`. Raises ConfigError if a
    text is malformed, its probe is not chosen, or its option or value is invalid.
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
        configs = {name: module_of(name).Config for name in receivers}
        known = sorted({field for config in configs.values() for field in config.__dataclass_fields__})
        if key not in known:
            raise ConfigError("unknown option", where=where, fix=nearest(key, known))
        for receiver, config in configs.items():
            if key in config.__dataclass_fields__:
                options[receiver][key] = _value(get_type_hints(config)[key], text, where)
    return options


def _value(kind: Any, text: str, where: str) -> Any:
    """Returns the first reading of `text` that fits: TOML, plain text, or a comma-separated list."""
    try:
        readings: list[Any] = [tomllib.loads(f"value = {text}")["value"]]
    except ValueError:
        readings = []
    readings += [text, text.split(",")]
    problems = []
    for reading in readings:
        try:
            convert(kind, reading, where)
            return reading
        except ConfigError as problem:
            problems.append(problem)
    raise problems[0]
