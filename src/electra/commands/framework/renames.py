"""Maps option names of the last release to today's. Old names work, with a note, until the next release.

Keys are names in Python; on the command line they are flags. The table is also in CHANGELOG.md.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from electra.foundation.errors import ConfigError, Note, nearest

P = ParamSpec("P")
R = TypeVar("R")
_PARTS = ("weight", "share", "first")
_MIXTURE = {"data.mix_temperature": "data.mix_exponent"}
_SETTINGS = _MIXTURE | {
    f"{section}naming_{part}": f"{section}mlm_{part}" for section in ("objective.", "") for part in _PARTS
}
OPTIONS: dict[str, dict[str, str]] = {  # command -> old name -> new name
    "ablate": {"arm": "only", "arms": "only", "panel": "eval_task", "panel_data": "eval_data"},
    "analyze": {"probes": "probe", "options": "probe_option"},
    "bench": {"batch": "batch_size"},
    "detect": {"by": "scorer"},
    "evaluate": {
        "floors": "baselines",
        "probe_options": "probe_option",
        "random_twin": "untrained_baseline",
        "finetune.apart": "finetune.train_separately",
        "finetune.keep": "finetune.keep_seed",
    },
    "export": {"run": "model"},
    "extend": {"run": "run_folder"},
    "finetune": {
        "also": "extra_eval",
        "apart": "train_separately",
        "floors": "baselines",
        "keep": "keep_seed",
        "random_twin": "untrained_baseline",
    },
    "log": {"run": "run_folder"},
    "prepare": {"source": "corpus", "mix_temperature": "mix_exponent", **_MIXTURE},
    "pretrain": _SETTINGS,
    "serve": {"batch": "batch_size"},
    "show": {"masked": "mask_fraction"},
}
REPLACED_FLAGS = {  # command -> old flag -> the word that now replaces the flag and its value
    "detect": {"--file": "{value}"},
    "evaluate": {"--option": "--finetune.{value}"},
}
EXTEND_COMMANDS = {"--length": "lengthen", "--layers": "deepen"}  # old option of `extend` -> today's command
POSITIONAL = {  # command -> keyword argument that used to be the next positional argument in Python
    **dict.fromkeys(("deepen", "lengthen", "prepare", "pretrain"), "out"),
    **dict.fromkeys(("extend", "plan"), "budget"),
    "log": "to",
}


def _note(old: str, new: str) -> None:
    warnings.warn(
        f"{old} was renamed to {new}; the old name will stop working in the next release", Note, stacklevel=4
    )


def renamed(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorates a function that is not a command, to accept its old parameter names: old='new'."""

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **named: P.kwargs) -> R:
            for old in names.keys() & named.keys():
                _note(f"{old}=", f"{names[old]}=")
                named[names[old]] = named.pop(old)
            return function(*args, **named)

        return call

    return wrap


def rename_words(command: str, words: Sequence[str]) -> tuple[str, list[str]]:
    """Returns the command and its words with old names replaced."""
    if command == "extend":
        command, words = _split_extend(words)
    flags = {_flag(old): _flag(new) for old, new in OPTIONS.get(command, {}).items()}
    flags |= {f"--no-{old[2:]}": f"--no-{new[2:]}" for old, new in flags.items()}
    replaced = REPLACED_FLAGS.get(command, {})
    renamed, rest = [], iter(words)
    for word in rest:
        flag, equals, value = word.partition("=")
        if flag in replaced:
            _note(f"{flag} VALUE", replaced[flag].format(value="VALUE"))
            renamed.append(replaced[flag].format(value=value if equals else next(rest, "")))
        else:
            if flag in flags:
                _note(flag, flags[flag])
            renamed.append(f"{flags.get(flag, flag)}{equals}{value}")
    return command, renamed


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _split_extend(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Rewrites `extend MODEL OUT --length 2048`, or `--layers 8`, as the command that does this now."""
    flags = [word.partition("=")[0] for word in words]
    for option in EXTEND_COMMANDS.keys() & set(flags):
        _note(f"electra extend {option}", f"electra {EXTEND_COMMANDS[option]}")
        before = ["", *words]
        values = [i for i, word in enumerate(words) if before[i].startswith("--") and "=" not in before[i]]
        positional = [i for i, flag in enumerate(flags) if not flag.startswith("--") and i not in values]
        if len(positional) > 1 and "--out" not in flags:
            words = [*words[: positional[1]], "--out", *words[positional[1] :]]
        return EXTEND_COMMANDS[option], words
    return "extend", words


def rename_arguments(
    kind: Any, args: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of a call with old names replaced. Raises ConfigError for an unknown name."""
    command, values = kind.__module__.rpartition(".")[2].rstrip("_"), dict(named)
    num_positional = sum(not each.kw_only for each in dataclasses.fields(kind))
    if len(args) == num_positional + 1 and (name := POSITIONAL.get(command)) and name not in values:
        _note(f"argument {num_positional + 1} of electra.{command}", f"{name}=")
        values[name], args = args[num_positional], args[:num_positional]
    for old, new in OPTIONS.get(command, {}).items():
        if old in values:
            _note(f"{old}=", f"{new}=")
            values[new] = values.pop(old)
    known = [each.name for each in dataclasses.fields(kind)]
    if unknown := [name for name in values if name not in known]:
        fix = nearest(unknown[0], known)
        if "overrides" in known:
            fix += ' Settings of the recipe are passed as overrides={"SECTION.KEY": ...}'
        raise ConfigError("no such key", where=unknown[0], fix=fix)
    return args, values
