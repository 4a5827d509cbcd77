"""What was called otherwise in the last release: the one table of it. Old names work, with a note, until the
next.

Keys are names as in Python; on the command line they are flags. The table is also in CHANGELOG.md.
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
OPTIONS: dict[str, dict[str, str]] = {  # command -> old name -> today's
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
POSITIONAL = {  # command -> what followed the positional arguments in Python
    **dict.fromkeys(("deepen", "lengthen", "prepare", "pretrain"), "out"),
    **dict.fromkeys(("extend", "plan"), "budget"),
    "log": "to",
}


def _note(old: str, new: str) -> None:
    warnings.warn(f"{old} is {new} now; the old name goes with the next release", Note, stacklevel=4)


def renamed(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Of a function of Python alone: its parameters by their names of the last release."""

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **named: P.kwargs) -> R:
            for old in names.keys() & named.keys():
                _note(f"{old}=", f"{names[old]}=")
                named[names[old]] = named.pop(old)
            return function(*args, **named)

        return call

    return wrap


def on_the_command_line(command: str, words: Sequence[str]) -> tuple[str, list[str]]:
    """The command and its words by today's names."""
    known = {_flag(old): _flag(new) for old, new in OPTIONS.get(command, {}).items()}
    known |= {f"--no-{old[2:]}": f"--no-{new[2:]}" for old, new in known.items()}
    renamed = []
    for word in words:
        name, equals, value = word.partition("=")
        if name in known:
            _note(name, known[name])
        renamed.append(f"{known.get(name, name)}{equals}{value}")
    if command in _REWRITTEN:
        return _REWRITTEN[command](renamed)
    return command, renamed


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _extend(words: list[str]) -> tuple[str, list[str]]:
    """electra extend MODEL OUT --length 2048, or --layers 8."""
    names = {word.partition("=")[0] for word in words}
    for option, command in (("--length", "lengthen"), ("--layers", "deepen")):
        if option in names:
            _note(f"electra extend {option}", f"electra {command}")
            plain = [place for place, word in enumerate(words) if not _belongs_to_an_option(words, place)]
            if len(plain) > 1 and "--out" not in names:
                words = [*words[: plain[1]], "--out", *words[plain[1] :]]
            return command, words
    return "extend", words


def _detect(words: list[str]) -> tuple[str, list[str]]:
    """electra detect MODEL --file texts.txt."""
    if any(word.partition("=")[0] == "--file" for word in words):
        _note("--file FILE", "FILE")
        words = [word.removeprefix("--file=") for word in words if word != "--file"]
    return "detect", words


def _show(words: list[str]) -> tuple[str, list[str]]:
    """electra show MODEL GENERATOR TEXT, and electra show MODEL GENERATOR."""
    plain = [place for place, word in enumerate(words) if not _belongs_to_an_option(words, place)]
    if len(plain) == 3 or (len(plain) == 2 and _names_a_model(words[plain[1]])):
        _note("MODEL GENERATOR", "MODEL --generator GENERATOR")
        words = [*words[: plain[1]], f"--generator={words[plain[1]]}", *words[plain[1] + 1 :]]
    return "show", words


def _names_a_model(word: str) -> bool:
    return Path(word).expanduser().exists() or ("/" in word and " " not in word)


def _belongs_to_an_option(words: Sequence[str], place: int) -> bool:
    """Whether a word is an option, or the value of one; those of these commands all take one value."""
    before = words[place - 1] if place else ""
    return words[place].startswith("--") or (before.startswith("--") and "=" not in before)


def _evaluate(words: list[str]) -> tuple[str, list[str]]:
    """electra evaluate ... --option epochs=1."""
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


def in_python(
    kind: Any, args: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call by today's names. Raises ConfigError for one that is unknown."""
    command, given = kind.__module__.rpartition(".")[2].rstrip("_"), dict(named)
    places = sum(not each.kw_only for each in dataclasses.fields(kind))
    if len(args) == places + 1 and (name := POSITIONAL.get(command)) and name not in given:
        _note(f"argument {places + 1} of electra.{command}", f"{name}=")
        given[name], args = args[places], args[:places]
    for old, new in OPTIONS.get(command, {}).items():
        if old in given:
            _note(f"{old}=", f"{new}=")
            given[new] = given.pop(old)
    known = [each.name for each in dataclasses.fields(kind)]
    if unknown := [name for name in given if name not in known]:
        raise ConfigError("no such key", where=unknown[0], fix=nearest(unknown[0], known))
    return args, given
