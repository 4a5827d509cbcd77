"""Write docs/cli.md, the reference of every verb, recipe key and objective, from the code itself.

    python docs/make_cli.py

What is described is what the command line is made of: the fields of each verb's dataclass and the line below each of them.
`tests/cli/test_docs.py` holds the file to it.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

from electra import objectives
from electra.artifacts.harmless import WHEN_RESUMED
from electra.artifacts.model import Dtype
from electra.commands.cli.arguments import written
from electra.commands.cli.main import verbs
from electra.exchange.pooling import Pooling
from electra.finetuning.tasks import load_task, task_names
from electra.foundation import config
from electra.foundation.machine import Device
from electra.model.sizes import SIZES
from electra.training.recipe import Recipe

DEFAULT = re.compile(r" ?\(default: ([^)]*)\)")  # what leaving an option out means, where the code has None
CHOICES = {"Device": Device, "Dtype": Dtype, "Pooling": Pooling}  # options whose values have a name in the code
PATH = Path(__file__).with_name("cli.md")
CODES = (
    "0 done, 1 failed, 2 the input is wrong (one line on stderr says what, where and what to do), "
    "74 the disk is full (the same command continues once there is room), 130 Ctrl-C, 143 SIGTERM"
)
INTRODUCTION = f"""# Command line and recipes

Made by `python docs/make_cli.py` from the code; change it there.

`electra COMMAND --help` prints the same. A switch takes no value: `--ensemble` turns it on, `--no-floors` off. `--version` and `--debug` (tracebacks) go anywhere. Exit codes: {CODES}.

For completion of commands, options and their values, put one line into your shell's startup file: `source <(electra
--print-completion bash)`, the same with `zsh`, or `electra --print-completion fish | source`.
"""
RECIPES = """## Recipes

`--recipe` takes one of the names below or the path of a TOML file. A recipe is defaults, overridden by the file, overridden by flags:
the key `learning_rate` of the section `[training]` is the flag `--training.learning-rate`, or `--learning-rate` for short where no
other section has a key of that name. `--tokenizer DIR` is short for `--tokenizer.source DIR`. The resolved recipe is kept in `run.toml`
in the run folder. A run resumes only with the recipe it began with; keys marked * are free to change.
"""


MORE = {
    "pretrain": "Every key of a recipe is a flag too: see [Recipes](#recipes) and [Objectives](#objectives).\n\n",
    "prepare": "Every key of a recipe's sections [tokenizer] and [data] is a flag too (here `--tokenizer.vocab-size` is"
    " 30522 by default): see [Recipes](#recipes).\n\n",
}


class Option(NamedTuple):
    name: str
    kind: str
    default: str
    help: str


def options(cls: type) -> Iterator[Option]:
    """The fields of a dataclass in order, each with the string that stands below it in the source."""
    found = written(cls)
    for field in dataclasses.fields(cls):
        annotation, text = found[field.name]
        told = DEFAULT.search(text)
        text = re.sub(r" \.(?=\s|$)", ".", DEFAULT.sub("", text))
        yield Option(field.name, _kind(annotation), _default(field) or (told[1] if told else ""), text)


def _kind(annotation: ast.expr) -> str:
    text = ast.unparse(annotation)
    if isinstance(annotation, ast.BinOp):  # X | None: the help says what none means
        return _kind(annotation.left)
    if isinstance(annotation, ast.Subscript):
        inner = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        if text.startswith("Literal"):
            return ", ".join(str(ast.literal_eval(choice)) for choice in inner)
        if text.startswith(("Positional", "Repeated")):
            return _kind(inner[0])
        if text.startswith("tuple"):
            return f"{_kind(inner[0])}, several" if text.endswith("...]") else " ".join(_kind(one) for one in inner)
    if text in CHOICES:
        return ", ".join(get_args(CHOICES[text]))
    return {"str": "text", "int": "number", "float": "number", "bool": "switch", "Path": "path"}.get(text, text)


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is dataclasses.MISSING:
        return "required"
    value = field.default
    if value is None or value in ((), ""):
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def table(heading: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [heading, tuple("---" for _ in heading), *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def verb(name: str, module: Any) -> str:
    cls = module.Arguments
    sections = {field.name for field in dataclasses.fields(Recipe)}
    positional = _positional(cls)
    rows = []
    for option in options(cls):
        if option.name in sections and name in MORE:
            continue
        flag = option.name.upper() if option.name in positional else f"--{option.name.replace('_', '-')}"
        rows.append((f"`{flag}`", option.kind, option.default, option.help))
    rows.sort(key=lambda row: row[0].startswith("`--"))  # what is given without a flag comes first
    more = MORE.get(name, "")
    description = " ".join((module.__doc__ or "").split())
    return f"### electra {name}\n\n{description}\n\n{more}{table(('Option', 'Value', 'Default', 'Meaning'), rows)}"


