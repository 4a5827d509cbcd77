"""Train a generator and a discriminator on text, from a corpus or a token store.

Most runs need --corpus or --store, --out, --recipe and --budget. The other options are the recipe's settings,
by section; each may be given by its last name alone (--learning-rate) where only one has it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Any

from electra.cli.arguments import expand
from electra.cli.arguments import parse as parse_arguments
from electra.config import build, find_recipe
from electra.training.recipe import (
    DataSection,
    EvaluationSection,
    ModelSection,
    Recipe,
    TokenizerSection,
    TrainingSection,
    make_recipe,
    read_recipe,
    with_budget,
)

SECTIONS = ("model", "training", "evaluation", "tokenizer", "data")
ALIASES = {"--tokenizer": "--tokenizer.source"}
FIRST = ("--model.size", "--objective.name")  # what most users choose


@dataclass(frozen=True)
class ObjectiveSection:
    """Without --objective.name, --help lists this one option; with it, all options of that objective."""

    name: str = "rtd"
    """rtd, mlm, ... (one file each in electra/objectives), an installed package's, or your own: mine.py."""


@dataclass(frozen=True)
class Options:
    corpus: tuple[str, ...] = ()
    """Text to train on: files, folders, globs, URLs, - (stdin), hub:NAME, or python-docs, the prose of
    Python's own documentation (default: python-docs).
    """
    store: str | None = None
    """A token store made by electra prepare, instead of a corpus: a folder, a .ds file, or an address
    (s3://..., https://...).
    """
    out: Path = Path("runs/electra")
    """The run folder. Rerun the command to resume a stopped run."""
    recipe: str = "tiny"
    """A recipe's name or a TOML file; flags override it."""
    budget: str | None = None
    """How much to spend: 30m, 2e16flops, 50Mtokens or 5000steps (default: the recipe's)."""
    milestones: tuple[str, ...] = ()
    """Shorter lengths at which to keep finished networks, with the schedule wsd: 10Mtokens 20Mtokens."""
    init: str | None = None
    """Start from this model, with both networks where it has both: a run, a model folder, or tiny-en, which
    comes with the package. Sets size, tokenizer and learning rate as --init-discriminator does.
    """
    init_discriminator: str | None = None
    """Start from this model's discriminator, or its masked language model: a run, a model folder or a hub
    name (default: fresh weights). The run takes its size and tokenizer and, unless --learning-rate is given,
    a fifth of the recipe's rate.
    """
    init_generator: str | None = None
    """Start from this model's generator (default: fresh weights)."""
    processes: int = 1
    """Processes on this machine that share each batch: one for each GPU, or on a CPU one for each core.
    Across machines, use torchrun.
    """
    workers: int | None = None
    """Processes that encode the corpus (default: all cores)."""
    model: ModelSection = field(default_factory=ModelSection)
    training: TrainingSection = field(default_factory=TrainingSection)
    evaluation: EvaluationSection = field(default_factory=EvaluationSection)
    tokenizer: TokenizerSection = field(default_factory=TokenizerSection)
    data: DataSection = field(default_factory=DataSection)


@dataclass(frozen=True)
class Arguments:
    options: Options
    recipe: Recipe
    argv: tuple[str, ...]


def parse(argv: Sequence[str]) -> Arguments:
    """Defaults, then the recipe file, then flags. The objective's options join the flags once its name is
    known.
    """
    path = find_recipe(_peek(argv, "--recipe") or Options.recipe)
    named = _peek(argv, "--objective.name")
    sections = read_recipe(path)
    if named is not None and named != sections.get("objective", {}).get("name", "rtd"):
        sections["objective"] = {"name": named}  # the options of another objective do not carry over
    recipe = make_recipe(sections, where=str(path))
    in_a_hurry = named is None and any(word in ("-h", "--help") for word in argv)
    objective_type = (
        ObjectiveSection if in_a_hurry else _objective_section(str(recipe.objective.get("name", "rtd")))
    )
    objective = ("objective", objective_type, field(default_factory=objective_type))
    kind = make_dataclass("Options", [objective], bases=(Options,), frozen=True)
    default: Any = kind(
        **{name: getattr(recipe, name) for name in SECTIONS},
        objective=objective_type()
        if in_a_hurry
        else build(objective_type, recipe.objective, where=f"{path}: objective"),
    )
    argv = expand(argv, kind, ALIASES)
    options = parse_arguments(
        kind, argv, verb="pretrain", description=__doc__ or "", default=default, first=FIRST
    )
    flags = dataclasses.asdict(options)
    chosen = {name: flags[name] for name in (*SECTIONS, "objective")}
    steps = _peek(argv, "--training.steps") is not None
    return Arguments(options, make_recipe(with_budget(chosen, options.budget, steps)), tuple(argv))


def run(arguments: Arguments) -> int:
    from electra.workflow import pretrain as workflow
    from electra.workflow.display import Terminal
    from electra.workflow.extend import in_milestones

    options = arguments.options
    begin = workflow.starts(options.init, options.init_discriminator, options.init_generator)
    inputs = workflow.Inputs(
        out=str(options.out),
        corpus=options.corpus,
        store=options.store,
        init_discriminator=begin[0],
        init_generator=begin[1],
        workers=options.workers,
        processes=options.processes,
        recipe_name=options.recipe,
        rate_is_chosen=workflow.rate_is_chosen(
            options.recipe, (word.partition("=")[0].removeprefix("--") for word in arguments.argv)
        ),
        command=" ".join(["pretrain", *arguments.argv]),
    )
    with Terminal(lines=True) as display:
        if options.milestones:
            in_milestones(arguments.recipe, inputs, options.milestones, display)
        else:
            workflow.carry_out(arguments.recipe, inputs, display)
    return 0


def _objective_section(name: str) -> type:
    """The options of one objective as a dataclass. Reading them imports torch, which a bare --help does not
    wait for.
    """
    from electra import objectives

    config = objectives.module_of(name).Config
    return make_dataclass(
        "ObjectiveSection", [("name", str, field(default=name))], bases=(config,), frozen=True
    )


def _peek(argv: Sequence[str], flag: str) -> str | None:
    """The last value given for a flag, before real parsing."""
    value = None
    for position, argument in enumerate(argv):
        if argument.startswith(f"{flag}="):
            value = argument.partition("=")[2]
        elif argument == flag and position + 1 < len(argv):
            value = argv[position + 1]
    return value
