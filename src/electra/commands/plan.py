"""The command `electra plan`."""

from __future__ import annotations

import shlex
from dataclasses import KW_ONLY, dataclass

from typing_extensions import override

from electra.commands.framework.command import Command, Names, Source, function
from electra.commands.framework.display import Terminal, display_for
from electra.commands.parts import estimates
from electra.commands.parts.estimates import SIZES, Plan
from electra.commands.parts.recipes import RecipeOptions, compose, recipe_for
from electra.commands.parts.texts import Corpus, source_names
from electra.foundation.errors import ConfigError
from electra.foundation.options import as_names, as_strings, checked_path


@dataclass(frozen=True)
class MakePlan(
    RecipeOptions,
    Command[Plan],
    group="Train",
    examples=(
        "electra plan texts/ --budget 2h",
        "electra plan store --budget 8h --purpose tags --sizes tiny mini --out mine.toml",
    ),
):
    """Estimate what a budget buys on this machine: time each model size briefly and recommend one.

    Nothing is trained. With --out, the recommended recipe is saved; electra pretrain DATA --recipe OUT then
    trains with it. Sizes are timed in a separate process, without compiled layers.
    """

    data: Corpus
    """The corpus: files, folders, globs, URLs, hub:NAME or python-docs; or a token store made by electra
    prepare.
    """
    _: KW_ONLY
    budget: str
    """How much to spend: 2h, 2e16flops, 50Mtokens or 5000steps."""
    sizes: Names = SIZES
    """Model sizes to compare: tiny, mini, small, small++, base, large."""
    out: Source | None = None
    """Write the recommended recipe to this TOML file."""

    @override
    def run(self) -> Plan:
        base = compose(recipe_for(self.recipe, self.purpose), self.overrides, self.budget)
        sizes, out = (
            as_strings(self.sizes, "sizes"),
            None if self.out is None else checked_path(self.out, "out"),
        )
        if not sizes:
            raise ConfigError("no size was passed", key="sizes", fix=f"For example: {' '.join(SIZES)}")
        if out is not None:
            estimates.require_file_path(out)
        recipes = [estimates.at_size(base, size, self.overrides or {}) for size in sizes]
        with (
            display_for(self.progress) as display,
            source_names(self.data, "data", base.data.text_field, base.data.format, display.say) as names,
        ):
            if not names:
                fix = f"For example: {self.EXAMPLES[0]}"
                raise ConfigError("no text was passed", where="electra plan", fix=fix)
            options, tokens, vocab_size = estimates.estimate_options(
                recipes, lambda: estimates.corpus_size(names, base, display), display
            )
            plan = Plan(self.budget, tokens, vocab_size, tuple(options), estimates.is_store(names))
            if isinstance(display, Terminal):
                estimates.print_table(plan)
            if out is not None:
                display.say(f"written: {plan.write(out)}")
            display.say(f"next: {self._next(plan)}")
        return plan

    def _next(self, plan: Plan) -> str:
        """Returns the command that trains the best option."""
        recipe = str(self.out or recipe_for(self.recipe, self.purpose))
        settings = [] if self.out else ["--model.size", plan.best.recipe.model.size, "--budget", self.budget]
        data = as_names(self.data, "data") if isinstance(self.data, tuple) else ["DATA"]
        return shlex.join(["electra", "pretrain", *data, "--recipe", recipe, *settings, "--out", "runs/NAME"])


plan = function(MakePlan)
