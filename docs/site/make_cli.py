"""Write docs/cli.md, the reference of every command, recipe key and objective, and the stub of `electra`, from the code itself.

    python docs/site/make_cli.py

What is described is what the command line is made of: the fields of each command and the line below each of them.
`tests/cli/test_docs.py` holds the file to it.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, takewhile
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import electra
from electra import objectives
from electra.artifacts.run_files import WHEN_RESUMED
from electra.commands.framework.command import Command, Option, declared, options_of
from electra.commands.framework.main import COMMANDS, GROUPS, class_of
from electra.commands.framework.parser import described, flags_shown
from electra.finetuning.tasks import load_task
from electra.foundation import config
from electra.foundation.extensions import OBJECTIVES, TASKS
from electra.model.sizes import SIZES
from electra.training.recipe import Recipe

PATH = Path(__file__).parents[1] / "cli.md"
STUB = Path(electra.__file__).with_suffix(".pyi")
CODES = (
    "0 success, 1 failure, 2 invalid input (one line on stderr says what is wrong, where, and what to do), "
    "74 the disk is full (rerun the command once there is room), 130 Ctrl-C, 143 SIGTERM"
)
INTRODUCTION = f"""# Command line and recipes

Every command, option and recipe, with defaults. Made from the code by `python docs/site/make_cli.py`; change it there.
`electra COMMAND --help` prints the same, with the values of the recipe named on the command line.

A switch takes no value: `--multi-label` turns it on; where two flags are listed (`--baselines, --no-baselines`), the
second turns it off. In [Python](python.md) a command is a function with the same arguments. `--version` and `--debug`
(show tracebacks) can be placed anywhere. Exit codes: {CODES}.
"""
SHARED = """## Options of several commands

"""
RECIPES = """## Recipes

