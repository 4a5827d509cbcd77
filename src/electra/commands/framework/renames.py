"""Maps option names of the last release to today's. Old names work, with a note, until the next release.

Keys are names in Python; on the command line they are flags. The table is also in CHANGELOG.md.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from electra.foundation.errors import ConfigError, Note, nearest

P = ParamSpec("P")
R = TypeVar("R")
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
    "prepare": {"source": "corpus"},
    "serve": {"batch": "batch_size"},
    "show": {"masked": "mask_fraction"},
}
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
    flags = {_flag(old): _flag(new) for old, new in OPTIONS.get(command, {}).items()}
    flags |= {f"--no-{old[2:]}": f"--no-{new[2:]}" for old, new in flags.items()}
    renamed = []
    for word in words:
        name, equals, value = word.partition("=")
        if name in flags:
            _note(name, flags[name])
        renamed.append(f"{flags.get(name, name)}{equals}{value}")
    return _REWRITTEN[command](renamed) if command in _REWRITTEN else (command, renamed)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _extend(words: list[str]) -> tuple[str, list[str]]:
    """Rewrites `electra extend MODEL OUT --length 2048`, or `--layers 8`."""
    names = {word.partition("=")[0] for word in words}
    for option, command in (("--length", "lengthen"), ("--layers", "deepen")):
        if option in names:
            _note(f"electra extend {option}", f"electra {command}")
            positional = _positional(words)
            if len(positional) > 1 and "--out" not in names:
                words = [*words[: positional[1]], "--out", *words[positional[1] :]]
            return command, words
    return "extend", words


def _detect(words: list[str]) -> tuple[str, list[str]]:
    """Rewrites `electra detect MODEL --file texts.txt`."""
    if any(word.partition("=")[0] == "--file" for word in words):
        _note("--file FILE", "FILE")
        words = [word.removeprefix("--file=") for word in words if word != "--file"]
    return "detect", words


def _show(words: list[str]) -> tuple[str, list[str]]:
    """Rewrites `electra show MODEL GENERATOR TEXT`, and `electra show MODEL GENERATOR`."""
    positional = _positional(words)
    if len(positional) == 3 or (len(positional) == 2 and _names_a_model(words[positional[1]])):
        _note("MODEL GENERATOR", "MODEL --generator GENERATOR")
        at = positional[1]
        words = [*words[:at], f"--generator={words[at]}", *words[at + 1 :]]
    return "show", words


def _names_a_model(word: str) -> bool:
    return Path(word).expanduser().exists() or ("/" in word and " " not in word)


def _positional(words: Sequence[str]) -> list[int]:
    """Returns the places of the positional arguments, for commands whose options all take one value."""
    before = ["", *words]
    return [
        place
        for place, word in enumerate(words)
        if not word.startswith("--") and not (before[place].startswith("--") and "=" not in before[place])
    ]


def _evaluate(words: list[str]) -> tuple[str, list[str]]:
    """Rewrites `electra evaluate ... --option epochs=1`."""
    made: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        if made and made[-1] == "--option" and equals:
            made[-1] = f"--finetune.{word}"
        elif name == "--option" and equals:
            made.append(f"--finetune.{value}")
        else:
            made.append(word)
    if made != words:
        _note("--option KEY=VALUE", "--finetune.KEY VALUE")
    return "evaluate", made


_REWRITTEN = {"detect": _detect, "evaluate": _evaluate, "extend": _extend, "show": _show}


def rename_arguments(
    kind: Any, args: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of a call with old names replaced. Raises ConfigError for an unknown name."""
    command, values = kind.__module__.rpartition(".")[2].rstrip("_"), dict(named)
    places = sum(not each.kw_only for each in dataclasses.fields(kind))
    if len(args) == places + 1 and (name := POSITIONAL.get(command)) and name not in values:
        _note(f"argument {places + 1} of electra.{command}", f"{name}=")
        values[name], args = args[places], args[:places]
    for old, new in OPTIONS.get(command, {}).items():
        if old in values:
            _note(f"{old}=", f"{new}=")
            values[new] = values.pop(old)
    known = [each.name for each in dataclasses.fields(kind)]
    if unknown := [name for name in values if name not in known]:
        raise ConfigError("no such key", where=unknown[0], fix=nearest(unknown[0], known))
    return args, values
