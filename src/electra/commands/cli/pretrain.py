"""Train a generator and a discriminator on text, from a corpus or a token store.

Most runs need --corpus or --store, --out, --recipe and --budget. The other options are the recipe's settings,
by section; each may be given by its last name alone (--learning-rate) where only one has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from electra.commands.cli import recipe_flags
from electra.commands.cli.recipe_flags import Parsed
from electra.training.recipe import (
    DataSection,
    EvaluationSection,
    ModelSection,
    TokenizerSection,
    TrainingSection,
)

if TYPE_CHECKING:
    from electra.commands.workflow.display import Display
    from electra.commands.workflow.plan import Option


@dataclass(frozen=True)
class Arguments:
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
    """Shorter budgets at which to keep finished networks (schedule wsd), such as 10Mtokens 20Mtokens."""
    init: str | None = None
    """Start from this model, from both of its networks where it has both: a run, a model folder, or tiny-en,
    which comes with the package. Size, tokenizer and learning rate are set as by --init-discriminator.
    """
    init_discriminator: str | None = None
    """Start from this model's discriminator, or its masked language model: a run, a model folder or a hub
    name (default: fresh weights). The run takes its size and tokenizer and, unless --learning-rate is given,
    a fifth of the recipe's rate.
    """
    init_generator: str | None = None
    """Start from this model's generator (default: fresh weights)."""
    processes: int = 1
    """Processes on this machine that share each batch: one for each GPU. On a CPU threads do as well. Across
    machines, use torchrun.
    """
    workers: int | None = None
    """Processes that encode the corpus (default: all cores)."""
    dry_run: bool = False
    """Print the whole recipe and what it would cost on this machine, without training."""
    model: ModelSection = field(default_factory=ModelSection)
    training: TrainingSection = field(default_factory=TrainingSection)
    evaluation: EvaluationSection = field(default_factory=EvaluationSection)
    tokenizer: TokenizerSection = field(default_factory=TokenizerSection)
    data: DataSection = field(default_factory=DataSection)


def parse(argv: Sequence[str]) -> Parsed[Arguments]:
    return recipe_flags.parse(
        Arguments, argv, recipe=Arguments.recipe, verb="pretrain", description=__doc__ or ""
    )


def run(arguments: Parsed[Arguments]) -> int:
    from electra.commands.workflow.display import Terminal
    from electra.commands.workflow.extend import in_milestones
    from electra.commands.workflow.plan import dry_run
    from electra.commands.workflow.pretrain import carry_out
    from electra.commands.workflow.train import Inputs
    from electra.commands.workflow.warm_start import rate_is_chosen, starts

    options = arguments.options
    begin = starts(options.init, options.init_discriminator, options.init_generator)
    inputs = Inputs(
        out=str(options.out),
        corpus=options.corpus,
        store=options.store,
        init_discriminator=begin[0],
        init_generator=begin[1],
        workers=options.workers,
        processes=options.processes,
        recipe_name=options.recipe,
        rate_is_chosen=rate_is_chosen(options.recipe, arguments.named()),
        command=" ".join(["pretrain", *arguments.argv]),
    )
    with Terminal(lines=True) as display:
        if options.dry_run:
            tell_plan(dry_run(arguments.recipe, inputs, display), display)
        elif options.milestones:
            in_milestones(arguments.recipe, inputs, options.milestones, display)
        else:
            carry_out(arguments.recipe, inputs, display)
    return 0


def tell_plan(option: Option, display: Display) -> None:
    from electra.commands.workflow.plan import recipe_sections
    from electra.foundation.config import write_toml

    display.say(write_toml(recipe_sections(option.recipe)))
    for name, value in option.facts():
        display.say(f"{name:<22}{value}")
    display.say(f"measured: {option.cost.measured(option.recipe.training.batch_size)}")