`--recipe` takes one of the names below or the path of a TOML file. Its values override the defaults, and flags override
both: the key `learning_rate` of `[training]` is the flag `--training.learning-rate`, or `--learning-rate` where no other
section has a key of that name. `--tokenizer DIR` is short for `--tokenizer.source DIR`. The resolved recipe is saved as
`run.toml` in the run folder. A run resumes only with the recipe it began with; only keys marked \\* may change.
"""
PREPARED = ("tokenizer", "data")  # sections whose keys are options of `electra prepare`
OFTEN = 3  # from so many commands or objectives on, a row that they have in common stands once


RECIPE_KEYS = "a recipe is an option too: see [Recipes](#recipes) and [Objectives](#objectives)"
MORE = {
    "finetune": "`electra finetune` that the suite does not choose is an option too: `--finetune.epochs 1` or `--epochs 1`"
}


Row = tuple[str, ...]


def row(option: Option) -> Row:
    """Returns an option as its name with the kind of its value, and its meaning with the default."""
    return named(option, option.metavar if option.positional else ", ".join(flags_shown(option)))


def named(option: Option, name: str) -> Row:
    return f"`{name}` {kind_of(option)}".strip(), described(option)


def kind_of(option: Option) -> str:
    several = ", several" * (option.repeated or option.values == "+")
    if option.is_switch:
        return ""
    if get_origin(option.each) is Literal:
        return ", ".join(map(str, get_args(option.each))) + several
    word = {int: "number", float: "number", str: "text"}.get(option.each, "path")
    return " ".join([word] * (option.values if isinstance(option.values, int) else 1)) + several


def keys(kind: type) -> list[Row]:
    """The keys of a section of a recipe."""
    return [named(option, option.name) for option in declared(kind)]


def common(tables: Iterable[Iterable[Row]]) -> list[Row]:
    """The rows that several tables share, which are then printed once."""
    return [row for row, count in Counter(chain.from_iterable(tables)).items() if count >= OFTEN]


def names(rows: Iterable[Row]) -> str:
    return ", ".join(f"`{row[0].split('`')[1]}`" for row in rows)


def items(rows: Iterable[Row]) -> str:
    return "".join(f"- {name}: {meaning}\n" for name, meaning in rows)


def table(heading: Row, rows: Iterable[Row]) -> str:
    lines = [
        heading,
        tuple("---" for _ in heading),
        *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def command_rows(command: Any) -> list[Row]:
    options = [option for option in options_of(command) if "." not in option.name]
    rows = [
        row(option)
        for option in sorted(options, key=lambda o: (not o.positional, not o.positional and not o.is_required))
    ]
    if command.preview is not Command.preview:
        rows.append(("`--dry-run`", " ".join((inspect.getdoc(command.preview) or "").split())))
    return rows


def shared_options() -> list[Row]:
    return common(command_rows(class_of(name)) for name in COMMANDS)


def command_section(name: str, command: Any) -> str:
    rows, shared = command_rows(command), shared_options()
    sections = list(dict.fromkeys(o.name.partition(".")[0] for o in options_of(command) if "." in o.name))
    more = f"Every setting of {MORE.get(sections[0], RECIPE_KEYS)}.\n\n" if sections else ""
    if also := [row for row in rows if row in shared]:
        more += f"Also [{names(also)}](#options-of-several-commands).\n\n"
    description = "\n\n".join(" ".join(part.split()) for part in (inspect.getdoc(command) or "").split("\n\n"))
    examples = "".join(f"    {example}\n" for example in command.EXAMPLES)
    own = items(row for row in rows if row not in shared)
    return f"### electra {name}\n\n{description}\n\n{examples}\n{more}{own}"


def recipe_keys() -> Iterator[str]:
    for section, kind in inspect.get_annotations(Recipe, eval_str=True).items():
        if not dataclasses.is_dataclass(kind):
            continue
        if section in PREPARED:
            yield f"### [{section}]\n\n{names(keys(kind))}: see [electra prepare](#electra-prepare).\n"
            continue
        rows = []
        for name, meaning in keys(kind):
            mark = " \\*" if f"{section}.{name.split('`')[1]}" in WHEN_RESUMED else ""
            rows.append((f"{name}{mark}", meaning))
        yield f"### [{section}]\n\n{items(rows)}"


def recipes() -> str:
    rows = []
    for name in config.toml_names(config.RECIPES):
        lines = config.find_recipe(name).read_text(encoding="utf-8").splitlines()
        comment = " ".join(line[1:].strip() for line in takewhile(lambda line: line.startswith("#"), lines))
        rows.append((f"`{name}`", re.split(r"(?<=\.)\s+(?=[A-Z])", comment)[0]))
    return items(rows)


def sizes() -> str:
    rows = [
        (f"`{name}`", *map(str, (s.num_layers, s.hidden_size, s.embedding_size, f"{s.generator_width:.3g}")))
        for name, s in SIZES.items()
    ]
    [positions] = {s.max_positions for s in SIZES.values()}
    heading = ("`model.size`", "Layers", "Hidden", "Embedding", "Generator's width")
    return f"### Sizes\n\nAll have {positions} positions.\n\n{table(heading, rows)}"


def all_objectives() -> str:
    modules = {name: objectives.module_of(name) for name in OBJECTIVES.names()}
    shared = common(keys(module.Config) for module in modules.values())
    intro = (
        "`--objective.name` selects one; its other keys are then flags as well (`--objective.mask-fraction`). "
        f"[Objectives](objectives.md) compares them: {', '.join(f'[`{name}`](#{name})' for name in modules)}. "
        "These keys belong to several:\n\n"
    )
    parts = ["## Objectives\n\n" + intro + items(shared)]
    for name, module in modules.items():
        what = " ".join((module.Objective.__doc__ or "").split())
        rows = keys(module.Config)
        own = items(row for row in rows if row not in shared)
        also = names(row for row in rows if row in shared)
        parts.append(f"### {name}\n\n{what}\n\nShared keys: {also}.\n\n{own}".rstrip() + "\n")
    return "\n".join(parts)


def tasks() -> str:
    rows = [(f"`{name}` ({load_task(name).source})", ", ".join(load_task(name).metrics)) for name in TASKS.names()]
    return "## Tasks\n\nFor `electra finetune --task`. Seeds are compared by the first metric.\n\n" + items(rows)


def page() -> str:
    lists = [
        f"{group}: {meaning}. {', '.join(f'[`{name}`](#electra-{name})' for name in members)}.\n"
        for group, (meaning, members) in GROUPS.items()
    ]
    return "\n".join(
        [
            INTRODUCTION,
            "## Commands\n",
            *lists,
            *(command_section(name, class_of(name)) for name in COMMANDS),
            SHARED + items(shared_options()),
            RECIPES,
            recipes(),
            *recipe_keys(),
            sizes(),
            all_objectives(),
            tasks(),
        ]
    )


def stub() -> str:
    """What an editor and a type checker know of `import electra`: where each name is from."""
    places = {name: home for name, home in electra._HOMES.items()}
    lines = [f"from electra.{home} import {name} as {name}" for name, home in places.items()]
    lines.sort(key=lambda line: (line.split()[1], line.split()[3]))
    return "\n".join(["# Made by docs/site/make_cli.py.", *lines, "", "__version__: str", "__all__: list[str]", ""])


if __name__ == "__main__":
    PATH.write_text(page(), encoding="utf-8")
    STUB.write_text(stub(), encoding="utf-8")
    sys.stdout.write(f"{PATH}\n")
