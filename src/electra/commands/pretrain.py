"""The command `electra pretrain`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field

from typing_extensions import override

from electra.commands.framework.command import function
from electra.commands.framework.shared import Overrides, PretrainingCommand
from electra.foundation.options import Source, Sources, as_name, checked_path, optional_name
from electra.training.request import Request, compose, names_of, recipe_for


@dataclass(frozen=True)
class Pretrain(
    PretrainingCommand,
    examples=(
        "electra pretrain texts/ --out runs/mine --budget 30m",
        "electra pretrain store --recipe budget-mlm --out runs/tagger --budget 2h --learning-rate 2e-3",
    ),
):
    """Train an encoder on your text, or resume a stopped run.

    Most runs need only DATA, --out, --budget and perhaps --recipe. The other options override the settings
    of the recipe. The last part of a name, such as --learning-rate for --training.learning-rate, is enough if
    only one section has it.
    """

    data: Sources = field(default=(), metadata={"flags": ("--corpus",)})
    """Text to train on: files, folders, globs, - (stdin), hub:NAME, or python-docs (Python's own
    documentation); or a token store made by electra prepare. Can also be passed as --corpus.
    """
    _: KW_ONLY
    recipe: Source | None = None
    """The recipe: a name or a TOML file. budget-tiny: for whole texts and pairs; budget-mlm: for tagging,
    correction and filling masks; words-first: for both with one network (default: budget-tiny).
    """
    overrides: Overrides = None
    """Settings that override the recipe's, by dotted name: {"training.learning_rate": 2e-3}."""
    store: Source | None = None
    """A token store, instead of DATA: a folder, or a .ds file."""
    init: Source | None = None
    """Start from all networks of this model: a run, a model folder, a hub name, or one that comes with the
    package (tiny-en, small-en). Size, tokenizer and learning rate are set as with --init-discriminator.
    """
    init_discriminator: Source | None = None
    """Start from this model's discriminator, or from its masked language model if it has no discriminator:
    a run, a model folder or a hub name (default: random initialization). The run uses its size and tokenizer,
    and a fifth of the recipe's learning rate unless --learning-rate is set.
    """

    @override
    def request(self) -> Request:
        from electra.training.starts import initial_models

        source = as_name(recipe_for(self.recipe, self.out), "recipe")
        recipe = compose(source, self.overrides, self.budget)
        main, generator = initial_models(recipe.objective, self.init, self.init_discriminator)
        return Request(
            recipe,
            self.text(self.data, optional_name(self.store, "store")),
            checked_path(self.out, "out"),
            main,
            generator,
            source=source,
            given=names_of(self.overrides),
            command=self.line,
        )


pretrain = function(Pretrain)
