"""Find out what a budget buys on this machine: measure each size for seconds and recommend one.

Reads the corpus (or a store) and trains nothing. Afterwards: electra pretrain --recipe OUT --corpus CORPUS.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from electra.commands.cli.arguments import Positional

if TYPE_CHECKING:
    from electra.commands.workflow.plan import Plan


@dataclass(frozen=True)
class Arguments:
    corpus: Positional[tuple[str, ...]]
    """A store made by electra prepare, or text: files, folders, globs, URLs, hub:NAME, or python-docs."""
    budget: str
    """How much to spend: 2h, 2e16flops, 50Mtokens or 5000steps."""
    recipe: str | None = None
    """The recipe to start from: a name or a TOML file (default: the purpose's)."""
    purpose: Literal["pairs", "tags", "both"] | None = None
    """What the encoder is for, which chooses the recipe. pairs: of texts, and whole texts; tags: of words,
    corrections, filling masks; both: in one network, and finding words that do not fit (default: pairs).
    """
    sizes: tuple[str, ...] = ("tiny", "mini", "small")
    """Sizes to compare: tiny, mini, small, small++, base, large."""
    out: Path | None = None
    """Write the recommended recipe to this TOML file."""


def run(arguments: Arguments) -> int:
    from electra.commands.workflow.display import Terminal
    from electra.commands.workflow.plan import plan, recipe_for, refuse_folder
    from electra.foundation.errors import ConfigError

    if not arguments.corpus:
        fix = "For example: electra plan texts/ --budget 2h"
        raise ConfigError("no text given", where="electra plan", fix=fix)
    if arguments.out is not None:
        refuse_folder(arguments.out)
    with Terminal(lines=True) as display:
        made = plan(
            arguments.corpus,
            arguments.budget,
            recipe=arguments.recipe,
            purpose=arguments.purpose,
            sizes=arguments.sizes,
            progress=display,
        )
        tell(made)
        if arguments.out is not None:
            display.say(f"written: {made.write(arguments.out)}")
        recipe = str(arguments.out or recipe_for(arguments.recipe, arguments.purpose))
        own = (
            []
            if arguments.out
            else ["--model.size", made.best.recipe.model.size, "--budget", arguments.budget]
        )
        text = "--store" if made.is_store else "--corpus"
        command = ["--recipe", recipe, *own, text, *arguments.corpus, "--out", "runs/NAME"]
        display.say(f"next: electra pretrain {shlex.join(command)}")
    return 0


def tell(made: Plan) -> None:
    """The table, and why one of its rows is recommended."""
    from rich.console import Console
    from rich.table import Table

    from electra.commands.workflow.plan import TOKENS_A_PARAMETER

    console = Console(highlight=False, soft_wrap=True)
    heads = [f"{one.recipe.model.size}{' *' * (one is made.best)}" for one in made.options]
    table = Table("", *heads, box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, *values in zip(*(one.facts() for one in made.options), strict=True):
        table.add_row(name[0], *(value for _, value in (name, *values)))
    console.print(table)
    best, cost = made.best, made.best.cost
    ratio = best.tokens / cost.layer_parameters
    reason = (
        f"the largest whose layers see {TOKENS_A_PARAMETER} tokens a parameter"
        if best.fed
        else f"the smallest, as none sees {TOKENS_A_PARAMETER} new tokens a parameter of its layers"
    )
    console.print(f"\n* {best.recipe.model.size}: {reason} (here {ratio:,.0f}).")
    console.print(
        f"Measured: {cost.measured(best.recipe.training.batch_size)}; with whatever else the machine did."
        " Evaluations and checkpoints come on top."
    )
