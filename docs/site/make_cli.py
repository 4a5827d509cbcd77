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
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import electra
from electra import objectives
from electra.artifacts.run_files import WHEN_RESUMED
from electra.commands.framework.command import Option, declared, has_dry_run, options_of
from electra.commands.framework.main import COMMANDS, GROUPS, class_of, summary
from electra.commands.framework.parser import DEFAULT, default_shown, flags_shown
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

Every command, option and recipe, with defaults. Made by `python docs/site/make_cli.py` from the code; change it there.

`electra COMMAND --help` prints the same, with the values of the recipe named on the command line. A switch takes no value: `--multi-label` turns it on; where two flags are listed (`--baselines, --no-baselines`), the second turns it off. In Python, a command is a function with the same arguments, `electra.finetune(MODEL, task=..., ...)`; settings of the recipe, such as `--training.length 512`, are passed as `overrides={{"training.length": 512}}`. `--version` and `--debug` (show tracebacks) can be placed anywhere in the command. Exit codes: {CODES}.

Two options set what runs at the same time: `--threads` is the number of CPU threads, and `--workers` the number of processes that
encode text before training. For a training on several GPUs, start the
command with `torchrun --nproc-per-node 8 -m electra pretrain ...`.
"""
RECIPES = """## Recipes

`--recipe` takes one of the names below or the path of a TOML file. Its values override the defaults, and flags override both:
the key `learning_rate` of the section `[training]` is the flag `--training.learning-rate`, or `--learning-rate` for short where no
other section has a key of that name. `--tokenizer DIR` is short for `--tokenizer.source DIR`. The resolved recipe is saved as `run.toml`
in the run folder. A run resumes only with the recipe it began with; only keys marked * may change.
"""


RECIPE_KEYS = "a recipe is an option too: see [Recipes](#recipes) and [Objectives](#objectives)"
MORE = {
    "finetune": "`electra finetune` that the suite does not choose is an option too: `--finetune.epochs 1` or `--epochs 1`"
}


def row(option: Option) -> tuple[str, str, str, str]:
    """Returns the cells of an option: name, value, default, meaning."""
    explained = DEFAULT.search(option.text)
    text = re.sub(r" \.(?=\s|$)", ".", DEFAULT.sub("", option.text))
    default = default_shown(option) or (explained[1] if explained else "")
    shown = option.metavar if option.positional else ", ".join(flags_shown(option))
    return f"`{shown}`", kind_of(option), default, text


def kind_of(option: Option) -> str:
    several = ", several" * (option.repeated or option.values == "+")
    if option.is_switch:
        return "switch"
    if get_origin(option.each) is Literal:
        return ", ".join(map(str, get_args(option.each))) + several
    word = {int: "number", float: "number", str: "text"}.get(option.each, "path")
    return " ".join([word] * (option.values if isinstance(option.values, int) else 1)) + several


def keys(kind: type) -> list[tuple[str, str, str, str]]:
    """The keys of a section of a recipe."""
    return [(f"`{option.name}`", *row(option)[1:]) for option in declared(kind)]


def table(heading: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [
        heading,
        tuple("---" for _ in heading),
        *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def command_section(name: str, command: Any) -> str:
    options = [option for option in options_of(command) if "." not in option.name]
    rows = [
        row(option)
        for option in sorted(
            options, key=lambda o: (not o.positional, not o.positional and not o.is_required)
        )
    ]
    if has_dry_run(command):
        rows.append(
            ("`--dry-run`", "switch", "off", " ".join((inspect.getdoc(command.preview) or "").split()))
        )
    sections = list(dict.fromkeys(o.name.partition(".")[0] for o in options_of(command) if "." in o.name))
    more = f"Every setting of {MORE.get(sections[0], RECIPE_KEYS)}.\n\n" if sections else ""
    description = "\n\n".join(
        " ".join(part.split()) for part in (inspect.getdoc(command) or "").split("\n\n")
    )
    examples = "".join(f"    {example}\n" for example in command.EXAMPLES)
    return f"### electra {name}\n\n{description}\n\n{examples}\n{more}{table(('Option', 'Value', 'Default', 'Meaning'), rows)}"


def recipe_keys() -> Iterator[str]:
    for section, kind in inspect.get_annotations(Recipe, eval_str=True).items():
        if dataclasses.is_dataclass(kind):
            rows = []
            for name, *rest in keys(kind):
                mark = " *" if f"{section}.{name.strip('`')}" in WHEN_RESUMED else ""
                rows.append((f"{name}{mark}", *rest))
            yield f"### [{section}]\n\n{table(('Key', 'Value', 'Default', 'Meaning'), rows)}"


def recipes() -> str:
    rows = []
    for name in config.toml_names(config.RECIPES):
        lines = config.find_recipe(name).read_text(encoding="utf-8").splitlines()
        comment = " ".join(line[1:].strip() for line in takewhile(lambda line: line.startswith("#"), lines))
        rows.append((f"`{name}`", re.split(r"(?<=\.)\s+(?=[A-Z])", comment)[0]))
    return table(("Recipe", "What it is"), rows)


def sizes() -> str:
    rows = [
        (
            f"`{name}`",
            *map(
                str,
                (s.num_layers, s.hidden_size, s.embedding_size, f"{s.generator_width:.3g}", s.max_positions),
            ),
        )
        for name, s in SIZES.items()
    ]
    return "### Sizes\n\n" + table(
        ("`model.size`", "Layers", "Hidden", "Embedding", "Generator's width", "Positions"), rows
    )


def all_objectives() -> str:
    rows, parts = [], []
    for name in OBJECTIVES.names():
        module = objectives.module_of(name)
        rows.append((f"`{name}`", " ".join((module.__doc__ or "").split()), module.Objective.source))
        departures = " ".join((module.Objective.__doc__ or "").split())
        parts.append(
            f"### {name}\n\n{departures}\n\n{table(('Key', 'Value', 'Default', 'Meaning'), keys(module.Config))}"
        )
    intro = "`--objective.name` selects one; its other keys are then flags as well (`--objective.mask-fraction`).\n\n"
    return "\n".join(
        ["## Objectives\n\n" + intro + table(("Objective", "What it is", "Source"), rows), *parts]
    )


def tasks() -> str:
    rows = [
        (f"`{name}`", load_task(name).source, ", ".join(load_task(name).metrics)) for name in TASKS.names()
    ]
    return "## Tasks\n\nFor `electra finetune --task`. Seeds are compared by the first metric.\n\n" + table(
        ("Task", "Source", "Metrics"), rows
    )


def page() -> str:
    lists = []
    for group, (meaning, names) in GROUPS.items():
        rows = [(f"[`{name}`](#electra-{name})", summary(name)) for name in names]
        lists.append(f"{group}: {meaning}\n\n{table(('Command', 'What it does'), rows)}")
    return "\n".join(
        [
            INTRODUCTION,
            "## Commands\n",
            *lists,
            *(command_section(name, class_of(name)) for name in COMMANDS),
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
    return "\n".join(
        ["# Made by docs/site/make_cli.py.", *lines, "", "__version__: str", "__all__: list[str]", ""]
    )


if __name__ == "__main__":
    PATH.write_text(page(), encoding="utf-8")
    STUB.write_text(stub(), encoding="utf-8")
    sys.stdout.write(f"{PATH}\n")
