from __future__ import annotations

import shlex
from dataclasses import KW_ONLY, dataclass

from electra.commands.framework.command import Command, Names, Source, function
from electra.commands.framework.display import Terminal, display_for
from electra.commands.parts import estimates
from electra.commands.parts.estimates import SIZES, Plan
from electra.commands.parts.recipes import Overrides, Purpose, compose, recipe_for
from electra.commands.parts.texts import Corpus, named_sources
from electra.commands.results.artifact import given_path
from electra.foundation.errors import ConfigError
from electra.foundation.options import given_names, several


@dataclass(frozen=True)
class MakePlan(
    Command[Plan],
    group="Train",
    examples=(
        "electra plan texts/ --budget 2h",
        "electra plan store --budget 8h --purpose tags --sizes tiny mini --out mine.toml",
    ),
):
    """Find out what a budget buys on this machine: measure each size for seconds and recommend one.

    Reads the corpus (or a store) and trains nothing. Afterwards: electra pretrain CORPUS --recipe OUT. Each
    size is measured in another process, without compiled layers.
    """

    data: Corpus
    """A store made by electra prepare, or text: files, folders, globs, URLs, hub:NAME, or python-docs."""
    _: KW_ONLY
    budget: str
    """How much to spend: 2h, 2e16flops, 50Mtokens or 5000steps."""
    recipe: Source | None = None
    """The recipe to start from: a name or a TOML file (default: the purpose's)."""
    purpose: Purpose | None = None
    """What the encoder is for, which chooses the recipe. pairs: of texts, and whole texts; tags: of words,
    corrections, filling masks; both: in one network, and finding words that do not fit (default: pairs).
    """
    sizes: Names = SIZES
    """Sizes to compare: tiny, mini, small, small++, base, large."""
    overrides: Overrides = None
    """Settings that differ from the recipe's, by dotted name: {"training.learning_rate": 2e-3}."""
    out: Source | None = None
    """Write the recommended recipe to this TOML file."""

    def run(self) -> Plan:
        base = compose(recipe_for(self.recipe, self.purpose), self.overrides, self.budget)
        sizes, out = several(self.sizes, "sizes"), None if self.out is None else given_path(self.out, "out")
        if not sizes:
            raise ConfigError("no size to plan for", key="sizes", fix=f"For example: {' '.join(SIZES)}")
        if out is not None:
            estimates.refuse_folder(out)
        recipes = [estimates.at_size(base, size, self.overrides or {}) for size in sizes]
        with (
            display_for(self.progress) as display,
            named_sources(self.data, "data", base.data.text_field, base.data.format, display.say) as names,
        ):
            if not names:
                raise ConfigError(
                    "no text given", where="electra plan", fix=f"For example: {self.EXAMPLES[0]}"
                )
            options, tokens, vocab_size = estimates.options(
                recipes, lambda: estimates.corpus_of(names, base, display), display
            )
            plan = Plan(self.budget, tokens, vocab_size, tuple(options), estimates.is_store(names))
            if isinstance(display, Terminal):
                estimates.print_table(plan)
            if out is not None:
                display.say(f"written: {plan.write(out)}")
            display.say(f"next: {self._next(plan)}")
        return plan

    def _next(self, plan: Plan) -> str:
        recipe = str(self.out or recipe_for(self.recipe, self.purpose))
        own = [] if self.out else ["--model.size", plan.best.recipe.model.size, "--budget", self.budget]
        data = given_names(self.data, "data") if isinstance(self.data, tuple) else ["DATA"]
        return shlex.join(["electra", "pretrain", *data, "--recipe", recipe, *own, "--out", "runs/NAME"])


plan = function(MakePlan)
