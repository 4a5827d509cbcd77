from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from electra.commands.framework.command import Command, OnCommandLine, Sections, Source, function
from electra.commands.framework.display import Display, display_for
from electra.commands.parts.pretraining import inputs_of, preview
from electra.commands.parts.processes import run_training
from electra.commands.parts.recipes import compose, recipe_for, recipe_sections
from electra.commands.parts.shared import Processes, Workers
from electra.commands.parts.texts import Corpus, named_sources
from electra.commands.parts.train import Inputs
from electra.commands.parts.warm_start import cut_name, rate_is_chosen
from electra.commands.results.run import Run
from electra.foundation.config import convert
from electra.foundation.errors import ConfigError
from electra.foundation.options import given_name
from electra.training.recipe import Recipe

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

RECIPE = "distil"


@dataclass(frozen=True)
class Distil(
    Processes,
    Workers,
    Command[Run],
    group="Train",
    examples=(
        "electra distil TEACHER --corpus texts/ --out runs/small --keep-layers 0,2,5 --cut-to 12000",
        "electra distil TEACHER --corpus texts/ --out runs/small --layers 8 --hidden-size 128 --budget 2h",
    ),
):
    """Train a small encoder on your text with the knowledge of a larger one, or resume such a run.

    The student learns the teacher's states and text vectors and, beside them, replaced token detection. It
    begins with some of the teacher's layers (--keep-layers), or with fresh weights of any size. Everything
    else is as for electra pretrain: resuming, budgets, the recipe's settings.
    """

    teacher: Source
    """The encoder to learn from: a run, a model folder or a hub name (BERT, RoBERTa, ELECTRA, ModernBERT,
    DeBERTa, sentence-transformers). The text is read with its tokenizer, or with one cut from it.
    """
    data: Corpus = field(default=(), metadata={"flags": ("--corpus",)})
    """Text to train on, or a token store, as for electra pretrain."""
    _: KW_ONLY
    out: Source
    """The run folder. Rerun the command to resume a stopped run."""
    keep_layers: Annotated[str | Sequence[int] | None, OnCommandLine(str | None)] = None
    """Layers of the teacher that the student begins with, counted from 0, such as 0,2,5; also its width and
    its embeddings (default: fresh weights of --layers and --hidden-size).
    """
    recipe: Source | None = None
    """A recipe's name or a TOML file (default: distil)."""
    budget: str | None = None
    """How much to spend: 30m, 2e16flops, 50Mtokens or 5000steps (default: the recipe's). The teacher's passes
    count.
    """
    overrides: Annotated[
        Mapping[str, Any] | None,
        Sections(
            partial(recipe_sections, default=RECIPE),
            {"objective": "objective.name", "tokenizer": "tokenizer.source"},
            frozenset({"teacher"}),
        ),
    ] = None
    """Settings that differ from the recipe's, by dotted name: {"objective.states_weight": 10.0}."""

    def run(self) -> Run:
        recipe = self._recipe()
        with display_for(self.progress) as display, self._sources(recipe, display) as sources:
            return run_training(recipe, self._inputs(sources), display)

    def preview(self) -> None:
        """Print the whole recipe and what it would cost on this machine, without training."""
        recipe = self._recipe()
        with display_for(self.progress) as display, self._sources(recipe, display) as sources:
            preview(recipe, self._inputs(sources), display)

    def _recipe(self) -> Recipe:
        teacher = given_name(self.teacher, "teacher")
        own = {"objective.teacher": teacher, "tokenizer.source": teacher}
        return compose(self._name, own | dict(self.overrides or {}), self.budget)

    @property
    def _name(self) -> Source:
        return recipe_for(self.recipe, None, self.out, RECIPE)

    def _sources(self, recipe: Recipe, display: Display) -> AbstractContextManager[list[str]]:
        return named_sources(self.data, "data", recipe.data.text_field, recipe.data.format, display.say)

    def _inputs(self, sources: list[str]) -> Inputs:
        teacher, name = given_name(self.teacher, "teacher"), given_name(self._name, "recipe")
        layers = None if self.keep_layers is None else layers_of(self.keep_layers)
        return inputs_of(
            self.out,
            sources,
            None,
            "distil",
            init_discriminator=None if layers is None else cut_name(teacher, layers),
            workers=self.workers,
            processes=self.processes,
            recipe_name=name,
            rate_is_chosen=rate_is_chosen(name, self.overrides or ()),
            command=self.as_given,
        )


def layers_of(given: str | Sequence[int]) -> tuple[int, ...]:
    """The numbers of layers in a text such as 0,2,5, or in a sequence."""
    if not isinstance(given, str):
        numbers: tuple[int, ...] = convert(tuple[int, ...], tuple(given), "keep_layers")
        return numbers
    try:
        return tuple(int(number) for number in given.split(","))
    except ValueError:
        fix = "Give the numbers of layers with commas, such as 0,2,5"
        raise ConfigError(f"not a list of layers: {given!r}", key="keep_layers", fix=fix) from None


distil = function(Distil)