def _positional(cls: type) -> set[str]:
    return {name for name, (annotation, _) in written(cls).items() if ast.unparse(annotation).startswith("Positional")}


def recipe_keys() -> Iterator[str]:
    for section, kind in inspect.get_annotations(Recipe, eval_str=True).items():
        if dataclasses.is_dataclass(kind):
            rows = []
            for option in options(kind):
                mark = " *" if f"{section}.{option.name}" in WHEN_RESUMED else ""
                rows.append((f"`{option.name}`{mark}", option.kind, option.default, option.help))
            yield f"### [{section}]\n\n{table(('Key', 'Value', 'Default', 'Meaning'), rows)}"


def recipes() -> str:
    rows = []
    for name in config.names_in(config.RECIPES):
        first = config.find_recipe(name).read_text(encoding="utf-8").splitlines()[0]
        rows.append((f"`{name}`", first.removeprefix("#").strip() if first.startswith("#") else ""))
    return table(("Recipe", "What it is"), rows)


def sizes() -> str:
    rows = [
        (f"`{name}`", *map(str, (s.num_layers, s.hidden_size, s.embedding_size, f"{s.generator_width:.3g}", s.max_positions)))
        for name, s in SIZES.items()
    ]
    return "### Sizes\n\n" + table(("`model.size`", "Layers", "Hidden", "Embedding", "Generator's width", "Positions"), rows)


def all_objectives() -> str:
    rows, parts = [], []
    for name in objectives.names():
        module = objectives.module_of(name)
        rows.append((f"`{name}`", " ".join((module.__doc__ or "").split()), module.Objective.source))
        keys = [(f"`{o.name}`", o.kind, o.default, o.help) for o in options(module.Config)]
        departures = " ".join((module.Objective.__doc__ or "").split())
        parts.append(f"### {name}\n\n{departures}\n\n{table(('Key', 'Value', 'Default', 'Meaning'), keys)}")
    intro = "`--objective.name` picks one; the others of its keys are flags then (`--objective.mask-fraction`).\n\n"
    return "\n".join(["## Objectives\n\n" + intro + table(("Objective", "What it is", "Source"), rows), *parts])


def tasks() -> str:
    rows = [(f"`{name}`", load_task(name).source, ", ".join(load_task(name).metrics)) for name in task_names()]
    return "## Tasks\n\nFor `electra finetune --task`. The first metric is the one that seeds are compared by.\n\n" + table(
        ("Task", "Source", "Metrics"), rows
    )


def page() -> str:
    modules = {name: importlib.import_module(path) for name, path in verbs().items()}
    overview = [(f"[`{name}`](#electra-{name})", (module.__doc__ or "").strip().splitlines()[0]) for name, module in modules.items()]
    return "\n".join(
        [
            INTRODUCTION,
            "## Commands\n\n" + table(("Command", "What it does"), overview),
            *(verb(name, module) for name, module in modules.items()),
            RECIPES,
            recipes(),
            *recipe_keys(),
            sizes(),
            all_objectives(),
            tasks(),
        ]
    )


if __name__ == "__main__":
    PATH.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PATH}\n")
