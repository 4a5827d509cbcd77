from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

from electra.commands.framework.command import Command, Names, Source, function
from electra.commands.framework.display import Display, display_for
from electra.commands.parts.pretraining import inputs_of, preview
from electra.commands.parts.processes import run_training
from electra.commands.parts.recipes import Overrides, Purpose, compose, recipe_for
from electra.commands.parts.shared import Processes, Workers
from electra.commands.parts.texts import Corpus, named_sources
from electra.commands.parts.train import Inputs
from electra.commands.parts.warm_start import rate_is_chosen, starts
from electra.commands.results.run import Run
from electra.foundation.options import given_name, name_of, several
from electra.training.recipe import Recipe

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


@dataclass(frozen=True)
class Pretrain(
    Processes,
    Workers,
    Command[Run],
    group="Train",
    examples=(
        "electra pretrain texts/ --out runs/mine --budget 30m",
        "electra pretrain store --purpose tags --out runs/tagger --budget 2h --learning-rate 2e-3",
    ),
):
    """Train an encoder on your text, or resume the run that a folder holds.

    Most runs need DATA, --out and --budget, and perhaps --purpose. The other options are the recipe's
    settings, by section, with the recipe's values for defaults; each may be given by its last name alone
    (--learning-rate) where only one has it.
    """

    data: Corpus = field(default=(), metadata={"flags": ("--corpus",)})
    """Text to train on: files, folders, globs, URLs, - (stdin), hub:NAME, or python-docs (the prose of
    Python's own documentation); or a token store made by electra prepare. --corpus does the same. In Python
    also texts, a DataFrame, or a data set of `datasets`.
    """
    _: KW_ONLY
    out: Source
    """The run folder. Rerun the command to resume a stopped run."""
    store: Source | None = None
    """A token store, where DATA does not show that it is one: an address (s3://..., https://...)."""
    recipe: Source | None = None
    """A recipe's name or a TOML file (default: the purpose's)."""
    purpose: Purpose | None = None
    """What the encoder is for, which chooses the recipe. pairs: of texts, and whole texts; tags: of words,
    corrections, filling masks; both: in one network, and finding words that do not fit (default: pairs).
    """
    budget: str | None = None
    """How much to spend: 30m, 2e16flops, 50Mtokens or 5000steps (default: the recipe's)."""
    overrides: Overrides = None
    """Settings that differ from the recipe's, by dotted name: {"training.learning_rate": 2e-3}."""
    milestones: Names = ()
    """Shorter budgets at which to keep finished networks (schedule wsd), such as 10Mtokens 20Mtokens."""
    init: Source | None = None
    """Start from this model, from both of its networks where it has both: a run, a model folder, or tiny-en,
    which comes with the package. Size, tokenizer and learning rate are set as by --init-discriminator.
    """
    init_discriminator: Source | None = None
    """Start from this model's discriminator, or its masked language model: a run, a model folder or a hub
    name (default: fresh weights). The run takes its size and tokenizer and, unless --learning-rate is given,
    a fifth of the recipe's rate.
    """
    init_generator: Source | None = None
    """Start from this model's generator (default: fresh weights)."""

    def run(self) -> Run:
        from electra.commands.parts.milestones import in_milestones

        recipe = self._recipe()
        with display_for(self.progress) as display, self._sources(recipe, display) as sources:
            inputs = self._inputs(sources)
            if self.milestones:
                return in_milestones(recipe, inputs, several(self.milestones, "milestones"), display)
            return run_training(recipe, inputs, display)

    def preview(self) -> None:
        """Print the whole recipe and what it would cost on this machine, without training."""
        recipe = self._recipe()
        with display_for(self.progress) as display, self._sources(recipe, display) as sources:
            preview(recipe, self._inputs(sources), display)

    def _recipe(self) -> Recipe:
        return compose(recipe_for(self.recipe, self.purpose, self.out), self.overrides, self.budget)

    def _sources(self, recipe: Recipe, display: Display) -> AbstractContextManager[list[str]]:
        return named_sources(self.data, "data", recipe.data.text_field, recipe.data.format, display.say)

    def _inputs(self, sources: list[str]) -> Inputs:
        name = given_name(recipe_for(self.recipe, self.purpose, self.out), "recipe")
        discriminator, generator = starts(self.init, self.init_discriminator, self.init_generator)
        return inputs_of(
            self.out,
            sources,
            name_of(self.store, "store"),
            "pretrain",
            init_discriminator=discriminator,
            init_generator=generator,
            workers=self.workers,
            processes=self.processes,
            recipe_name=name,
            rate_is_chosen=rate_is_chosen(name, self.overrides or ()),
            command=self.as_given,
        )


pretrain = function(Pretrain)
