"""What the commands that pre-train share: running, previewing, and their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from typing_extensions import override

from electra.artifacts.store import DOCUMENTS_SUFFIX, StoreFolder
from electra.commands.framework.command import Command, Source
from electra.commands.framework.display import Display, display_for
from electra.commands.parts.processes import run_training
from electra.commands.parts.shared import Processes, Workers
from electra.commands.parts.texts import Corpus, source_names
from electra.commands.parts.train import Inputs
from electra.commands.results.artifact import checked_path
from electra.commands.results.run import Run
from electra.foundation.config import write_toml
from electra.foundation.errors import ConfigError
from electra.training.recipe import Recipe


class PretrainingCommand(Processes, Workers, Command[Run], group="Train", examples=()):
    """A command that trains with a recipe on text or on a store."""

    data: Corpus
    out: Source

    def recipe_to_train(self) -> Recipe:
        """Returns the whole recipe. Raises ConfigError for a setting that is wrong."""
        raise NotImplementedError

    def inputs(self, sources: list[str]) -> Inputs:
        """Returns everything that a training needs besides its recipe. sources: the names in DATA."""
        raise NotImplementedError

    def train(self, recipe: Recipe, inputs: Inputs, display: Display) -> Run:
        """Trains, or resumes, and returns the run."""
        return run_training(recipe, inputs, display)

    @override
    def run(self) -> Run:
        recipe = self.recipe_to_train()
        with display_for(self.progress) as display, self._sources(recipe, display) as sources:
            return self.train(recipe, self.inputs(sources), display)

    @override
    def preview(self) -> None:
        """Print the whole recipe and what it would cost on this machine, without training."""
        from electra.commands.parts import estimates

        recipe = self.recipe_to_train()
        with display_for(self.progress) as display, self._sources(recipe, display) as sources:
            option = estimates.estimate_run(recipe, self.inputs(sources), display)
            display.say(write_toml(estimates.recipe_sections(option.recipe)))
            for name, value in option.facts():
                display.say(f"{name:<22}{value}")
            display.say(f"measured: {option.cost.timing(option.recipe.training.batch_size)}")

    def _sources(self, recipe: Recipe, display: Display) -> AbstractContextManager[list[str]]:
        return source_names(self.data, "data", recipe.data.text_field, recipe.data.format, display.say)


def inputs_of(out: Source, sources: Sequence[str], store: str | None, name: str, **more: Any) -> Inputs:
    """Returns the inputs of a training on text or on a store. name: the command's, for the error."""
    if store is not None and sources:
        raise ConfigError("both `store` and other data are given", fix="Give only one of them")
    if store is None and len(sources) == 1 and _is_store(sources[0]):
        store, sources = sources[0], []
    if store is None and not sources:
        begin = "electra pretrain texts/" if name == "pretrain" else f"electra {name} TEACHER --corpus texts/"
        what, fix = "no text and no store given", f"For example: {begin} --out runs/mine"
        raise ConfigError(what, where=f"electra {name}", fix=fix)
    return Inputs(out=str(checked_path(out, "out")), corpus=tuple(sources), store=store, **more)


def _is_store(name: str) -> bool:
    return StoreFolder.is_at(Path(name)) or name.endswith(DOCUMENTS_SUFFIX)
