"""The base of the commands that pre-train: it runs and previews the training."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from typing_extensions import override

from electra.commands.framework.command import Command
from electra.commands.framework.display import Display, display_for
from electra.commands.parts.recipes import names_of
from electra.commands.parts.shared import Workers
from electra.data.settings import AllowUnknown
from electra.foundation.errors import ConfigError
from electra.foundation.options import Source, as_name, as_names, checked_path
from electra.foundation.signals import interrupt_on_signal

if TYPE_CHECKING:
    from electra.commands.parts.train import Origin, Text
    from electra.commands.results.folders import Run
    from electra.training.recipe import Recipe


class Plan(NamedTuple):
    """What a command that pre-trains was asked to do."""

    source: Source  # the name or the file of the recipe
    recipe: Recipe  # with all changes applied
    models: tuple[str | None, str | None]  # that the main network and the generator start from
    store: str | None = None  # to train on, if it was passed separately from DATA


@dataclass(frozen=True, kw_only=True)
class PretrainingCommand(AllowUnknown, Workers, Command["Run"]):
    """A command that trains with a recipe (changed by `overrides`) on text or on a store (`data`)."""

    out: Source
    """The run folder. Rerun the command to resume a stopped run."""
    budget: str | None = None
    """How much to spend: 30m, 2e16flops, 50Mtokens or 5000steps (default: the recipe's)."""

    def plan(self) -> Plan:
        """Returns what is trained. Raises ConfigError for an invalid setting."""
        raise NotImplementedError

    @override
    def run(self) -> Run:
        from electra.commands.parts.train import train_run

        began = time.monotonic()
        with display_for(self.progress) as display:
            recipe, text, origin = self._prepared(display)
            out = checked_path(self.out, "out")
            return train_run(recipe, text, out, replace(origin, began=began), display)

    @override
    def preview(self) -> None:
        """Print what would be trained, how long it would take and what it needs, without training."""
        from electra.commands.parts.stores import corpus_size
        from electra.commands.parts.train import open_store, with_store_settings
        from electra.commands.parts.warm_start import warm_start
        from electra.training.estimate import estimate

        with display_for(self.progress) as display, interrupt_on_signal("the plan"):
            recipe, text, origin = self._prepared(display)
            tokenizer = None
            if text.store is not None:
                store = open_store(text, recipe, Path(), display)
                recipe, tokenizer = with_store_settings(recipe, store), store.tokenizer
                tokens, vocab_size = store.train.num_tokens, store.vocab_size
            else:
                tokens, vocab_size = corpus_size(text.corpus, recipe, text.allow_unknown, display)
            warm = warm_start(origin.discriminator, origin.generator, recipe, tokenizer)
            display.progress("timing a few updates")
            for line in estimate(recipe, vocab_size, tokens, warm):
                display.say(line)

    def _prepared(self, display: Display) -> tuple[Recipe, Text, Origin]:
        """Returns the complete recipe, what to train on, and where the run comes from."""
        from electra.artifacts.store import DOCUMENTS_SUFFIX, StoreFolder
        from electra.commands.parts.train import Origin, Text
        from electra.commands.parts.warm_start import settle

        source, recipe, models, store = self.plan()
        out, given = checked_path(self.out, "out"), names_of(vars(self)["overrides"])
        sources = as_names(vars(self)["data"], "data")
        if store is not None and sources:
            raise ConfigError("both `store` and other data were passed", fix="Pass only one of them")
        if store is None and len(sources) == 1:
            name = sources[0]
            if StoreFolder.is_at(Path(name)) or name.endswith(DOCUMENTS_SUFFIX):
                store, sources = name, []
        if store is None and not sources:
            raise ConfigError("neither text nor a store was passed", fix=f"For example: {self.EXAMPLES[0]}")
        prepared, name = store is not None, as_name(source, "recipe")
        recipe = settle(recipe, models, out, display, source=name, given=given, prepared=prepared)
        text = Text(tuple(sources), store, self.workers, given, self.allow_unknown)
        return recipe, text, Origin(*models, recipe=name, command=self.line)
