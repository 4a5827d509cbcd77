"""What commands that pre-train share: their inputs, and what they would do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electra.artifacts.store import DOCUMENTS_SUFFIX, StoreFolder
from electra.commands.framework.command import Source
from electra.commands.framework.display import Display
from electra.commands.parts.train import Inputs
from electra.commands.results.artifact import given_path
from electra.foundation.config import write_toml
from electra.foundation.errors import ConfigError
from electra.training.recipe import Recipe


def inputs_of(out: Source, sources: Sequence[str], store: str | None, name: str, **more: Any) -> Inputs:
    """The text or the store of a training, and the rest of `Inputs`. name: of the command."""
    if store is not None and sources:
        raise ConfigError("both `store` and other data are given", fix="Give one of them")
    if store is None and len(sources) == 1 and _is_store(sources[0]):
        store, sources = sources[0], []
    if store is None and not sources:
        begin = "electra pretrain texts/" if name == "pretrain" else f"electra {name} TEACHER --corpus texts/"
        raise ConfigError(
            "no text and no store given", where=f"electra {name}", fix=f"For example: {begin} --out runs/mine"
        )
    return Inputs(out=str(given_path(out, "out")), corpus=tuple(sources), store=store, **more)


def _is_store(name: str) -> bool:
    return StoreFolder.is_at(Path(name)) or name.endswith(DOCUMENTS_SUFFIX)


def preview(recipe: Recipe, inputs: Inputs, display: Display) -> None:
    """Print the whole recipe and what it would cost on this machine, without training."""
    from electra.commands.parts import estimates

    option = estimates.dry_run(recipe, inputs, display)
    display.say(write_toml(estimates.recipe_sections(option.recipe)))
    for name, value in option.facts():
        display.say(f"{name:<22}{value}")
    display.say(f"measured: {option.cost.measured(option.recipe.training.batch_size)}")
