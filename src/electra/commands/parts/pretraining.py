"""The base of the commands that pre-train: it runs and previews the training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from electra.commands.framework.command import Command
from electra.commands.framework.display import Display, display_for
from electra.commands.parts.shared import Processes, Workers
from electra.commands.parts.texts import Corpus, sources_of
from electra.foundation.errors import ConfigError
from electra.foundation.options import Source, TrackerName, as_name, checked_path

if TYPE_CHECKING:
    from electra.commands.parts.train import Inputs
    from electra.commands.results.run import Run
    from electra.training.recipe import Recipe


class PretrainingCommand(Processes, Workers, Command["Run"], group="Train", examples=()):
    """A command that trains with a recipe on text or on a store."""

    data: Corpus
    out: Source
    overrides: Mapping[str, Any] | None
    track: TrackerName | None

    @property
    def recipe_source(self) -> Source:
        """The name or the file of the recipe."""
        raise NotImplementedError

    @property
    def store_name(self) -> str | None:
        """The store to train on, if it was passed separately from DATA."""
        return None

    def recipe_to_train(self) -> Recipe:
        """Returns the recipe with all changes applied. Raises ConfigError for an invalid setting."""
        raise NotImplementedError

    def initial_models(self) -> tuple[str | None, str | None]:
        """Returns the models that the main network and the generator start from (None: random weights)."""
        raise NotImplementedError

    @override
    def run(self) -> Run:
        from electra.commands.parts.processes import run_training

        recipe = self.recipe_to_train()
        with display_for(self.progress) as display:
            return run_training(recipe, self._inputs(recipe, display), display)

    @override
    def preview(self) -> None:
        """Print what would be trained, how long it would take and what it needs, without training."""
        from electra.commands.parts.planning import plan

        recipe = self.recipe_to_train()
        with display_for(self.progress) as display:
            for line in plan(recipe, self._inputs(recipe, display), display).lines():
                display.say(line)

    def _inputs(self, recipe: Recipe, display: Display) -> Inputs:
        """Returns everything that training needs besides the recipe."""
        from electra.artifacts.store import DOCUMENTS_SUFFIX, StoreFolder
        from electra.commands.parts.train import Inputs
        from electra.commands.parts.warm_start import learning_rate_is_set, refuse_training_tokenizer

        sources = sources_of(self.data, "data", recipe.data.text_field, recipe.data.format, display.say)
        store, recipe_name = self.store_name, as_name(self.recipe_source, "recipe")
        if store is not None and sources:
            raise ConfigError("both `store` and other data were passed", fix="Pass only one of them")
        if store is None and len(sources) == 1:
            name = str(sources[0])
            if StoreFolder.is_at(Path(name)) or name.endswith(DOCUMENTS_SUFFIX):
                store, sources = name, []
        if store is None and not sources:
            raise ConfigError("neither text nor a store was passed", fix=f"For example: {self.EXAMPLES[0]}")
        discriminator, generator = self.initial_models()
        settings = tuple(str(name).replace("-", "_") for name in self.overrides or ())
        tokenizer = recipe.tokenizer.source or discriminator or generator
        if tokenizer and store is None:
            refuse_training_tokenizer(settings, tokenizer)
        return Inputs(
            out=str(checked_path(self.out, "out")),
            corpus=tuple(sources),
            store=store,
            init_discriminator=discriminator,
            init_generator=generator,
            workers=self.workers,
            processes=self.processes,
            track=self.track,
            recipe_name=recipe_name,
            settings=settings,
            learning_rate_is_set=learning_rate_is_set(recipe_name, settings),
            command=self.invocation,
        )
